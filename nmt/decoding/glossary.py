"""Implements glossaries, which prescribe how source terms are translated.

Terms are compared word by word, so the term "cat" does not match "catalogue". A word is a single
Chinese or Japanese character, a sequence of other letters and digits, or any other single character
except a space. Inflected forms of a term do not match, so each form needs a separate entry.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from nmt.data.cleaning import normalize
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.term_banks import TokenKinds
from nmt.decoding.translation import UNSPACED, Term
from nmt.errors import ArgumentError
from nmt.storage.opening import read_lines

_WORD = re.compile(rf"{UNSPACED}|(?:(?!{UNSPACED})\w)+|[^\w\s]")
_STOPS = set(".!?…。！？")  # characters that end a sentence

_Words = tuple[str, ...]


@dataclass(frozen=True)
class Glossary:
    """Source terms, and the target terms that their translations must contain.

    A source term without capital letters matches regardless of case. All other source terms are
    case-sensitive. If several terms match at the same position, the longest of these terms is used.
    Matches do not overlap.

    Args:
        terms: pairs of a source term and its target term.
        path: the file from which the terms were read, or None if the terms are not from a file.

    Raises:
        ArgumentError: a term is empty, or a source term has two different target terms.
    """

    terms: tuple[Term, ...]
    path: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        seen: dict[_Words, str] = {}
        for source, target in self.terms:
            if not _words(source) or not _words(target):
                raise ArgumentError(
                    '{glossary} has an entry with an empty term ("{}" -> "{}"). Remove the entry.',
                    source, target,
                )  # fmt: skip
            other = seen.setdefault(_words(source), target)
            if other != target:
                raise ArgumentError(
                    '{glossary} has two translations of "{}": "{}" and "{}". Remove one of them.',
                    source, other, target,
                )  # fmt: skip

    @classmethod
    def of(cls, terms: "Glossary | Mapping[str, str] | str | Path") -> "Glossary":
        """Creates a glossary from a mapping of source terms to target terms, or from a file.

        Raises:
            ArgumentError: `terms` has an unsupported type. For other errors, see `Glossary` and
                `load`.
        """
        if isinstance(terms, Glossary):
            return terms
        if isinstance(terms, str | Path):
            return cls.load(terms)
        if not isinstance(terms, Mapping):
            raise ArgumentError(
                "{glossary} must be a path or a dict, not {}.", type(terms).__name__
            )
        if not all(isinstance(text, str) for term in terms.items() for text in term):
            raise ArgumentError("The keys and values of {glossary} must be strings.")
        return cls(tuple(terms.items()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Loads a file in which each line contains a source term, a tab and a target term.

        Blank lines are skipped.

        Raises:
            InputError: the file cannot be read.
            ArgumentError: a line does not consist of two terms that are separated by a tab. For
                other errors, see `Glossary`.
        """
        terms = []
        for number, line in enumerate(read_lines(Path(path)), start=1):
            columns = [column.strip() for column in line.split("\t")]
            if columns == [""]:
                continue
            if len(columns) != 2 or not all(columns):
                raise ArgumentError(
                    "Line {} of {} must contain a source term, a tab and a target term. Correct "
                    "the line.",
                    number,
                    path,
                )
            terms.append((columns[0], columns[1]))
        return cls(tuple(terms), Path(path))

    @cached_property
    def _by_words(self) -> tuple[dict[_Words, Term], dict[_Words, Term], int]:
        """Returns two dictionaries that map source words to terms, and the maximum term length.

        The first dictionary contains all terms. The second dictionary contains only those terms
        that match regardless of case. The maximum term length is the number of words in the longest
        source term.
        """
        exact = {_words(term[0]): term for term in self.terms}
        folded = {words: term for words, term in exact.items() if term[0] == term[0].lower()}
        return exact, folded, max(map(len, exact), default=0)

    def required(self, text: str) -> list[Term]:
        """Returns all occurrences of terms in a source text, in text order."""
        exact, folded, longest = self._by_words
        words, found, at = _words(text), [], 0
        while at < len(words):
            for end in range(min(at + longest, len(words)), at, -1):
                some = words[at:end]
                term = exact.get(some) or folded.get(tuple(word.lower() for word in some))
                if term:
                    found.append(term)
                    at = end - 1
                    break
            at += 1
        return found


def unmet(required: Sequence[Term], translation: str) -> list[Term]:
    """Returns the required terms that a translation does not contain often enough.

    At the start of a translation, the first letter of a term may be capitalized. An occurrence of a
    term that begins or ends with a symbol, such as "C++", does not count if a letter or digit
    directly precedes or follows the occurrence.
    """
    text, lacking = normalize(translation), []
    found = {target: _count(_words(target), text) for _, target in required}
    for term in required:
        found[term[1]] -= 1
        if found[term[1]] < 0:
            lacking.append(term)
    return lacking


def _count(term: _Words, text: str) -> int:
    """Counts the non-overlapping occurrences of a term in a normalized text."""
    places = list(_WORD.finditer(text))
    words = tuple(place[0] for place in places)
    capital = (term[0][0].upper() + term[0][1:], *term[1:])
    times = at = 0
    while at + len(term) <= len(words):
        some = words[at : at + len(term)]
        is_found = some == term or (at == 0 and some == capital)
        if is_found:
            is_found = not _adjoins_word(text, places[at].start(), places[at + len(term) - 1].end())
        times += is_found
        at += len(term) if is_found else 1
    return times


def _adjoins_word(text: str, start: int, end: int) -> bool:
    """Returns whether a letter or digit directly precedes or follows `text[start:end]`."""
    before = _is_in_word(text[:start][-1:]) and not re.match(UNSPACED, text[start])
    return before or (_is_in_word(text[end : end + 1]) and not re.match(UNSPACED, text[end - 1]))


def _words(text: str) -> _Words:
    return tuple(_WORD.findall(normalize(text)))


def token_kinds(tokenizer: Tokenizer) -> TokenKinds:
    """Returns the `TokenKinds` of the tokenizer's vocabulary.

    A token that contains only part of a character, such as a single byte, is treated as a letter.
    """
    spellings = tokenizer.spelling(range(tokenizer.vocabulary_size))
    texts = [spelling.decode(errors="replace") for spelling in spellings]
    return TokenKinds(
        np.array([_is_in_word(text[:1]) for text in texts]),
        np.array([re.fullmatch(UNSPACED, text[-1:]) is not None for text in texts]),
        np.array([text[-1:] in _STOPS for text in texts]),
    )


def _is_in_word(character: str) -> bool:
    is_letter = character == "\ufffd" or re.fullmatch(r"\w", character) is not None
    return is_letter and not re.fullmatch(UNSPACED, character)
