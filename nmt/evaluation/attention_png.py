"""Plots attention weights as PNG images for `nmt attention` and TensorBoard."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nmt.errors import InputError

_MAX_PIXELS = 150_000_000
_TOKEN_INCHES, _DPI = 0.13, 110


@dataclass(frozen=True)
class HeatMaps:
    """The attention weights of all layers and heads, with queries as rows and keys as columns."""

    title: str
    weights: np.ndarray  # (layers, heads, Q, K), 0 to 1
    queries: Sequence[str]
    keys: Sequence[str]

    @property
    def inches(self) -> tuple[float, float]:
        """The width and the height, in inches, of the heat map of a single head."""
        return len(self.keys) * _TOKEN_INCHES, len(self.queries) * _TOKEN_INCHES


def write_png(kinds: Sequence[HeatMaps], output: Path | BinaryIO) -> None:
    """Plots one heat map per layer (row) and head (column). Darker cells have larger weights.

    Raises:
        InputError: matplotlib (extra "plots") is not installed, or the image would be too large.
    """
    margin = 0.085 * max(len(name) for kind in kinds for name in (*kind.queries, *kind.keys))
    width = max(kind.weights.shape[1] * (kind.inches[0] + 0.2) for kind in kinds) + margin + 0.6
    heights = [len(kind.weights) * (kind.inches[1] + 0.3) + margin + 0.5 for kind in kinds]
    if width * sum(heights) * _DPI**2 > _MAX_PIXELS:
        raise InputError(
            "The sentences are too long for a .png file. Use a .html file, or shorten the "
            "sentences."
        )
    figure = figure_class()((width, sum(heights)), dpi=_DPI)
    parts = figure.subfigures(len(kinds), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, kind in zip(parts, kinds, strict=True):
        _draw(part, kind, margin)
    with warnings.catch_warnings():  # about missing glyphs, which become boxes
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(output, format="png")


def figure_class() -> Any:
    """Returns matplotlib's Figure class. Raises InputError if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "A .png file requires matplotlib, which is not installed. "
            "Run \"pip install 'nmt[plots]'\", or use a .html file."
        ) from None
    return Figure


def _draw(figure: Any, kind: HeatMaps, margin: float) -> None:
    width, height = figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi
    figure.suptitle(
        kind.title, x=0.1 / width, y=1 - 0.05 / height, ha="left", va="top", weight="bold"
    )
    layers, heads = kind.weights.shape[:2]
    grid = figure.subplots(layers, heads, squeeze=False)
    figure.subplots_adjust(
        left=(margin + 0.3) / width, right=1 - 0.1 / width, top=1 - 0.45 / height,
        bottom=margin / height, wspace=0.05, hspace=0.1,
    )  # fmt: skip
    for (layer, head), axes in np.ndenumerate(grid):
        axes.imshow(
            kind.weights[layer, head], cmap="Blues", vmin=0, vmax=1, interpolation="nearest"
        )
        axes.set_xticks([])
        axes.set_yticks([])
        if grid.size > 1:
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=6, pad=2)
    # labels only at the edges; `parse_math` would interpret $ in a token as TeX
    names = {"fontsize": 6, "parse_math": False}
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(kind.queries)), kind.queries, **names)
    for axes in grid[-1]:
        axes.set_xticks(range(len(kind.keys)), kind.keys, rotation=90, **names)
