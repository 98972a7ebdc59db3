"""The layout: a slot's pairs as tensors.

Two layouts, alike to model and loss: `pack` (several pairs a row, a pair's source and target in
the same row of the two sides) for training, and `one_per_row` for pairs sorted by length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from nmt.data.pair import TokenPair
from nmt.model.special_ids import BOS_ID, PAD_ID
from nmt.model.tokens import Tokens

# Kernels of attention work on squares of 128 tokens: a pair that lies within one costs one.
_BLOCK = 128
# With lengths as in WMT (lognormal, mean 27, at most 256) rows for 2 % more tokens hold most slots;
# a slot that needs more gets rows for 4 % more, another shape, to be compiled once.
_SPARE, _MORE = 0.02, 0.04


@dataclass(frozen=True)
class Batch:
    """A slot as tensors; R rows, S source and T target columns."""

    src: Tokens  # (R, S)
    tgt_in: Tokens  # (R, T), each sentence from BOS
    tgt_out: Tensor  # (R, T) int64, each sentence to EOS; PAD_ID where there is nothing to predict
    # (R, T) fp32 each: the extra columns of the pairs, see `Pair`, at every token of tgt_out. A
    # number for the pair is at all its tokens; NaN is where a pair lacks the column, 0 at padding.
    columns: Mapping[str, Tensor] = field(default_factory=dict)

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        columns = {name: column.to(device) for name, column in self.columns.items()}
        return Batch(self.src.to(device), self.tgt_in.to(device), self.tgt_out.to(device), columns)

    def rows(self, rows: slice) -> Batch:
        """Returns some of the rows."""
        src, tgt_in = (
            Tokens(side.tokens[rows], side.positions[rows], side.segments[rows])
            for side in (self.src, self.tgt_in)
        )
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Batch(src, tgt_in, self.tgt_out[rows], columns)


@dataclass(frozen=True)
class HostBatch:
    """A slot in one piece of memory, so that one copy brings it to a device."""

    # int32: of the source ids, positions, segments; of the target also the input ids; then the
    # bits of the fp32 columns
    flat: Tensor
    rows: int
    widths: tuple[int, int]  # columns of source and target
    names: Sequence[str] = ()  # of the columns

    def to(self, device: torch.device) -> Batch:
        """The slot on `device`; if `flat` is page-locked, the copy is not waited for."""
        source, target = (self.rows * width for width in self.widths)
        flat = self.flat.to(device, non_blocking=True)
        ids, extra = flat[: 3 * source + 4 * target].long(), flat[3 * source + 4 * target :]
        src = ids[: 3 * source].view(3, self.rows, -1)
        tgt_out, positions, segments, tgt_in = ids[3 * source :].view(4, self.rows, -1)
        values = extra.view(torch.float32).view(len(self.names), self.rows, self.widths[1])
        columns = dict(zip(self.names, values, strict=True))
        return Batch(Tokens(*src), Tokens(tgt_in, positions, segments), tgt_out, columns)


@dataclass(frozen=True)
class Shape:
    """What pairs are packed into."""

    columns: int  # a side; if a pair is longer, so many more that it fits
    block: int  # columns divide into blocks; a pair is within one, unless it is longer
    rows: int = 0  # at least; 0: as many rows and columns as are needed


def fixed_shape(batch_tokens: int, slots: int, longest: int) -> Shape:
    """The shape that almost all slots of a run have, so that what is compiled for it serves.

    Args:
        batch_tokens: bound on the tokens of a step, on either side.
        slots: how many slots a step is cut into.
        longest: most tokens of a pair on either side.
    """
    columns = -(-longest // _BLOCK) * _BLOCK
    rows = int(np.ceil((1 + _SPARE) * batch_tokens / (slots * columns)))
    return Shape(columns, _BLOCK, rows)


def one_per_row(pairs: Sequence[TokenPair]) -> Batch:
    """Each pair in a row of its own, padded to the longest on either side."""
    numbers = np.arange(len(pairs))
    starts = np.zeros((2, len(pairs)), dtype=np.int64)
    widths = _lengths(pairs).max(1, initial=1).tolist()
    shape = len(pairs), widths[0], widths[1]
    batch = _filled(pairs, numbers, starts, shape, is_pinned=False)
    return batch.to(torch.device("cpu"))


def by_length(pairs: Sequence[TokenPair], tokens: int) -> Iterator[list[int]]:
    """Indices of pairs of like length, batch by batch, the longest first.

    With one pair a row, a batch has at most `tokens` tokens on either side, padding
    counted, unless it is a single pair.
    """
    order = sorted(range(len(pairs)), key=lambda i: (max(map(len, pairs[i])), len(pairs[i].target)))
    while order:
        size = max(1, tokens // max(map(len, pairs[order[-1]])))
        yield order[-size:]
        del order[-size:]


def packed(pairs: Sequence[TokenPair], capacity: int) -> Batch:
    """As many pairs a row as fit into `capacity` tokens on both sides, longest pairs first.

    If a pair is longer than `capacity`, all rows are as wide as that pair.
    """
    return pack(pairs, Shape(capacity, capacity)).to(torch.device("cpu"))


def pack(pairs: Sequence[TokenPair], shape: Shape, *, is_pinned: bool = False) -> HostBatch:
    """Pairs in rows of `shape`, the longest first, each where it fits first.

    Args:
        is_pinned: whether the memory is to be page-locked, for copies to a GPU.
    """
    lengths = _lengths(pairs)
    longest = lengths.max(0)
    order = np.argsort(-longest, kind="stable")
    columns = max([shape.columns, *longest.tolist()])
    block = columns if shape.block == shape.columns else shape.block
    columns = -(-columns // block) * block
    bins, is_row = _first_fit(lengths[:, order], columns, block)
    by_bin = np.argsort(bins, kind="stable")
    order, bins = order[by_bin], bins[by_bin]
    # bins that are whole rows came first, as their pairs are the longest; then blocks, side by side
    across, whole = columns // block, int(is_row.sum())
    numbers = np.arange(len(is_row)) - whole
    row_of, column_of = whole + numbers // across, numbers % across * block
    row_of[:whole], column_of[:whole] = np.arange(whole), 0
    starts = _within(bins, lengths[:, order]) + column_of[bins]
    rows = int(row_of[-1]) + 1 if len(row_of) else 0
    widths = [columns, columns]
    if shape.rows:
        more = max(1, int(np.ceil(_MORE * shape.rows)))
        rows = shape.rows + max(0, -(-(rows - shape.rows) // more)) * more
    else:
        widths = (starts + lengths[:, order]).max(1, initial=1).tolist()
    ordered = [pairs[i] for i in order]
    return _filled(ordered, row_of[bins], starts, (rows, widths[0], widths[1]), is_pinned)


def _lengths(pairs: Sequence[TokenPair]) -> np.ndarray:
    """Returns the tokens of each source and target: (2, pairs)."""
    return np.array([tuple(map(len, pair)) for pair in pairs], dtype=np.int64).reshape(-1, 2).T


def _first_fit(lengths: np.ndarray, columns: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """For each pair the first bin that has room for it on both sides.

    Args:
        lengths: (2, pairs) tokens of source and target.

    Returns:
        (pairs,) bins, and (bins,) whether a bin is a row of `columns`, for a pair longer than
        `block`, or a block.
    """
    count = lengths.shape[1]
    source_room, target_room = np.zeros((2, count), dtype=np.int64)
    bins, is_row, opened = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool), 0
    for number, (source, target) in enumerate(lengths.T.tolist()):
        fits = (source_room[:opened] >= source) & (target_room[:opened] >= target)
        found = int(fits.argmax()) if opened else 0
        if not (opened and fits[found]):
            found, opened = opened, opened + 1
            is_row[found] = max(source, target) > block
            source_room[found] = target_room[found] = columns if is_row[found] else block
        bins[number] = found
        source_room[found] -= source
        target_room[found] -= target
    return bins, is_row[:opened]


def _within(groups: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Where each thing begins if those of a group follow one another: (..., things).

    Args:
        groups: (things,), ascending.
        sizes: (..., things).
    """
    begins = np.cumsum(sizes, axis=-1) - sizes
    return begins - begins[..., np.searchsorted(groups, groups)]


