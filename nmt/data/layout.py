"""The layout: a slot's pairs as tensors.

Two layouts, alike to model and loss: `packed` (several pairs a row, a pair's source and target in
the same row of the two sides) for training, and `one_per_row` for pairs sorted by length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmt.model.special_ids import BOS_ID, PAD_ID
from nmt.model.tokens import Tokens

Pair = tuple[np.ndarray, np.ndarray]  # source and target token ids, each with its end symbol


@dataclass(frozen=True)
class Batch:
    """A slot as tensors; R rows, S source and T target columns."""

    src: Tokens  # (R, S)
    tgt_in: Tokens  # (R, T), each sentence from BOS
    tgt_out: Tensor  # (R, T) int64, each sentence to EOS; PAD_ID where there is nothing to predict

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(self.src.to(device), self.tgt_in.to(device), self.tgt_out.to(device))


def one_per_row(pairs: Sequence[Pair]) -> Batch:
    """Each pair in a row of its own, padded to the longest on either side."""
    return _fill([[pair] for pair in pairs])


def by_length(pairs: Sequence[Pair], tokens: int) -> Iterator[list[int]]:
    """Indices of pairs of like length, batch by batch, the longest first.

    With one pair a row, a batch has at most `tokens` tokens on either side, padding
    counted, unless it is a single pair.
    """
    order = sorted(range(len(pairs)), key=lambda i: (max(map(len, pairs[i])), len(pairs[i][1])))
    while order:
        size = max(1, tokens // max(map(len, pairs[order[-1]])))
        yield order[-size:]
        del order[-size:]


def packed(pairs: Sequence[Pair], capacity: int) -> Batch:
    """As many pairs a row as fit into `capacity` tokens on both sides, longest pairs first.

    If a pair is longer than `capacity`, all rows are as wide as that pair.
    """
    capacity = max([capacity, *(len(side) for pair in pairs for side in pair)])
    order = sorted(range(len(pairs)), key=lambda i: -max(len(pairs[i][0]), len(pairs[i][1])))
    room = np.zeros((0, 2), dtype=np.int64)
    rows: list[list[Pair]] = []
    for index in order:
        size = np.asarray([len(pairs[index][0]), len(pairs[index][1])])
        fitting = np.flatnonzero((room >= size).all(1))
        if len(fitting):
            row = int(fitting[0])
        else:
            row = len(rows)
            rows.append([])
            room = np.append(room, [[capacity, capacity]], axis=0)
        rows[row].append(pairs[index])
        room[row] -= size
    return _fill(rows)


def _fill(rows: Sequence[Sequence[Pair]]) -> Batch:
    """Rows of pairs as tensors; no rows give one row of padding, so that every slot has a shape."""
    height = max(1, len(rows))
    widths = [max((sum(len(p[side]) for p in row) for row in rows), default=1) for side in (0, 1)]
    src, tgt = (np.zeros((4, height, width), dtype=np.int64) for width in widths)
    for number, row in enumerate(rows):
        ends = [0, 0]
        for segment, pair in enumerate(row, start=1):
            for side, (table, ids) in enumerate(zip((src, tgt), pair, strict=True)):
                place = slice(ends[side], ends[side] + len(ids))
                ends[side] = place.stop
                table[0, number, place] = ids
                table[1, number, place] = np.arange(len(ids))
                table[2, number, place] = segment
            table[3, number, place.start] = BOS_ID
            table[3, number, place.start + 1 : place.stop] = ids[:-1]
    src_tokens, src_positions, src_segments, _ = torch.from_numpy(src)
    tgt_out, tgt_positions, tgt_segments, tgt_in = torch.from_numpy(tgt)
    return Batch(
        Tokens(src_tokens, src_positions, src_segments),
        Tokens(tgt_in, tgt_positions, tgt_segments),
        tgt_out,
    )


assert PAD_ID == 0  # arrays above start as zeros
