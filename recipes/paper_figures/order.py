"""§3.5: without positions, the encoder ignores the word order. §3.2.3: attention masks."""

import random
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import Model
from nmt.model.attention import Visibility, attention_weights
from nmt.model.tokens import Tokens
from nmt.model.transformer import Transformer
from recipes.paper_figures.drawing import heat_map, name_ticks

SENTENCE = [
    "yesterday", "the", "old", "man", "gave", "his", "curious", "daughter", "a", "letter",
]  # fmt: skip


class NoPositions(nn.Module):
    """A replacement for positional encodings that returns zeros."""

    max_length = None

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Returns zeros (..., 1), which broadcast to every d_model."""
        return torch.zeros(*positions.shape, 1)


def random_transformer(seed: int = 0) -> Transformer:
    """Returns a small model with random weights; the results hold for any weights."""
    model = Model(d_model=64, d_ff=128, heads=4, d_k=16, d_v=16, encoder_layers=2, decoder_layers=2)
    transformer = Transformer(model, vocabulary_size=100, max_length=64)
    transformer.initialize(seed)
    return transformer.eval()


@torch.no_grad()
def state_distances(transformer: Transformer, tokens: Tensor, order: list[int]) -> Tensor:
    """Returns the distances between the encoder's states for a sentence and for a shuffled copy.

    Args:
        tokens: tokens of the sentence, (C,) int64.
        order: index of the original word at each position of the shuffled sentence.

    Returns:
        Distances (C, C). Rows are positions in the original sentence, columns are positions in the
        shuffled sentence.
    """
    states, shuffled = (
        transformer.encode(Tokens.of_rows(row[None]))[0] for row in (tokens, tokens[order])
    )
    return torch.cdist(states, shuffled, compute_mode="donot_use_mm_for_euclid_dist")


def draw_order(*panels: Any) -> list[str]:
    """Plots the distances for a shuffled sentence, without and with positional encodings."""
    order = random.Random(1).sample(range(len(SENTENCE)), len(SENTENCE))
    tokens = torch.arange(10, 10 + len(SENTENCE))
    shuffled = [SENTENCE[i] for i in order]
    lines = ["shuffled: " + " ".join(shuffled)]
    for axes, has_positions in zip(panels, (False, True), strict=True):
        transformer = random_transformer()
        if not has_positions:
            transformer.positions = NoPositions()
        name = "with positions" if has_positions else "without positions"
        distances = state_distances(transformer, tokens, order)
        heat_map(axes, distances, "distance of states", cmap="Blues_r", vmin=0)
        name_ticks(axes, shuffled, SENTENCE)
        axes.set(title=f"Encoder {name}", xlabel="the shuffled sentence", ylabel="the sentence")
        moved = distances[order, range(len(order))]  # between the two states of each word
        lines.append(f"{name}: a word's state moves by at most {moved.max():.1e}")
    return lines


def masks(length: int) -> dict[str, Tensor]:
    """Returns boolean masks (C, C) by name, True where a query (row) can attend to a key."""
    at = torch.arange(length)[None]
    half = 1 + (at >= length // 2).long()
    sees = {
        "causal mask (§3.2.3)": Visibility(positions=(at, at), causal=True),
        "two sentences in one row": Visibility((half, half)),
        "restricted, r = 4 (§4)": Visibility(positions=(at, at), window=4),
    }
    flat = torch.zeros(1, 1, length, 1)  # equal scores, so that the weights show the mask
    return {name: attention_weights(flat, flat, rule)[0, 0] > 0 for name, rule in sees.items()}


def draw_masks(*panels: Any) -> list[str]:
    """Plots each mask; dark cells mark allowed attention."""
    found = masks(len(SENTENCE))
    for axes, (name, sees) in zip(panels, found.items(), strict=True):
        axes.imshow(sees.numpy(), cmap="Blues", vmin=0, vmax=1.4, interpolation="nearest")
        name_ticks(axes, SENTENCE, SENTENCE)
        axes.set(title=name, xlabel="keys: looked at", ylabel="queries: looking")
    return [f"{name}: {int(sees.sum())} of {sees.numel()} scores" for name, sees in found.items()]
