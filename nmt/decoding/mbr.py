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
_MAX_COUNTS = 10_000_000  # numbers in memory at once


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
        sizes = np.array([max(len(text) - n + 1, 0) for text in characters])  # (M,)
        both = (sizes[:, None] > 0) & (sizes > 0)  # (M, M)
        common = _common(characters, n)
        precision += np.divide(common, sizes[:, None], out=np.zeros((M, M)), where=both)
        recall += np.divide(common, sizes, out=np.zeros((M, M)), where=both)
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weighted = _BETA_SQUARED * precision + recall
    product = 100 * (1 + _BETA_SQUARED) * precision * recall
    return np.divide(product, weighted, out=np.zeros((M, M)), where=weighted > 0)


def _common(texts: Sequence[str], n: int) -> NDArray[np.float64]:
    """How many n-grams of characters each two texts have in common: (M, M)."""
    M = len(texts)
    counted = [Counter(text[i : i + n] for i in range(len(text) - n + 1)) for text in texts]
    texts_with = Counter(ngram for counts in counted for ngram in counts)
    shared = [ngram for ngram, number in texts_with.items() if number > 1]
    columns = {ngram: column for column, ngram in enumerate(shared)}
    entries = [
        (columns[ngram], row, times)
        for row, counts in enumerate(counted)
        for ngram, times in counts.items()
        if ngram in columns
    ]
    entries.sort()
    column, row, times = np.array(entries, np.int64).reshape(-1, 3).T
    common = np.zeros((M, M))
    width = max(1, min(_MAX_COUNTS // max(M * M, 1), len(columns)))
    for begin in range(0, len(columns), width):
        some = slice(*np.searchsorted(column, (begin, begin + width)))
        counts = np.zeros((M, width), np.int32)
        counts[row[some], column[some] - begin] = times[some]
        common += np.minimum(counts[:, None], counts).sum(2)  # of (M, M, width)
    np.fill_diagonal(common, [counts.total() for counts in counted])
    return common
