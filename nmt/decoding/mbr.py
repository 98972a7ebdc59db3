"""Minimum Bayes risk: of many samples the translation that is most like all of them.

Eikema & Aziz (2020): each sample is a candidate, and all of them are references. What they are
compared by is chrF (Popović, 2015) with sacreBLEU's defaults, for all pairs at once.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ORDERS = range(1, 7)  # characters of an n-gram
_BETA_SQUARED = 4.0  # recall counts twice as much as precision
_MAX_COUNTS = 10_000_000  # of n-grams compared in memory at once


def expected_chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """(N,) the mean chrF of each text, 0 to 100, all of them being references, itself too."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    times = np.bincount([numbers[text] for text in texts], minlength=len(numbers))  # (M,)
    expected = pairwise_chrf(list(numbers)) @ times / max(len(texts), 1)
    return expected[[numbers[text] for text in texts]]


def pairwise_chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """(M, M) chrF, 0 to 100, of each text (row) with each as its reference (column)."""
    M = len(texts)
    precision, recall, orders = np.zeros((M, M)), np.zeros((M, M)), np.zeros((M, M))
    characters = ["".join(text.split()) for text in texts]  # white space does not count
    for n in _ORDERS:
        counts = _ngram_counts(characters, n)  # (M, G)
        sizes = counts.sum(1, dtype=np.float64)  # (M,)
        both = (sizes[:, None] > 0) & (sizes > 0)  # (M, M)
        common = _common(counts)
        precision += np.divide(common, sizes[:, None], out=np.zeros((M, M)), where=both)
        recall += np.divide(common, sizes, out=np.zeros((M, M)), where=both)
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weighted = _BETA_SQUARED * precision + recall
    product = 100 * (1 + _BETA_SQUARED) * precision * recall
    return np.divide(product, weighted, out=np.zeros((M, M)), where=weighted > 0)


def _ngram_counts(texts: Sequence[str], n: int) -> NDArray[np.int32]:
    """How often each n-gram of characters is in each text: (M, G)."""
    counted = [Counter(text[i : i + n] for i in range(len(text) - n + 1)) for text in texts]
    columns = {ngram: column for column, ngram in enumerate(set().union(*counted))}
    counts = np.zeros((len(texts), len(columns)), np.int32)
    for row, found in zip(counts, counted, strict=True):
        row[[columns[ngram] for ngram in found]] = list(found.values())
    return counts


def _common(counts: NDArray[np.int32]) -> NDArray[np.float64]:
    """How many n-grams each two texts have in common: (M, G) -> (M, M)."""
    M, G = counts.shape
    common = np.zeros((M, M))
    rows = max(1, _MAX_COUNTS // max(M * G, 1))
    for begin in range(0, M, rows):
        least = np.minimum(counts[begin : begin + rows, None], counts)  # (rows, M, G)
        common[begin : begin + rows] = least.sum(2)
    return common
