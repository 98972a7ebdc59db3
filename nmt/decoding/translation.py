"""What a translation is made of, and how those of consecutive parts become one."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, zip_longest

import numpy as np
from numpy.typing import NDArray

# Characters of Chinese and Japanese, which put no blank between sentences: their punctuation, kana,
# bopomofo, ideographs, full-width and half-width forms.
UNSPACED = (
    "[\u3001-\u3020\u3030-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]"
)

Links = list[tuple[int, int]]  # numbers of a source word and of a word of its translation
Term = tuple[str, str]  # a source term and its target term, see nmt.decoding.glossary


@dataclass(frozen=True)
class Attention:
    """Where each token of a translation looks, or of a part of one: see `nmt.decoding.alignment`.

    Pieces are tokens as a person reads them, see `Tokenizer.pieces`.
    """

    source_pieces: list[str]  # S of them, </s> last
    target_pieces: list[str]  # T of them
    weights: NDArray[np.float32] = field(compare=False)  # (T, S); each row sums to 1


@dataclass(frozen=True)
class Translation:
    """A translation of a text that may have been translated in several parts."""

    text: str  # one line, without a tab
    score: float  # log_probability / length penalty; summed over the parts
    log_probability: float  # natural log, summed over `tokens`
    tokens: list[int]  # with the end symbol of each part that has one
    parts: int  # in which the source was translated; 0: it was blank
    alignment: Links | None = None  # if asked for, see nmt.decoding.alignment
    pieces: list[str] = field(default_factory=list)  # `tokens` as a person reads them
    token_log_probabilities: list[float] = field(default_factory=list)  # one for each of `tokens`
    attention: list[Attention] | None = None  # if asked for, one for each part
    alternatives: list["Translation"] = field(default_factory=list)  # of `translate`, best first
    unmet_terms: list[Term] = field(default_factory=list)  # of the glossary, that it does not have


@dataclass(frozen=True)
class NextToken:
    """A token with which a translation may go on."""

    token: int
    piece: str  # as a person reads it, see Tokenizer.pieces
    text: str  # the translation so far, with it
    probability: float  # the model's


EMPTY = Translation("", 0.0, 0.0, [], 0)


def length_penalty(n_tokens: float, alpha: float) -> float:
    """Divisor that offsets the preference of summed log-probabilities for short hypotheses.

    Wu et al. (2016), Eq. 14: ((5 + n) / 6) ** alpha. The end symbol counts, the start does not.
    """
    try:
        return float(((5 + n_tokens) / 6) ** alpha)
    except OverflowError:
        return sys.float_info.max


def combine(parts: Sequence[Sequence[Translation]]) -> list[Translation]:
    """Translations of a text from those of its consecutive parts: the n-th best ones, joined.

    A part with fewer translations than another repeats its last. Scores and log-probabilities add
    up, so that the order stays best first.
    """
    parts = [part for part in parts if part[0].parts]
    if len(parts) <= 1:
        return list(parts[0]) if parts else [EMPTY]
    return [
        _joined([part[min(rank, len(part) - 1)] for part in parts])
        for rank in range(max(map(len, parts)))
    ]


def different(translations: Sequence[Translation]) -> list[Translation]:
    """Of those that read alike, only the first."""
    first: dict[str, Translation] = {}
    for each in translations:
        first.setdefault(each.text, each)
    return list(first.values())


def _joined(parts: list[Translation]) -> Translation:
    text = _joined_texts([part.text for part in parts if part.text])
    return Translation(
        text,
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        [token for part in parts for token in part.tokens],
        sum(part.parts for part in parts),
        _joined_links(parts, text),
        [piece for part in parts for piece in part.pieces],
        [value for part in parts for value in part.token_log_probabilities],
        _joined_attention(parts),
        unmet_terms=[term for part in parts for term in part.unmet_terms],
    )


def _joined_texts(texts: list[str]) -> str:
    """Consecutive texts as one: with blanks, but for Chinese or Japanese on either side."""
    gaps = [
        "" if re.match(UNSPACED, before[-1]) or re.match(UNSPACED, after) else " "
        for before, after in pairwise(texts)
    ]
    return "".join(chain(*zip_longest(texts, gaps, fillvalue="")))


def _joined_attention(parts: list[Translation]) -> list[Attention] | None:
    """That of all parts; None if one has none."""
    each = [part.attention for part in parts if part.attention is not None]
    return list(chain(*each)) if len(each) == len(parts) else None


def _joined_links(parts: list[Translation], text: str) -> Links | None:
    """The links of parts, with words numbered in the whole translation; None if a part has none."""
    words = [number for number, word in enumerate(text.split()) for _ in word]  # of each character
    joined: Links = []
    before = 0  # characters, white space left out
    for part in parts:
        if part.alignment is None:
            return None
        joined += [(source, words[before] + target) for source, target in part.alignment]
        before += sum(map(len, part.text.split()))
    return joined
