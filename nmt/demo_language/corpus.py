"""Generates corpora of any size from a seed and a split.

A corpus consists of blocks of sentence pairs. The pairs in a block depend only on the seed, the
split and the block's index, so several processes can generate a corpus in parallel.

The hash of a (verb, object) or (adjective, noun) combination of lemmas determines the split to
which the combination belongs. Training sentences contain only combinations of the training split.
Each validation or test sentence contains at least one combination of the sentence's own split, and
all other combinations in the sentence belong to the training split. Therefore, two splits never
share a sentence, even if they were generated from different seeds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import islice
from random import Random

from nmt.demo_language.grammar import sentence

PHENOMENA: tuple[str, ...] = (
    "gender",  # a pronoun or relative pronoun agrees with its noun
    "case",  # an accusative, dative or genitive that differs from the nominative
    "adjective agreement",  # an adjective with an ending before its noun
    "verb second",  # another part of the sentence comes first, so the subject follows the verb
    "verb final",  # a verb at the end of a clause or of the verbal bracket
    "separable verb",  # such as anrufen, aufstehen
    "tense",  # any tense other than the present
    "negation",  # nicht, kein, nie, niemand
    "number or date",  # a counted noun, price, age, date or time of day
    "relative clause",
    "subordinate clause",  # with dass, ob, weil, ...
    "question",
)

SPLITS = ("train", "validation", "test")
_VALIDATION_PERCENT = 5
_TEST_PERCENT = 5
BLOCK_PAIRS = 100_000  # number of pairs in a block; all of them differ
PATIENCE = 5_000  # maximum number of consecutive repeated sentences and sentences of other splits


class OutOfSentences(ValueError):
    """Raised if the grammar generates no more new sentences. Request fewer pairs."""


@dataclass(frozen=True)
class DemoPair:
    """A sentence pair, and the `PHENOMENA` that occur in the German sentence."""

    source: str  # English
    target: str  # German
    phenomena: frozenset[str]


def demo_pairs(pairs: int, seed: int, split: str, first: int = 0) -> Iterator[DemoPair]:
    """Yields the sentence pairs `first` to `pairs` - 1 of a corpus.

    No pair occurs twice in a block of `BLOCK_PAIRS` pairs, but a pair may occur in several blocks.
    If two corpora have the same seed and split, the longer corpus begins with all pairs of the
    shorter corpus.

    Args:
        pairs: number of pairs in the corpus.
        seed: random seed from which the corpus is generated.
        split: the split to generate, which is "train", "validation" or "test".
        first: index of the first pair to yield.

    Raises:
        ValueError: `pairs` or `first` is negative, or `split` is not in `SPLITS`.
        OutOfSentences: raised during iteration if the grammar generates no more new sentences.
    """
    if split not in SPLITS:
        raise ValueError(f"Unknown split {split!r}. Use one of {', '.join(SPLITS)}.")
    if min(pairs, first) < 0:
        raise ValueError(f"pairs is {pairs} and first is {first}. Neither may be negative.")
    return _from(first, pairs, seed, split)


def _from(first: int, pairs: int, seed: int, split: str) -> Iterator[DemoPair]:
    for begin in range(first - first % BLOCK_PAIRS, pairs, BLOCK_PAIRS):
        block = _block(begin, min(BLOCK_PAIRS, pairs - begin), seed, split)
        yield from islice(block, max(0, first - begin), None)


def _block(begin: int, pairs: int, seed: int, split: str) -> Iterator[DemoPair]:
    """Yields the first `pairs` pairs of the block that starts at index `begin`."""
    number = begin // BLOCK_PAIRS
    rng = Random(f"demo/{seed}/{split}" + (f"/{number}" if number else ""))
    sources: set[str] = set()
    misses = 0
    while len(sources) < pairs:
        draft = sentence(rng)
        if draft.source in sources or not belongs(draft.combinations, split):
            misses += 1
            if misses > PATIENCE:
                raise OutOfSentences(
                    f"The demo language runs out of new sentences after {begin + len(sources)} of "
                    f"{begin + pairs} pairs"
                )
            continue
        misses = 0
        sources.add(draft.source)
        yield DemoPair(draft.source, draft.target, draft.phenomena)


def belongs(combinations: Iterable[tuple[str, str]], split: str) -> bool:
    """Returns whether a sentence with the given lemma combinations belongs to the split."""
    splits = {combination_split(*combination) for combination in combinations}
    return (split == "train" and not splits) or split in splits <= {"train", split}


@cache
def combination_split(first: str, second: str) -> str:
    """Returns the split to which a combination of two English lemmas belongs."""
    percent = int.from_bytes(sha256(f"{first}|{second}".encode()).digest()[:4]) % 100
    if percent < _TEST_PERCENT:
        return "test"
    return "validation" if percent < _TEST_PERCENT + _VALIDATION_PERCENT else "train"
