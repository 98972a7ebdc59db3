"""Arranges the pairs of a micro-batch in tensors; the arrangement is called the layout.

There are two layouts, and the model and the loss accept both. `pack` puts several pairs into each
row; the source and the target of a pair have the same row index. `one_per_row` puts a single pair
into each row, which suits pairs of similar length.
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

# Attention kernels compute blocks of 128 x 128 tokens, so a pair should lie within one block.
_BLOCK = 128
# The tensors are 2% larger than the batch size requires. With lengths as in WMT (lognormal, mean
# 27, at most 256), most micro-batches then fit. A micro-batch that does not fit gets 4% more rows.
# For this larger shape, the layers are compiled once more.
_SPARE, _MORE = 0.02, 0.04
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Batch:
    """A micro-batch as tensors with R rows, S source columns and T target columns."""

    src: Tokens  # (R, S)
    tgt_in: Tokens  # (R, T), each sentence begins with BOS
    tgt_out: Tensor  # (R, T) int64, each sentence ends with EOS; PAD_ID at padding
    # (R, T) fp32 each: the additional columns of the pairs (see `Pair`), with a value for each
    # token of tgt_out. A number for the whole pair is repeated for all its tokens. The value is NaN
    # if the pair lacks the column, and 0 at padding.
    columns: Mapping[str, Tensor] = field(default_factory=dict)

    def rows(self, rows: slice) -> Batch:
        """Returns a batch that contains only the given rows."""
        src, tgt_in = (
            Tokens(side.tokens[rows], side.positions[rows], side.segments[rows])
            for side in (self.src, self.tgt_in)
        )
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Batch(src, tgt_in, self.tgt_out[rows], columns)


@dataclass(frozen=True)
class HostBatch:
    """A micro-batch in a single tensor, so that one copy operation moves it to a device."""

    # int32, the concatenation of the source ids, source positions, source segments, target output
    # ids, target positions, target segments, target input ids, and the bits of the additional fp32
    # columns
    flat: Tensor
    rows: int
    widths: tuple[int, int]  # source tokens and target tokens per row
    names: Sequence[str] = ()  # names of the additional columns

    def to(self, device: torch.device) -> Batch:
        """Copies the micro-batch to `device`; the copy is asynchronous if `flat` is page-locked."""
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
    """The shape of the tensors into which pairs are packed."""

    columns: int  # tokens per row on each side; increased if a pair is longer
    block: int  # tokens per block; only pairs that are longer than a block span several blocks
    rows: int = 0  # minimum number of rows; 0 to use only as many rows and columns as necessary


def fixed_shape(batch_tokens: int, micro_batches: int, longest: int) -> Shape:
    """Returns a shape that fits almost all micro-batches, so that layers are compiled only once.

    Args:
        batch_tokens: maximum number of tokens per step on each side.
        micro_batches: number of micro-batches per step.
        longest: maximum number of tokens in a source or target.
    """
    columns = -(-longest // _BLOCK) * _BLOCK
    rows = int(np.ceil((1 + _SPARE) * batch_tokens / (micro_batches * columns)))
    return Shape(columns, _BLOCK, rows)


def one_per_row(pairs: Sequence[TokenPair], device: torch.device = _CPU) -> Batch:
    """Puts one pair in each row, padded to the longest source and the longest target.

    Args:
        device: the device of the batch's tensors.
    """
    numbers = np.arange(len(pairs))
    starts = np.zeros((2, len(pairs)), dtype=np.int64)
    widths = _lengths(pairs).max(1, initial=1).tolist()
    shape = len(pairs), widths[0], widths[1]
    return _filled(pairs, numbers, starts, shape, is_pinned=False).to(device)


def by_length(pairs: Sequence[TokenPair], tokens: int) -> Iterator[list[int]]:
    """Groups pairs of similar length into batches; yields each batch as a list of indices.

    The batches with the longest pairs are yielded first. If each row contains one pair, a batch has
    at most `tokens` tokens per side, including padding. A pair that is longer than `tokens` forms a
    batch of its own.
    """
    order = sorted(range(len(pairs)), key=lambda i: (max(map(len, pairs[i])), len(pairs[i].target)))
    while order:
        size = max(1, tokens // max(map(len, pairs[order[-1]])))
        yield order[-size:]
        del order[-size:]


def packed(pairs: Sequence[TokenPair], capacity: int) -> Batch:
    """Packs pairs into rows of `capacity` tokens per side, starting with the longest pairs.

    If a pair is longer than `capacity`, all rows are as long as the longest pair.
    """
    return pack(pairs, Shape(capacity, capacity)).to(_CPU)


def pack(pairs: Sequence[TokenPair], shape: Shape, *, is_pinned: bool = False) -> HostBatch:
    """Packs pairs into tensors of the given shape with the first-fit-decreasing algorithm.

    Args:
        is_pinned: whether to allocate page-locked memory, which allows asynchronous copies to a
            GPU.
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
    # Bins that are whole rows come first, because their pairs are the longest. The other bins are
    # blocks, which are placed side by side.
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
    """Returns the number of tokens of each source and target: (2, pairs)."""
    return np.array([tuple(map(len, pair)) for pair in pairs], dtype=np.int64).reshape(-1, 2).T


def _first_fit(lengths: np.ndarray, columns: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Assigns each pair to the first bin that has enough space for the pair on both sides.

    Each bin is a block; if a pair is longer than a block, its bin is a whole row.

    Args:
        lengths: (2, pairs) number of tokens of each source and each target.
        columns: size of a row, in tokens per side.
        block: size of a block, in tokens per side.

    Returns:
        Two arrays. The first array, (pairs,) int64, contains the index of each pair's bin. The
        second array, (bins,) bool, is True for each bin that is a whole row.
    """
    count = lengths.shape[1]
    source_free, target_free = np.zeros((2, count), dtype=np.int64)
    bins, is_row, opened = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool), 0
    for number, (source, target) in enumerate(lengths.T.tolist()):
        fits = (source_free[:opened] >= source) & (target_free[:opened] >= target)
        found = int(fits.argmax()) if opened else 0
        if not (opened and fits[found]):
            found, opened = opened, opened + 1
            is_row[found] = max(source, target) > block
            source_free[found] = target_free[found] = columns if is_row[found] else block
        bins[number] = found
        source_free[found] -= source
        target_free[found] -= target
    return bins, is_row[:opened]


def _within(groups: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the offset of each item within its group: (..., items).

    Args:
        groups: (items,) index of each item's group, in ascending order.
        sizes: (..., items) size of each item.
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
    """Returns a batch that contains the pairs, or one row of padding if there are no pairs.

    Args:
        rows: (pairs,) index of each pair's row, in ascending order.
        starts: (2, pairs) the first source column and the first target column of each pair.
        shape: the number of rows, of source columns and of target columns.
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


assert PAD_ID == 0  # positions and segments of padding are also 0
