"""What is done to text before it is trained on or translated, and which pairs are left out.

`normalize` is applied to everything that a model reads or writes. The rules are for training pairs
only; each has its count, so that nothing is dropped silently. They are generous: a rule is there to
catch what cannot be a translation, not what is merely unusual.
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
RULES = (EMPTY, TOO_LONG, RATIO, COPY, LEAKED, DUPLICATE, TOO_MANY_TOKENS)  # in order of use

MAX_WORDS = 1000
MAX_CHARACTERS = 5000
# In characters, 10 added to both sides so that "Ja." and "Yes, of course." pass. Measured on
# 320,000 English-German pairs of news, parliament, talks, captions and Wikipedia: drops 0.004%, at
# most 0.12% of a corpus, and what it drops there is misaligned.
MAX_RATIO = 4.0
RATIO_MARGIN = 10
_LEAK_WORDS = 4  # shorter sentences ("Yes.") occur in any two corpora

# Tab and every character that some reader takes for a line end become a space; other control
# characters (C0, DEL, C1) and the byte order mark vanish; a lone surrogate is no character.
_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
# Soft hyphen, zero-width space and word joiner: they can be seen only where a line is broken, if
# at all. Joiners and marks of direction do change what is seen in some scripts.
_INVISIBLE = re.compile("[\u00ad\u200b\u2060]")
# Those, blanks other than a space (as `str.split` knows them), and spaces that separate nothing.
_ODD_SPACING = re.compile("[\u00a0\u00ad\u1680\u2000-\u200b\u202f\u205f\u2060\u3000]|  |^ | $")
_WORD = re.compile(r"\w+")
_LETTER = re.compile(r"[^\W\d_]")


def normalize(text: str) -> str:
    r"""The one form in which text reaches the tokenizer, in training and in translation.

    Unicode NFC; white space of every kind, a run of it too, becomes one space, and none is left at
    either end; soft hyphens, zero-width spaces, word joiners, byte order marks and control
    characters are removed; lone surrogates become U+FFFD. Nothing else changes: case, zero-width
    joiners and non-joiners stay. Applying it twice changes nothing more.

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
    """Whether text holds a control character, a line end, a byte order mark or half a character."""
    return _CONTROL.search(text) is not None


def has_odd_spacing(text: str) -> bool:
    """Whether text has other spacing than single spaces between words; tabs and line ends aside."""
    return _ODD_SPACING.search(text) is not None


@dataclass(frozen=True)
class HeldOut:
    """The validation and test pairs, for finding training pairs that give them away.

    Only words are compared, without case and punctuation. A training pair leaks if its
    source, of four words or more, is a held-out source (the model would be asked what it was
    told, however the training pair translates it), or if both sides are a held-out pair's,
    however short. A shared target alone is no leak: "Thank you very much." answers many sources,
    and a model that has seen it still has to find that it belongs here.
    """

    sources: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "HeldOut":
        """Of normalized pairs."""
        words = [(_words(source), _words(target)) for source, target in pairs]
        long_enough = (source for source, _ in words if source.count(" ") >= _LEAK_WORDS - 1)
        return cls(frozenset(long_enough), frozenset(words))

    def holds(self, source: str, target: str) -> bool:
        """Whether a normalized training pair gives one of them away."""
        words = _words(source)
        return words in self.sources or (words, _words(target)) in self.pairs


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def fault(source: str, target: str, held_out: HeldOut) -> str | None:
    """The first rule that a normalized training pair breaks, or None.

    Duplicates and pairs of too many tokens are found later, by `first_occurrences` and by the
    tokenizer.
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
        return COPY  # a line of numbers is its own translation; a name is also learnt in sentences
    return LEAKED if held_out.holds(source, target) else None


def is_empty(source: str, target: str) -> bool:
    """Whether a side has nothing but white space."""
    return not source or source.isspace() or not target or target.isspace()


def pair_hash(source: str, target: str) -> int:
    """64 bits by which duplicates are found; they match by chance in one of some 10^5 corpora of
    10 million pairs."""
    text = f"{source}\n{target}".encode()  # no normalized text holds a line end
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def first_occurrences(hashes: np.ndarray) -> np.ndarray:
    """Which entries are the first of their value.

    Works through a sixteenth of the values at a time, so that it takes about 6 bytes an entry
    beyond the two arrays.

    Args:
        hashes: (n,) uint64.

    Returns:
        (n,) bool.
    """
    first = np.zeros(len(hashes), dtype=bool)
    parts = np.empty(len(hashes), dtype=np.uint8)
    np.right_shift(hashes, np.uint64(60), out=parts, casting="unsafe")  # in place of 8 bytes each
    for part in range(16):
        indices = np.flatnonzero(parts == part)
        _, positions = np.unique(hashes[indices], return_index=True)  # a stable sort: the first
        first[indices[positions]] = True
    return first
