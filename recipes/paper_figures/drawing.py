"""Creates the figures of this recipe, and raises an error if matplotlib is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import InputError


@contextmanager
def figure(path: Path, panels: int = 1) -> Iterator[list[Any]]:
    """Yields the axes of `panels` panels side by side, and saves the figure when the block ends.

    Raises:
        InputError: matplotlib (extra "plots") is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "This recipe needs matplotlib. Install it with: pip install -e '.[plots]'"
        ) from None
    picture = Figure(figsize=(8 if panels == 1 else 6 * panels, 5), dpi=110, layout="constrained")
    path.parent.mkdir(parents=True, exist_ok=True)
    yield list(picture.subplots(1, panels, squeeze=False)[0])
    picture.savefig(path)


def heat_map(axes: Any, values: Any, label: str, **options: Any) -> None:
    """Plots a matrix as an image with a labeled color bar."""
    image = axes.imshow(np.asarray(values), interpolation="nearest", **options)
    axes.figure.colorbar(image, ax=axes, label=label, shrink=0.8)


def name_ticks(axes: Any, columns: list[str], rows: list[str]) -> None:
    """Labels the columns and rows of an image with words; long column labels are vertical."""
    text = {"fontsize": 8, "parse_math": False}
    rotation = 90 if max(map(len, columns)) > 4 else 0
    axes.set_xticks(range(len(columns)), columns, rotation=rotation, **text)
    axes.set_yticks(range(len(rows)), rows, **text)
