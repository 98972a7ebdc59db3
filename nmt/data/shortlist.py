"""Which target pieces a source piece may become: a table learned from the training pairs.

A step of decoding needs logits of likely pieces only: of the most frequent ones, and of the
likeliest translations of the pieces in the source. The most frequent are on every shortlist, so the
table is learned for the others alone, by IBM Model 1 (Brown et al., 1993). The end symbol, which
every source has, takes the part of the model's empty word.

V vocabulary, N most frequent pieces, K translations of a piece.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from nmt.errors import NoModelError
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

if TYPE_CHECKING:  # its module reads shards, for which translating has no library
    from nmt.data.shards import Side

FREQUENT, TRANSLATIONS = 1000, 50  # N, K
MOST_CELLS = 30_000_000  # pairs of pieces that it is learned from; each takes some 40 bytes
_BLOCK_CELLS = 2_000_000  # at a time
_ITERATIONS = 4


@dataclass(frozen=True)
class Shortlist:
    """What a batch may be translated into, by the pieces in its sources."""

    frequent: NDArray[np.int32]  # (N,) most frequent first
    translations: NDArray[np.int32]  # (V, K) likeliest first; PAD_ID where there are fewer

    def candidates(self, source: Sequence[int], always: Collection[int]) -> NDArray[np.int64]:
        """The pieces that sources with these may be translated into, ascending.

        The special ids, `always`, the source's own pieces, which names are copied from, the most
        frequent pieces, and the translations of the source's pieces.
        """
        pieces = np.unique(np.asarray(source, np.int64))
        chosen = np.zeros(len(self.translations), dtype=bool)
        special = [PAD_ID, BOS_ID, EOS_ID, UNK_ID]
        for some in (special, list(always), pieces, self.frequent, self.translations[pieces]):
            chosen[some] = True
        return np.flatnonzero(chosen)

    def to_bytes(self) -> bytes:
        """The content of its file, which `load` reads."""
        return safetensors.numpy.save(
            {"frequent": self.frequent, "translations": self.translations}
        )

    @classmethod
    def load(cls, path: Path, vocabulary_size: int) -> Self:
        """Reads a file; NoModelError if it is damaged, or not of such a vocabulary."""
        try:
            table = cls(**safetensors.numpy.load(path.read_bytes()))
        except (SafetensorError, TypeError, ValueError) as error:
            raise NoModelError(f"not a sound shortlist ({error}), {path}, restore it") from None
        both = (table.frequent, table.translations)
        if (
            [each.ndim for each in both] != [1, 2]
            or len(table.translations) != vocabulary_size
            or any(each.dtype != np.int32 for each in both)
            or any(((each < 0) | (each >= vocabulary_size)).any() for each in both)
        ):
            raise NoModelError(f"not a shortlist of {vocabulary_size:,} pieces, {path}, restore it")
        return table


def learn_shortlist(
    shards: Sequence[tuple[Side, Side]],
    vocabulary_size: int,
    *,
    frequent: int = FREQUENT,
    translations: int = TRANSLATIONS,
) -> Shortlist:
    """Learns from evenly spaced pairs, as many as make `MOST_CELLS` pairs of pieces.

    Args:
        shards: sources and targets.
        vocabulary_size: V.
        frequent: N.
        translations: K.
    """
    counts = np.zeros(vocabulary_size, np.int64)
    for _, target in shards:
        counts += np.bincount(target.values, minlength=vocabulary_size)
    most = np.argsort(-counts, kind="stable")[:frequent].astype(np.int32)
    is_rare = np.ones(vocabulary_size, dtype=bool)
    is_rare[most] = False
    model = _Model1(shards, is_rare)
    for _ in range(_ITERATIONS):
        model.iterate()
    return Shortlist(most, model.best(translations))


class _Model1:
    """IBM Model 1 of the rare target pieces.

    A cell is a source piece and a rare target piece of the same pair. Cells of one target piece
    follow each other and make a group. A link is a source piece and a target piece that share a
    cell, written as source * V + target.
    """

    def __init__(self, shards: Sequence[tuple[Side, Side]], is_rare: NDArray[np.bool_]):
        """`is_rare`: (V,)."""
        self.V = len(is_rare)
        sizes = [_cells(shard, is_rare) for shard in shards]
        share = min(1.0, MOST_CELLS / max(1, sum(int(size.sum()) for size in sizes)))
        blocks = []  # of each: its links, for each cell which of these, where groups begin
        for shard, size in zip(shards, sizes, strict=True):
            for rows in _blocks(size, share):
                of_cells, begins = self._links(shard, rows, is_rare)
                links, inverse = np.unique(of_cells, return_inverse=True)
                blocks.append((links, inverse.astype(np.int32), begins))
        self.links = np.unique(np.concatenate([np.empty(0, np.int64), *(b[0] for b in blocks)]))
        self.sources = self.links // self.V
        self.cells = [
            (np.searchsorted(self.links, links).astype(np.int32)[inverse], begins)
            for links, inverse, begins in blocks
        ]
        self.p = np.ones(len(self.links))  # of the target given the source

    def _links(
        self, shard: tuple[Side, Side], rows: NDArray[np.int64], is_rare: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The link of each cell of some pairs, and the number of each group's first cell."""
        (source, lengths), (target, target_lengths) = (_pieces(side, rows) for side in shard)
        kept = is_rare[target]
        pair = np.repeat(np.arange(len(rows)), target_lengths)[kept]  # of each rare target piece
        sizes = lengths[pair].astype(np.int64)  # cells of its group
        begins = np.cumsum(sizes) - sizes
        first = (np.cumsum(lengths) - lengths)[pair]  # its pair's first source piece
        at = np.arange(sizes.sum()) + np.repeat(first - begins, sizes)
        return source[at] * self.V + np.repeat(target[kept], sizes), begins

    def iterate(self) -> None:
        """Expected counts of links, then the probabilities that these give."""
        expected = np.zeros(len(self.links))
        for links, begins in self.cells:
            p = self.p[links]
            sizes = np.diff(begins, append=len(links))
            np.add.at(expected, links, p / np.repeat(np.add.reduceat(p, begins), sizes))
        totals = np.bincount(self.sources, expected, self.V)
        self.p = expected / totals[self.sources]

    def best(self, k: int) -> NDArray[np.int32]:
        """The k likeliest targets of each source: (V, k), see `Shortlist.translations`."""
        order = np.lexsort((-self.p, self.sources))  # equal ones: by target
        rank = np.arange(len(order)) - np.searchsorted(self.sources, self.sources)
        table = np.full((self.V, k), PAD_ID, np.int32)
        order, rank = order[rank < k], rank[rank < k]
        table[self.sources[order], rank] = self.links[order] % self.V
        return table


def _cells(shard: tuple[Side, Side], is_rare: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(pairs,) of each pair."""
    source, target = shard
    rare = np.add.reduceat(is_rare[target.values], target.offsets[:-1], dtype=np.int64)
    return source.lengths * rare


def _blocks(cells: NDArray[np.int64], share: float) -> Iterator[NDArray[np.int64]]:
    """Numbers of evenly spaced pairs that have cells, in blocks.

    Args:
        cells: of each pair.
        share: of the pairs that are taken.
    """
    rows = np.flatnonzero(cells)
    numbers = (np.arange(len(rows) + 1) * share).astype(np.int64)
    rows = rows[np.diff(numbers) > 0]
    if len(rows):
        block = np.cumsum(cells[rows]) // _BLOCK_CELLS
        yield from np.split(rows, np.flatnonzero(np.diff(block)) + 1)


def _pieces(side: Side, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pieces of some sentences, one after the other, and how many each has."""
    lengths = side.lengths[rows].astype(np.int64)
    first = side.offsets[rows] - (np.cumsum(lengths) - lengths)
    at = np.arange(lengths.sum()) + np.repeat(first, lengths)
    return side.values[at].astype(np.int64), lengths
