"""§3.5: positions as rotations, their similarity, and extrapolation to unseen positions."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmt.data.pair import TokenPair
from nmt.decoding.score import log_probabilities
from nmt.demo_language import DemoPair
from nmt.model.positions import sinusoids
from nmt.model.transformer import Transformer
from nmt.translator import Translator
from recipes.paper_figures.drawing import heat_map

MOVES = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
JOINED = (1, 2, 3, 4, 6, 8)


def draw_positions(axes: Any) -> list[str]:
    """Plots the positional encodings, with sines and cosines interleaved."""
    table = sinusoids(128, 128)
    heat_map(axes, table, "PE", aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
    axes.set(xlabel="dimension", ylabel="position", title="Positional encodings (§3.5)")
    return []


def rotation(offset: int, d_model: int) -> Tensor:
    """Returns the matrix M with PE(pos + offset) = M PE(pos): (d_model, d_model) float64.

    M rotates each pair of dimensions (2i, 2i + 1) by the angle offset / 10000^(2i / d_model),
    because sin(a + b) = sin a cos b + cos a sin b and cos(a + b) = cos a cos b - sin a sin b.
    """
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = offset * torch.exp(even * (-math.log(10_000.0) / d_model))
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
    return torch.block_diag(*blocks)


def similarity(d_model: int, distances: Sequence[int], position: int = 1000) -> list[float]:
    """Returns the cosine of PE(pos) and PE(pos + distance), which is the same for every pos."""
    table = sinusoids(position + max(distances) + 1, d_model)
    at = [position + distance for distance in distances]
    return torch.cosine_similarity(table[at], table[position][None]).tolist()


def draw_rotation(matrix: Any, cosines: Any) -> list[str]:
    """Plots the matrix M with PE(pos + 3) = M PE(pos), and the similarity of encodings."""
    offset, d_model = 3, 32
    heat_map(matrix, rotation(offset, d_model), "entry", cmap="RdBu", vmin=-1, vmax=1)
    matrix.set(
        title=f"M in PE(pos + {offset}) = M PE(pos), d_model = {d_model}",
        xlabel="dimension of PE(pos)",
        ylabel=f"dimension of PE(pos + {offset})",
    )
    table = sinusoids(1001, 512).double()
    error = (table[:-offset] @ rotation(offset, 512).T - table[offset:]).abs().max()
    distances = range(-100, 101)
    for size in (64, 128, 512):
        cosines.plot(distances, similarity(size, distances), label=f"d_model {size}")
    cosines.set(title="Near positions are alike", xlabel="distance k in positions",
                ylabel="cosine of PE(pos) and PE(pos + k)", ylim=(None, 1.05))  # fmt: skip
    cosines.legend()
    near = zip((0, 1, 2, 5, 10, 50, 100), similarity(512, (0, 1, 2, 5, 10, 50, 100)), strict=True)
    cosine = ", ".join(f"{value:.2f} at {distance}" for distance, value in near)
    return [
        f"d_model 512: M PE(pos) is PE(pos + {offset}) to {error:.0e} at every position to 1,000",
        f"d_model 512: cosine {cosine}",
    ]


class Moved(nn.Module):
    """Positional encodings that start at a position other than 0."""

    max_length = None

    def __init__(self, positions: nn.Module, by: int):
        super().__init__()
        self.positions, self.by = positions, by

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Returns the encodings of the shifted positions: (...) -> (..., d_model)."""
        return self.positions(positions + self.by, length + self.by)


@contextmanager
def moved(transformer: Transformer, by: int) -> Iterator[Transformer]:
    """Adds `by` to all positions in the encoder and the decoder, within the block."""
    own = transformer.positions
    transformer.positions = Moved(own, by)
    try:
        yield transformer
    finally:
        transformer.positions = own


def nll(transformer: Transformer, pairs: Sequence[TokenPair]) -> float:
    """Returns the loss of reference translations in nats per target token, including EOS."""
    found = [value for some in log_probabilities(transformer, pairs) for value in some]
    return -math.fsum(found) / len(found)


def pairs_of_ids(
    translator: Translator, pairs: Sequence[DemoPair], joined: int = 1
) -> list[TokenPair]:
    """Returns pairs of token ids; each pair consists of `joined` consecutive sentence pairs."""
    groups = [pairs[i : i + joined] for i in range(0, len(pairs) - joined + 1, joined)]
    return translator.tokenizer.encode_pairs(
        [" ".join(pair.source for pair in some) for some in groups],
        [" ".join(pair.target for pair in some) for some in groups],
    )


def nll_when_moved(
    translator: Translator, pairs: Sequence[TokenPair], moves: Sequence[int]
) -> dict[int, float]:
    """Returns the loss (nats per token) by the position of the first word.

    Omits positions that the model does not support.
    """
    limit = translator.transformer.max_length or math.inf  # learned positions have a limit
    longest = max(len(side) for pair in pairs for side in pair)
    found = {}
    for by in moves:
        if by + longest <= limit:
            with moved(translator.transformer, by) as transformer:
                found[by] = nll(transformer, pairs)
    return found


def nll_when_joined(
    translator: Translator, pairs: Sequence[DemoPair], joined: Sequence[int]
) -> dict[float, float]:
    """Returns the loss (nats per token) by mean target length, for each number of sentences."""
    limit = translator.transformer.max_length or math.inf
    found = {}
    for count in joined:
        some = pairs_of_ids(translator, pairs, count)
        if some and max(len(side) for pair in some for side in pair) <= limit:
            length = float(np.mean([len(target) for _, target in some]))
            found[length] = nll(translator.transformer, some)
    return found


def draw_beyond(
    translator: Translator, pairs: Sequence[DemoPair], by_move: Any, by_length: Any
) -> list[str]:
    """Plots the loss at positions and lengths that do not occur in training."""
    plain = pairs_of_ids(translator, pairs)
    longest = max(len(target) for _, target in plain)
    moves = nll_when_moved(translator, plain, MOVES)
    lengths = nll_when_joined(translator, pairs, JOINED)
    by_move.plot([*moves], [*moves.values()], marker="o")
    by_move.axvspan(longest, max(longest, *moves), color="grey", alpha=0.15,
                    label=f"no position in common with\nsentences of {longest} tokens")  # fmt: skip
    by_move.set(title="The same sentences, moved", xlabel="position number of the first word")
    by_length.plot([*lengths], [*lengths.values()], marker="o", color="C1")
    by_length.axvline(longest, color="grey", linestyle=":",
                      label=f"longest single sentence: {longest} tokens")  # fmt: skip
    by_length.set(title="Several sentences as one", xlabel="mean length of the target, in tokens")
    for axes in (by_move, by_length):
        axes.set(ylabel="nats per target token", xlim=0, ylim=0)
        axes.legend()
    texts = (
        ", ".join(f"{v:.2f} at {at:.0f}" for at, v in some.items()) for some in (moves, lengths)
    )
    return [
        f"nats per token by the position of the first word: {next(texts)}",
        f"nats per token by length, sentences joined: {next(texts)}",
    ]
