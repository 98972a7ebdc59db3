"""A picture of cross-attention for TensorBoard; drawn with Pillow, which TensorBoard brings."""

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

CELL = 16  # pixels
_FONT, _GAP = 12, 4
_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
_DARKEST = np.array([8, 48, 107])


def draw(weights: NDArray[np.float32], queries: Sequence[str], keys: Sequence[str]) -> bytes:
    """A PNG: a row for each query, a column for each key; darker means more weight.

    Args:
        weights: (queries, keys), 0 to 1.
    """
    font = ImageFont.load_default(_FONT)
    left, top = (_GAP * 2 + max(int(font.getlength(name)) for name in names)
                 for names in (queries, keys))  # fmt: skip
    height, width = (CELL * n for n in weights.shape)
    picture = Image.new("RGB", (left + width, top + height), "white")
    shades = 255 - weights[:, :, None].clip(0, 1) * (255 - _DARKEST)
    cells = Image.fromarray(shades.round().astype(np.uint8))
    picture.paste(cells.resize((width, height), Image.Resampling.NEAREST), (left, top))
    picture.paste(_names(queries, left, font, "rm"), (0, top))
    upright = _names(keys, top, font, "lm").rotate(90, expand=True)  # read from below
    picture.paste(upright, (left, 0))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def _names(names: Sequence[str], width: int, font: _Font, anchor: str) -> Image.Image:
    """One below the other, in a picture of that width, each as high as a cell."""
    found = Image.new("RGB", (width, CELL * len(names)), "white")
    pen = ImageDraw.Draw(found)
    for row, name in enumerate(names):
        begin = _GAP if anchor == "lm" else width - _GAP
        pen.text((begin, (row + 0.5) * CELL), name, "black", font, anchor=anchor)
    return found
