"""Defines the result types of translation, and joins the translations of a text's parts."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, zip_longest

import numpy as np
from numpy.typing import NDArray

# The characters of Chinese and Japanese, which are written without spaces between sentences:
# punctuation, kana, bopomofo, ideographs, full-width and half-width forms.
UNSPACED = (
    "[\u3001-\u3020\u3030-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]"
)

Links = list[tuple[int, int]]  # a word alignment: pairs (source word, target word), from 0
Term = tuple[str, str]  # (source term, target term), see nmt.decoding.glossary


@dataclass(frozen=True)
class Attention:
    """The cross-attention weights between a source, or one part of a source, and its translation.

    `nmt.decoding.alignment` describes the weights. Pieces are the string forms of tokens; see
    `Tokenizer.pieces`.
    """

    source_pieces: list[str]  # (S), </s> last
    target_pieces: list[str]  # (T)
    weights: NDArray[np.float32] = field(compare=False)  # (T, S); each row sums to 1


@dataclass(frozen=True, repr=False)
class Translation:
    """The translation of a text, with its scores and tokens.

    Long texts are translated in parts, whose translations are joined.

    `str(translation)` returns the translated text.
    """

    text: str  # without tabs; one line, or with `document` as many lines as the source
    score: float  # log_probability / length penalty, summed over the parts; with `mbr`, mean chrF
    log_probability: float  # natural log, summed over `tokens`
    tokens: list[int]  # token ids, including the EOS of each finished part
    parts: int  # number of parts that the source was split into; 0 if the source has no text
    alignment: Links | None = None  # only with `align`; see nmt.decoding.alignment
    pieces: list[str] = field(default_factory=list)  # `tokens` as strings
    token_log_probabilities: list[float] = field(default_factory=list)  # one per token
    attention: list[Attention] | None = None  # only with `attention`; one per part
    # the other n-best translations, best first
    alternatives: list["Translation"] = field(default_factory=list)
    unmet_terms: list[Term] = field(default_factory=list)  # glossary terms that `text` lacks

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Translation({self.text!r}, score={self.score:.6g})"

    @property
    def is_lost(self) -> bool:
        """Whether the translation is empty although the source has text."""
        return self.parts > 0 and not self.text.strip()


@dataclass(frozen=True)
class NextToken:
    """A candidate for the next token of a translation."""

    token: int  # token id
    piece: str  # the token as a string, see Tokenizer.pieces
    text: str  # the prefix with this token appended
    probability: float


EMPTY = Translation("", 0.0, 0.0, [], 0)


def length_penalty(n_tokens: float, alpha: float) -> float:
    """Returns the length penalty, by which a hypothesis's log-probability is divided.

    The length penalty of Wu et al. (2016, Eq. 14) is ((5 + n) / 6) ** alpha, where n is the length
    in tokens, including EOS but not BOS.
    """
    try:
        return float(((5 + n_tokens) / 6) ** alpha)
    except OverflowError:
        return sys.float_info.max


def combine(parts: Sequence[Sequence[Translation]]) -> list[Translation]:
    """Joins the n-best lists of consecutive parts into one n-best list.

    The n-th translation in the result joins the n-th best translations of all parts. If a part has
    fewer than n translations, its last translation is used instead. Scores and log-probabilities
    are summed over the parts. The joined list is sorted by score, like the list of each part.
    """
    parts = [part for part in parts if part[0].parts]
    if len(parts) <= 1:
        return list(parts[0]) if parts else [EMPTY]
    return [
        _joined([part[min(rank, len(part) - 1)] for part in parts])
        for rank in range(max(map(len, parts)))
    ]


def different(translations: Sequence[Translation]) -> list[Translation]:
    """Removes every translation whose text equals the text of an earlier translation."""
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
    """Joins texts with spaces, except next to Chinese or Japanese characters."""
    gaps = [
        "" if re.match(UNSPACED, before[-1]) or re.match(UNSPACED, after) else " "
        for before, after in pairwise(texts)
    ]
    return "".join(chain(*zip_longest(texts, gaps, fillvalue="")))


def _joined_attention(parts: list[Translation]) -> list[Attention] | None:
    """Returns the attention weights of all parts, or None if any part has no attention weights."""
    each = [part.attention for part in parts if part.attention is not None]
    return list(chain(*each)) if len(each) == len(parts) else None


def _joined_links(parts: list[Translation], text: str) -> Links | None:
    """Joins the word alignments of all parts, or returns None if any part has no word alignment.

    In the joined word alignment, target words are numbered within the whole translation.
    """
    words = [number for number, word in enumerate(text.split()) for _ in word]  # per character
    joined: Links = []
    before = 0  # number of non-space characters in the earlier parts
    for part in parts:
        if part.alignment is None:
            return None
        joined += [(source, words[before] + target) for source, target in part.alignment]
        before += sum(map(len, part.text.split()))
    return joined