def _filled(
    pairs: Sequence[TokenPair],
    rows: np.ndarray,
    starts: np.ndarray,
    shape: tuple[int, int, int],
    is_pinned: bool,
) -> HostBatch:
    """Pairs written where they belong; no pairs give a row of padding, as a slot needs a shape.

    Args:
        rows: (pairs,) the row of each, ascending.
        starts: (2, pairs) its first source and target column.
        shape: rows, source columns, target columns.
    """
    height, *widths = max(1, shape[0]), *shape[1:]
    source, target = (height * width for width in widths)
    names = sorted({name for pair in pairs for name in pair.columns})
    size = 3 * source + (4 + len(names)) * target
    flat = torch.empty(size, dtype=torch.int32, pin_memory=is_pinned)
    table = flat.numpy()
    table.fill(PAD_ID)
    segments = _within(rows, np.ones_like(rows)) + 1
    sides = table[: 3 * source].reshape(3, -1), table[3 * source :].reshape(-1, target)
    both = [pair.source for pair in pairs], [pair.target for pair in pairs]
    for side, (ids, cells, width) in enumerate(zip(both, sides, widths, strict=True)):
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        values = np.concatenate([np.empty(0, np.int32), *ids])
        positions = _within(np.repeat(np.arange(len(ids)), lengths), np.ones_like(values))
        places = np.repeat(rows * width + starts[side], lengths) + positions
        cells[0, places] = values
        cells[1, places] = positions
        cells[2, places] = np.repeat(segments, lengths)
        if side == 1:
            cells[3, places[1:]] = values[:-1]
            cells[3, places[positions == 0]] = BOS_ID
            for name, column in zip(names, cells[4:].view(np.float32), strict=True):
                of_pairs = [pair.columns.get(name, np.nan) for pair in pairs]
                column[places] = np.concatenate(list(map(np.broadcast_to, of_pairs, lengths)))
    return HostBatch(flat, height, (widths[0], widths[1]), names)


assert PAD_ID == 0  # positions and segments of padding are 0 as well
