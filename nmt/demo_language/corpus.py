"""Corpora of any size: which sentence pairs a seed and a split have.

The pairs of a split follow from the seed and the split alone, each block of them from its number
too, so that several processes can write one corpus.  Every (verb, object) and
(adjective, noun) combination of lemmas belongs to one split by its hash: training sentences hold
training combinations only, a test (validation) sentence holds at least one test (validation)
combination and beside it only those of training.  So no split ever shares a sentence with
another, whatever the seeds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import islice
from random import Random

from nmt.demo_language.grammar import sentence

PHENOMENA: tuple[str, ...] = (
    "gender",  # a pronoun or relative pronoun takes the gender of the noun it stands for
    "case",  # an accusative, dative or genitive that differs from the nominative
    "adjective agreement",  # an adjective with an ending before its noun
    "verb second",  # the subject stands behind the verb because something else comes first
    "verb final",  # a verb at the end of a clause or of the verbal bracket
    "separable verb",  # one of anrufen, aufstehen, ...
    "tense",  # not the present
    "negation",  # nicht, kein, nie, niemand
    "number or date",  # a counted noun, price, age, date or time of day
    "relative clause",
    "subordinate clause",  # with dass, ob, weil, ...
    "question",
)

SPLITS = ("train", "validation", "test")
_VALIDATION_PERCENT = 5
_TEST_PERCENT = 5
BLOCK_PAIRS = 100_000  # pairs that are written, and told from one another, without any others
_PATIENCE = 5_000  # sentences in a row without a new one for the split


class OutOfSentences(ValueError):
    """The grammar finds no more new sentences: fewer pairs must do."""


@dataclass(frozen=True)
class DemoPair:
    """A sentence in both languages and the phenomena its German shows (of `PHENOMENA`)."""

    source: str  # English
    target: str  # German
    phenomena: frozenset[str]


def demo_pairs(pairs: int, seed: int, split: str, first: int = 0) -> Iterator[DemoPair]:
    """Yield `pairs` sentence pairs of a split ("train", "validation" or "test").

    Pairs of the same block of `BLOCK_PAIRS` are different; those of two blocks may be equal.  A
    corpus is the beginning of every longer one of the same seed.

    Args:
        pairs: how many the corpus has.
        seed: of the corpus.
        split: see above.
        first: the number of the first pair that is wanted, counted from 0.

    Raises:
        ValueError: a negative number or an unknown split.
        OutOfSentences: while it yields, when the grammar finds no new sentence any more.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}, use one of {', '.join(SPLITS)}")
    if min(pairs, first) < 0:
        raise ValueError(f"{pairs} pairs from {first} on, use numbers from 0 up")
    return _from(first, pairs, seed, split)


def _from(first: int, pairs: int, seed: int, split: str) -> Iterator[DemoPair]:
    for begin in range(first - first % BLOCK_PAIRS, pairs, BLOCK_PAIRS):
        block = _block(begin, min(BLOCK_PAIRS, pairs - begin), seed, split)
        yield from islice(block, max(0, first - begin), None)


def _block(begin: int, pairs: int, seed: int, split: str) -> Iterator[DemoPair]:
    """The pairs `begin`, `begin` + 1, ... of a split, all different."""
    number = begin // BLOCK_PAIRS
    rng = Random(f"demo/{seed}/{split}" + (f"/{number}" if number else ""))
    sources: set[str] = set()
    misses = 0
    while len(sources) < pairs:
        draft = sentence(rng)
        if draft.source in sources or not _belongs(draft.combinations, split):
            misses += 1
            if misses > _PATIENCE:
                raise OutOfSentences(
                    f"the demo language has no new sentence after {begin + len(sources)} of "
                    f"{begin + pairs} pairs"
                )
            continue
        misses = 0
        sources.add(draft.source)
        yield DemoPair(draft.source, draft.target, draft.phenomena)


def _belongs(combinations: Iterable[tuple[str, str]], split: str) -> bool:
    """Whether a sentence of these combinations is one of the split."""
    splits = {combination_split(*combination) for combination in combinations}
    return (split == "train" and not splits) or split in splits <= {"train", split}


@cache
def combination_split(first: str, second: str) -> str:
    """The split that the combination of two English lemmas belongs to, the same everywhere."""
    percent = int.from_bytes(sha256(f"{first}|{second}".encode()).digest()[:4]) % 100
    if percent < _TEST_PERCENT:
        return "test"
    return "validation" if percent < _TEST_PERCENT + _VALIDATION_PERCENT else "train"
