"""Learns and applies a shortlist: the target tokens that each source token may be translated into.

A decoding step needs only the logits of likely tokens: the most frequent tokens and the most likely
translations of the source tokens. The most frequent tokens are candidates for every source. For all
other target tokens, a translation table is learned with IBM Model 1 (Brown et al., 1993). EOS,
which every source contains, serves as the empty word of Model 1.

In array shapes, V is the vocabulary size, N is the number of most frequent tokens, and K is the
number of translations per source token.
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

if TYPE_CHECKING:  # `shards` imports pyarrow, which is not needed to translate
    from nmt.data.shards import Side

FREQUENT, TRANSLATIONS = 1000, 50  # N, K
MOST_CELLS = 30_000_000  # maximum number of token pairs to learn from; each needs about 40 bytes
_BLOCK_CELLS = 2_000_000  # number of cells that are processed at a time
_ITERATIONS = 4


@dataclass(frozen=True)
class Shortlist:
    """The most frequent target tokens, and the most likely translations of each source token."""

    frequent: NDArray[np.int32]  # (N,) most frequent first
    translations: NDArray[np.int32]  # (V, K) most likely first; PAD_ID if there are fewer than K

    def candidates(self, source: Sequence[int], always: Collection[int]) -> NDArray[np.int64]:
        """Returns the sorted ids of the target tokens that `source` may be translated into.

        The result contains the special ids, the ids in `always`, the source tokens themselves (for
        names that are copied), the most frequent tokens, and the translations of the source tokens.

        Args:
            source: token ids of one or more sources.
            always: ids of additional tokens to return.
        """
        pieces = np.unique(np.asarray(source, np.int64))
        chosen = np.zeros(len(self.translations), dtype=bool)
        special = [PAD_ID, BOS_ID, EOS_ID, UNK_ID]
        for some in (special, list(always), pieces, self.frequent, self.translations[pieces]):
            chosen[some] = True
        return np.flatnonzero(chosen)

    def to_bytes(self) -> bytes:
        """Returns the shortlist in the file format that `load` reads."""
        return safetensors.numpy.save(
            {"frequent": self.frequent, "translations": self.translations}
        )

    @classmethod
    def load(cls, path: Path, vocabulary_size: int) -> Self:
        """Reads a shortlist file; raises NoModelError if it is not valid for the vocabulary."""
        try:
            table = cls(**safetensors.numpy.load(path.read_bytes()))
        except (SafetensorError, TypeError, ValueError) as error:
            raise NoModelError(
                f"{path} is not a valid shortlist ({error}). Restore it from a copy."
            ) from None
        both = (table.frequent, table.translations)
        if (
            [each.ndim for each in both] != [1, 2]
            or len(table.translations) != vocabulary_size
            or any(each.dtype != np.int32 for each in both)
            or any(((each < 0) | (each >= vocabulary_size)).any() for each in both)
        ):
            raise NoModelError(
                f"{path} is not a shortlist for a vocabulary of {vocabulary_size:,} tokens. "
                "Restore it from a copy."
            )
        return table


def learn_shortlist(
    shards: Sequence[tuple[Side, Side]],
    vocabulary_size: int,
    *,
    frequent: int = FREQUENT,
    translations: int = TRANSLATIONS,
) -> Shortlist:
    """Learns a shortlist from evenly spaced sentence pairs.

    The constant `MOST_CELLS` limits the number of sentence pairs.

    Args:
        shards: the source side and the target side of each shard.
        vocabulary_size: number of tokens in the vocabulary, V.
        frequent: the number N; the N most frequent target tokens are in every shortlist.
        translations: maximum number of translations per source token, K.
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
    """IBM Model 1, restricted to the translation of source tokens into rare target tokens.

    A cell consists of a source token and a rare target token in the same sentence pair. All cells
    with the same occurrence of a target token form a group and are adjacent in every array of
    cells. A link is the number source * V + target, which identifies the two tokens of a cell.
    Different cells can have the same link.
    """

    def __init__(self, shards: Sequence[tuple[Side, Side]], is_rare: NDArray[np.bool_]):
        """Collects the cells.

        Args:
            is_rare: (V,) bool, False for the most frequent target tokens and True for all other
                tokens.
        """
        self.V = len(is_rare)
        sizes = [_cells(shard, is_rare) for shard in shards]
        share = min(1.0, MOST_CELLS / max(1, sum(int(size.sum()) for size in sizes)))
        blocks = []  # distinct links, index of each cell's link among them, start of each group
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
        self.p = np.ones(len(self.links))  # probability of the target given the source

    def _links(
        self, shard: tuple[Side, Side], rows: NDArray[np.int64], is_rare: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the links of the pairs at `rows`, grouped by cell, and each group's start."""
        (source, lengths), (target, target_lengths) = (_pieces(side, rows) for side in shard)
        kept = is_rare[target]
        pair = np.repeat(np.arange(len(rows)), target_lengths)[kept]  # (rare target tokens,)
        sizes = lengths[pair].astype(np.int64)  # number of cells in each token's group
        begins = np.cumsum(sizes) - sizes
        first = (np.cumsum(lengths) - lengths)[pair]  # index of the first source token
        at = np.arange(sizes.sum()) + np.repeat(first - begins, sizes)
        return source[at] * self.V + np.repeat(target[kept], sizes), begins

    def iterate(self) -> None:
        """Runs one EM iteration, which updates the probabilities of all links."""
        expected = np.zeros(len(self.links))
        for links, begins in self.cells:
            p = self.p[links]
            sizes = np.diff(begins, append=len(links))
            np.add.at(expected, links, p / np.repeat(np.add.reduceat(p, begins), sizes))
        totals = np.bincount(self.sources, expected, self.V)
        self.p = expected / totals[self.sources]

    def best(self, k: int) -> NDArray[np.int32]:
        """Returns the k most likely translations of each source token: (V, k), see `Shortlist`."""
        order = np.lexsort((-self.p, self.sources))  # ties are broken by the target token id
        rank = np.arange(len(order)) - np.searchsorted(self.sources, self.sources)
        table = np.full((self.V, k), PAD_ID, np.int32)
        order, rank = order[rank < k], rank[rank < k]
        table[self.sources[order], rank] = self.links[order] % self.V
        return table


def _cells(shard: tuple[Side, Side], is_rare: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the number of cells (source token, target token) per sentence pair, (pairs,)."""
    source, target = shard
    rare = np.add.reduceat(is_rare[target.values], target.offsets[:-1], dtype=np.int64)
    return source.lengths * rare


def _blocks(cells: NDArray[np.int64], share: float) -> Iterator[NDArray[np.int64]]:
    """Selects evenly spaced pairs among all pairs with cells, and yields their indices in blocks.

    Args:
        cells: (pairs,) number of cells of each pair.
        share: number of pairs to select, divided by the number of pairs that have cells.
    """
    rows = np.flatnonzero(cells)
    numbers = (np.arange(len(rows) + 1) * share).astype(np.int64)
    rows = rows[np.diff(numbers) > 0]
    if len(rows):
        block = np.cumsum(cells[rows]) // _BLOCK_CELLS
        yield from np.split(rows, np.flatnonzero(np.diff(block)) + 1)


def _pieces(side: Side, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the concatenated token ids of the given sentences, and the sentences' lengths."""
    lengths = side.lengths[rows].astype(np.int64)
    first = side.offsets[rows] - (np.cumsum(lengths) - lengths)
    at = np.arange(lengths.sum()) + np.repeat(first, lengths)
    return side.values[at].astype(np.int64), lengths
