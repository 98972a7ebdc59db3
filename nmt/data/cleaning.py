"""Normalizes text, and defines the cleaning rules for dropping training pairs.

`normalize` is applied to all text that a model reads or writes. The cleaning rules apply only to
training pairs, and no pair is dropped merely because it is unusual. `nmt prepare` reports the
number of pairs that each rule has dropped.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

REPAIRED = "control characters"
SPACING = "white space"
REPAIRS = (REPAIRED, SPACING)
EMPTY = "empty side"
TOO_LONG = "too long"
RATIO = "ratio"
COPY = "copy of source"
LEAKED = "also in validation or test"
DUPLICATE = "duplicate pair"
TOO_MANY_TOKENS = "longer than max_length tokens"
RULES = (EMPTY, TOO_LONG, RATIO, COPY, LEAKED, DUPLICATE, TOO_MANY_TOKENS)  # as applied

MAX_WORDS = 1000
MAX_CHARACTERS = 5000
# Maximum ratio of the two sides' lengths in characters, after 10 is added to both lengths so that
# the pair "Ja." and "Yes, of course." passes. Of 320,000 English-German pairs from news,
# parliamentary debates, talks, captions and Wikipedia, this rule drops 0.004% (at most 0.12% of any
# corpus). The dropped pairs are misaligned.
MAX_RATIO = 4.0
RATIO_MARGIN = 10
_LEAK_WORDS = 4  # shorter sentences, such as "Yes.", occur in almost every corpus

# Tabs and all characters that some programs treat as line endings become spaces. Other control
# characters (C0, DEL, C1) and byte order marks are removed. Lone surrogates become U+FFFD.
_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
# Soft hyphen, zero-width space and word joiner affect only line breaks. Zero-width joiners and
# direction marks are kept, because they change how some scripts are displayed.
_INVISIBLE = re.compile("[\u00ad\u200b\u2060]")
# Matches these characters, all other white space (as defined by `str.split`) except U+0020, and
# repeated, leading or trailing spaces.
_ODD_SPACING = re.compile("[\u00a0\u00ad\u1680\u2000-\u200b\u202f\u205f\u2060\u3000]|  |^ | $")
_LETTER = re.compile(r"[^\W\d_]")
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)  # combining marks that select, for example, an emoji


def normalize(text: str) -> str:
    r"""Returns text in the form that the tokenizer expects, both in training and in translation.

    The result is in Unicode NFC. Each run of white space becomes one space, and leading and
    trailing white space is removed. Soft hyphens, zero-width spaces, word joiners, byte order marks
    and control characters are removed. Lone surrogates become U+FFFD. Letter case, zero-width
    joiners and zero-width non-joiners are preserved. The function is idempotent.

    >>> normalize(" Mu\u0308ller\tund\r\nSo\x00hn,\u00a0Do\u00adnau\u200b\n")
    'Müller und Sohn, Donau'
    """
    if needs_repair(text):
        text = _CONTROL.sub(_replacement, text)
    if has_odd_spacing(text):
        text = " ".join(_INVISIBLE.sub("", text).split())
    return unicodedata.normalize("NFC", text)


def _replacement(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SPACES:
        return " "
    return "\ufffd" if "\ud800" <= character <= "\udfff" else ""


def needs_repair(text: str) -> bool:
    """Returns whether a text contains a control character, line ending, BOM or lone surrogate."""
    return _CONTROL.search(text) is not None


def has_odd_spacing(text: str) -> bool:
    """Returns whether `normalize` changes spacing other than tabs and line endings in a text."""
    return _ODD_SPACING.search(text) is not None


@dataclass(frozen=True)
class HeldOut:
    """The validation and test pairs, with which training pairs are compared to detect leaks.

    The comparison uses only the words of a sentence and ignores case and punctuation. Combining
    marks, such as the vowel signs of Hindi, are parts of words. A training pair leaks a held-out
    pair if both pairs have the same source and the same target, or if they have the same source and
    it has at least four words. Equal targets alone do not count as a leak, because a target such as
    "Thank you very much." is the translation of many sources.
    """

    sources: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "HeldOut":
        """Creates a held-out set from normalized pairs."""
        words = [(_words(source), _words(target)) for source, target in pairs]
        long_enough = (source for source, _ in words if source.count(" ") >= _LEAK_WORDS - 1)
        return cls(frozenset(long_enough), frozenset(words))

    def holds(self, source: str, target: str) -> bool:
        """Returns whether a normalized training pair leaks a held-out pair."""
        words = _words(source)
        return words in self.sources or (words, _words(target)) in self.pairs


class _Words(dict[int, int]):
    """A table for `str.translate` that replaces each character outside words with a space."""

    def __missing__(self, code: int) -> int:
        character = chr(code)
        is_mark = unicodedata.category(character) in ("Mn", "Mc")
        is_part = character.isalnum() or character == "_" or is_mark
        self[code] = code if is_part and code not in _VARIATION_SELECTORS else ord(" ")
        return self[code]


_TABLE = _Words()  # filled on demand


def _words(text: str) -> str:
    return " ".join(text.casefold().translate(_TABLE).split())


def fault(source: str, target: str, held_out: HeldOut) -> str | None:
    """Returns the first rule that a normalized training pair breaks, or None if there is none.

    The rules for duplicates and for pairs with too many tokens are applied later, by
    `first_occurrences` and `encode_shard`.
    """
    if is_empty(source, target):
        return EMPTY
    if max(len(source), len(target)) > MAX_CHARACTERS or (
        max(source.count(" "), target.count(" ")) >= MAX_WORDS
    ):
        return TOO_LONG
    short, long = sorted((len(source), len(target)))
    if long + RATIO_MARGIN > MAX_RATIO * (short + RATIO_MARGIN):
        return RATIO
    if source.strip().casefold() == target.strip().casefold() and _LETTER.search(source):
        return COPY  # a number, which has no letters, is its own translation
    return LEAKED if held_out.holds(source, target) else None


def is_empty(source: str, target: str) -> bool:
    """Returns whether the source or the target is empty or contains only white space."""
    return not source or source.isspace() or not target or target.isspace()


def pair_hash(source: str, target: str) -> int:
    """Returns a 64-bit hash of a pair, which is used to find duplicates.

    The probability that any two of 10 million distinct pairs have the same hash is below 10^-5.
    """
    text = f"{source}\n{target}".encode()  # a normalized text contains no line endings
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def first_occurrences(hashes: np.ndarray) -> np.ndarray:
    """Returns a mask that marks the first occurrence of each value.

    The entries are processed in 16 parts, which limits the memory for intermediate results to about
    6 bytes per entry.

    Args:
        hashes: (n,) uint64, one result of `pair_hash` per pair.

    Returns:
        (n,) bool.
    """
    first = np.zeros(len(hashes), dtype=bool)
    parts = np.empty(len(hashes), dtype=np.uint8)
    np.right_shift(hashes, np.uint64(60), out=parts, casting="unsafe")  # avoids a uint64 copy
    for part in range(16):
        indices = np.flatnonzero(parts == part)
        _, positions = np.unique(hashes[indices], return_index=True)  # of first occurrences
        first[indices[positions]] = True
    return first
