"""§3.2.3: word alignments from cross-attention, compared with the demo's lexicon."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.demo_language import Alignment, DemoPair, aligned
from nmt.evaluation.attention_maps import AttentionMaps, attention_of
from nmt.translator import Translator
from recipes.paper_figures.drawing import heat_map, name_ticks

Link = tuple[int, int]  # indices of a source word and a target word

_SPACE_SIGN = "▁"


@dataclass
class Counts:
    """Numbers of links for the alignment error rate (AER), 1 - (|A & S| + |A & P|) / (|A| + |S|).

    As in Och and Ney (2003), A is the set of predicted links, S is the set of sure links, and P is
    the set of possible links, which includes S. An AER of 0 is perfect.
    """

    found: int = 0
    sure: int = 0  # |S|
    hit_sure: int = 0
    hit_possible: int = 0

    def add(self, links: Iterable[Link], truth: Alignment) -> None:
        """Adds the counts of another sentence's links."""
        links = set(links)
        self.found += len(links)
        self.sure += len(truth.sure)
        self.hit_sure += len(links & truth.sure)
        self.hit_possible += len(links & truth.possible)

    @property
    def error_rate(self) -> float:
        """The AER, from 0 to 1."""
        return 1 - (self.hit_sure + self.hit_possible) / (self.found + self.sure)


def owners(pieces: Sequence[str], words: Sequence[str]) -> np.ndarray:
    """Returns the index of the word in which each piece of a text begins, except for EOS.

    Pieces are matched by bytes, because some pieces are single bytes.
    """
    sizes = [1 if piece.startswith("<0x") else len(piece.replace(_SPACE_SIGN, "").encode())
             for piece in pieces if piece != "</s>"]  # fmt: skip
    begins = np.cumsum([0, *sizes[:-1]])
    ends = np.cumsum([len(word.encode()) for word in words])
    if sum(sizes) != ends[-1]:
        raise ValueError(f"{pieces} are not the pieces of {words}.")
    return np.searchsorted(ends, begins, side="right")


def word_weights(maps: AttentionMaps, truth: Alignment, read: bool = False) -> np.ndarray:
    """Returns the cross-attention weights between words, for each head and for the mean of heads.

    The shape is (layers, heads + 1, T, S), where T and S are the numbers of target and source
    words. The mean is the last head. The weights of a source word's pieces are added, and the
    weights of a target word's pieces are averaged. Attention to the source EOS is ignored.

    Args:
        read: whether to take a target piece's weights from the step that reads the piece and
            predicts the next piece, instead of from the step that predicts the piece.
    """
    source, target = (
        owners(pieces, words)
        for pieces, words in (
            (maps.source_pieces, truth.source),
            (maps.target_pieces, truth.target),
        )
    )
    of_source = np.eye(len(truth.source))[source]  # (pieces, words)
    of_target = np.eye(len(truth.target))[target]
    steps = np.arange(len(target)) + read
    cross = maps.cross[:, :, steps, : len(source)] @ of_source
    pieces = np.maximum(1, of_target.sum(0))  # 0 if a piece contains two words, such as "3."
    cross = (of_target / pieces).T @ cross
    return np.concatenate([cross, cross.mean(1, keepdims=True)], axis=1)


def strongest_links(weights: np.ndarray, truth: Alignment) -> set[Link]:
    """Links each target word to the source word with the largest weight.

    Target words without known links are not linked.
    """
    return {(int(weights[t].argmax()), t) for t in {t for _, t in truth.possible}}


def diagonal(truth: Alignment) -> np.ndarray:
    """Returns baseline weights (T, S), which are largest where relative positions are equal."""
    length, width = len(truth.target), len(truth.source)
    at = np.arange(length) * (width - 1) / max(1, length - 1)
    return -np.abs(at[:, None] - np.arange(width))


def error_rates(
    translator: Translator, pairs: Sequence[DemoPair], read: bool = False
) -> tuple[np.ndarray, float]:
    """Returns the AER of each layer's heads, with the mean of heads last, and of the diagonal.

    The decoder reads the reference translation, whose links are known.
    """
    heads = translator.config.model.heads + 1
    grid = [[Counts() for _ in range(heads)] for _ in range(translator.config.model.decoder_layers)]
    baseline = Counts()
    for pair in pairs:
        truth = aligned(pair.source, pair.target)
        weights = word_weights(attention_of(translator, pair.source, pair.target), truth, read)
        for layer, row in enumerate(grid):
            for head, counts in enumerate(row):
                counts.add(strongest_links(weights[layer, head], truth), truth)
        baseline.add(strongest_links(diagonal(truth), truth), truth)
    return np.array([[c.error_rate for c in row] for row in grid]), baseline.error_rate


def draw_error_rates(translator: Translator, pairs: Sequence[DemoPair], *panels: Any) -> list[str]:
    """Plots the AER by layer and head, for steps that write a word and for steps that read it."""
    lines = []
    for axes, read in zip(panels, (False, True), strict=True):
        rates, baseline = error_rates(translator, pairs, read)
        heat_map(axes, rates, "alignment error rate", cmap="Blues_r", vmin=0, vmax=1)
        layers, heads = rates.shape
        name_ticks(axes, [*map(str, range(1, heads)), "mean"], [*map(str, range(1, layers + 1))])
        for (layer, head), rate in np.ndenumerate(rates):
            axes.text(head, layer, f"{rate:.3f}", ha="center", va="center",
                      color="black" if rate > 0.5 else "white")  # fmt: skip
        moment = "when it is read" if read else "when it is written"
        axes.set(title=f"AER of a German word {moment}", xlabel="head", ylabel="decoder layer")
        for layer, row in enumerate(rates, start=1):
            cells = ", ".join(f"{rate:.3f}" for rate in row[:-1])
            lines.append(f"{moment}, layer {layer}: AER {row[-1]:.3f} heads averaged; {cells}")
    return [*lines, f"diagonal: AER {baseline:.3f}"]


def draw_example(translator: Translator, pair: DemoPair, axes: Any) -> list[str]:
    """Plots the mean of the last layer's heads for one pair; rings mark the lexicon's links."""
    truth = aligned(pair.source, pair.target)
    weights = word_weights(attention_of(translator, pair.source, pair.target), truth)[-1, -1]
    heat_map(axes, weights, "attention", cmap="Blues", vmin=0, vmax=1)
    name_ticks(axes, truth.source, truth.target)
    for s, t in truth.sure:
        axes.plot(s, t, "o", markersize=12, fillstyle="none", color="C1", markeredgewidth=1.5)
    axes.set(title="Last layer, mean of heads; rings: the lexicon's links",
             xlabel="English", ylabel="German")  # fmt: skip
    return [pair.source, pair.target]
