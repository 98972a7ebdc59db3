"""Measures how often a model prefers the correct translation to an incorrect translation.

LingEval97 (Sennrich, 2017) and ContraPro (Müller et al., 2018) are test sets of contrastive pairs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from nmt.errors import InputError, count
from nmt.storage.opening import read_lines
from nmt.translator import Translator

_COLUMNS = ("source", "correct translation", "incorrect translation", "category")
_REMEDY = (
    "Each line must contain a source sentence, a correct translation, an incorrect translation "
    "and a category, separated by tabs."
)
_Z = 1.96  # quantile of the normal distribution for a 95% confidence interval


@dataclass(frozen=True)
class Accuracy:
    """The share of contrastive pairs whose correct translation has the higher score."""

    pairs: int
    right: int
    accuracy: float  # 0 to 1
    interval: tuple[float, float]  # 95% confidence interval, Wilson (1927)

    @classmethod
    def of(cls, results: Sequence[bool]) -> Self:
        """Computes the accuracy from `results`, in which True stands for a correct pair."""
        n, right = len(results), sum(results)
        share, spread = right / n, _Z**2 / n
        middle = (share + spread / 2) / (1 + spread)
        half = (spread * share * (1 - share) + spread**2 / 4) ** 0.5 / (1 + spread)
        return cls(n, right, share, (max(0.0, middle - half), min(1.0, middle + half)))


@dataclass(frozen=True)
class Contrastive:
    """The accuracy on the contrastive pairs in a file, for each category and in total."""

    file: str
    total: Accuracy
    categories: dict[str, Accuracy]  # in order of first occurrence in the file


@dataclass(frozen=True)
class ContrastivePair:
    """A source sentence with a correct and an incorrect translation."""

    source: str
    right: str
    wrong: str
    category: str


def read_contrastive(path: Path) -> list[ContrastivePair]:
    """Reads contrastive pairs from a text file.

    Each line of the file contains a source sentence, a correct translation, an incorrect
    translation and a category, separated by tabs.

    Raises:
        InputError: the file cannot be read or is empty, or a line does not contain a valid pair.
    """
    pairs = list(_parsed(path))
    if not pairs:
        raise InputError(f"{path} is empty. {_REMEDY}")
    return pairs


def _parsed(path: Path) -> Iterator[ContrastivePair]:
    for number, line in enumerate(read_lines(path), start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != len(_COLUMNS):
            raise InputError(
                f"{path}:{number}: The line has {count(len(cells), 'column')}, not 4. {_REMEDY}"
            )
        if empty := [name for name, cell in zip(_COLUMNS, cells, strict=True) if not cell]:
            raise InputError(f"{path}:{number}: The {empty[0]} is empty. Fill it in.")
        pair = ContrastivePair(*cells)
        if pair.right == pair.wrong:
            raise InputError(
                f"{path}:{number}: The correct and the incorrect translation are identical. Change "
                "one of them, or remove the line."
            )
        yield pair


def contrastive_accuracy(
    translator: Translator, pairs: Sequence[ContrastivePair], path: Path
) -> Contrastive:
    """Computes a model's accuracy on contrastive pairs.

    A pair counts as correct if the model assigns a higher log-probability to the correct
    translation than to the incorrect translation. As in `nmt score`, the log-probabilities are not
    normalized by length.

    Args:
        path: the path of the file of contrastive pairs, for use in error messages.

    Raises:
        InputError: a source or a translation is too long for the model, or both translations of
            a pair have the same tokens.
        NoModelError: the model is an exported model, or the log-probabilities are NaN.
    """
    from nmt.decoding.score import max_tokens, score_translations  # imports torch

    limit = max_tokens(translator)
    for number, pair in enumerate(pairs, start=1):
        sides = [pair.source] * 2, [pair.right, pair.wrong]
        encoded = translator.tokenizer.encode_pairs(*sides)
        if any(max(map(len, each)) > limit for each in encoded):
            raise InputError(
                f"{path}:{number}: The source or a translation has more than {limit:,} tokens. "
                "Shorten it."
            )
        if np.array_equal(encoded[0].target, encoded[1].target):
            raise InputError(
                f"{path}:{number}: The correct and the incorrect translation have the same tokens, "
                "so the model cannot distinguish them. Remove the line."
            )
    targets = [*(pair.right for pair in pairs), *(pair.wrong for pair in pairs)]
    sources = [pair.source for pair in pairs] * 2
    scores = [each.log_probability for each in score_translations(translator, sources, targets)]
    results: dict[str, list[bool]] = {}
    for pair, right, wrong in zip(pairs, scores, scores[len(pairs) :], strict=False):
        results.setdefault(pair.category, []).append(right > wrong)
    return Contrastive(
        str(path),
        Accuracy.of([each for some in results.values() for each in some]),
        {category: Accuracy.of(some) for category, some in results.items()},
    )
