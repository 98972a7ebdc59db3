"""Tests whether the scores of two systems differ significantly.

A system is a configuration that was trained once, or several times with different seeds. The tests
answer two independent questions:

* Seeds: would the scores still differ if both systems were trained again? Welch's t-test
  (Welch, 1947) compares the scores of both systems' runs on the same test set.
* Sentences: would the scores of the trained models still differ on another test set? Paired
  bootstrap resampling (Koehn, 2004) compares the models on resampled test sets.

The difference between two systems can be significant even if the systems' 95% confidence intervals
overlap. Therefore, comparing confidence intervals cannot replace these tests. If several
systems are compared with the same baseline, `holm` corrects the p-values of each test (Holm, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, variance

import numpy as np

LEVEL = 0.95  # confidence level of all intervals


@dataclass(frozen=True)
class Difference:
    """The mean score of a system's runs minus the mean score of the baseline's runs."""

    value: float
    interval: tuple[float, float]  # 95% confidence interval
    p_value: float  # two-sided


def over_seeds(scores: Sequence[float], baseline: Sequence[float]) -> Difference | None:
    """Compares two systems by Welch's t-test, which does not assume equal variances.

    Returns:
        The difference, or None if a system has fewer than two runs, or if the scores of neither
        system vary.
    """
    if min(len(scores), len(baseline)) < 2:
        return None
    shares = [variance(side) / len(side) for side in (scores, baseline)]
    error = math.sqrt(sum(shares))
    if not error:
        return None
    freedom = error**4 / sum(
        share**2 / (len(side) - 1) for share, side in zip(shares, (scores, baseline), strict=True)
    )
    value = mean(scores) - mean(baseline)
    half = students_quantile(freedom) * error
    return Difference(value, (value - half, value + half), students_p(value / error, freedom))


def over_sentences(
    scores: Sequence[float],
    resampled: Sequence[Sequence[float]],
    baseline: Sequence[float],
    baseline_resampled: Sequence[Sequence[float]],
) -> Difference:
    """Compares the mean scores of two systems' runs by paired bootstrap resampling.

    If each system has one run, `sacrebleu --paired-bs` computes the same p-value.

    Args:
        scores, baseline: the scores of the system's runs and of the baseline's runs.
        resampled, baseline_resampled: for each run, the scores on the resampled test sets. All runs
            must be scored on the same resampled test sets (see `resampled_scores`).
    """
    value = mean(scores) - mean(baseline)
    found = np.mean(resampled, axis=0) - np.mean(baseline_resampled, axis=0)
    sizes = np.abs(found)
    more = int((sizes - sizes.mean() > abs(value)).sum())
    outside = len(found) // 40  # 2.5% at each end
    low, high = np.sort(found)[[outside, -1 - outside]].tolist()
    return Difference(value, (low, high), (more + 1) / (len(found) + 1) if value else 1.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrects p-values for multiple comparisons by Holm's method.

    The smallest of n p-values is multiplied by n, the second smallest by n - 1, and so on. If the
    product is less than the previous corrected p-value, the previous value is used instead.
    Corrected p-values are limited to 1.
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def mean_interval(scores: Sequence[float]) -> tuple[float, float] | None:
    """Computes a 95% confidence interval of the mean score with Student's t distribution.

    Returns None if there is only one run.
    """
    if len(scores) < 2:
        return None
    half = students_quantile(len(scores) - 1) * math.sqrt(variance(scores) / len(scores))
    return mean(scores) - half, mean(scores) + half


def students_p(t: float, freedom: float) -> float:
    """Returns the probability that |T| exceeds |t|, where T has Student's t distribution.

    The probability is the regularized incomplete beta function I_x(freedom / 2, 1 / 2) at
    x = freedom / (freedom + t²) (Abramowitz and Stegun, 1964, 26.7.1).
    """
    from mpmath import betainc

    x = freedom / (freedom + t**2)
    return float(betainc(freedom / 2, 0.5, 0, x, regularized=True))


def students_quantile(freedom: float) -> float:
    """Returns the two-sided 5% critical value of Student's t distribution."""
    low, high = 0.0, 1.0
    while students_p(high, freedom) > 1 - LEVEL:
        high *= 2
    for _ in range(60):  # until `low` and `high` are adjacent floats
        middle = (low + high) / 2
        low, high = (middle, high) if students_p(middle, freedom) > 1 - LEVEL else (low, middle)
    return high
