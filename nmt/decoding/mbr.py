"""Implements minimum Bayes risk decoding (Eikema & Aziz, 2020).

Minimum Bayes risk decoding selects the sample with the highest mean utility, where every sample
serves both as a candidate and as a reference. The utility function is chrF (Popović, 2015) with
sacreBLEU's default settings. The chrF of all pairs of samples is computed at once.

In array shapes, N is the number of texts, and M the number of distinct texts.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ORDERS = range(1, 7)  # lengths of character n-grams
_BETA_SQUARED = 4.0  # beta = 2, as in chrF2
_MAX_COUNTS = 10_000_000  # maximum number of n-gram counts in memory at once


def expected_chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """Returns each text's chrF (0 to 100), averaged over all N texts as its reference, (N,)."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    times = np.bincount([numbers[text] for text in texts], minlength=len(numbers))  # (M,)
    expected = pairwise_chrf(list(numbers)) @ times / max(len(texts), 1)
    return expected[[numbers[text] for text in texts]]


def pairwise_chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """Returns the chrF (0 to 100) of each text (rows) against each text as reference (columns)."""
    M = len(texts)
    precision, recall, orders = np.zeros((M, M)), np.zeros((M, M)), np.zeros((M, M))
    characters = ["".join(text.split()) for text in texts]  # chrF ignores white space
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
    """Returns the number of character n-grams that each pair of texts shares, shape (M, M)."""
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
        common += np.minimum(counts[:, None], counts).sum(2)  # sum of an array (M, M, width)
    np.fill_diagonal(common, [counts.total() for counts in counted])
    return common
