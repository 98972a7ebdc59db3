"""Welch's test, Holm's correction and the paired bootstrap, against other formulas and figures."""

import math
from statistics import mean

import numpy as np
import pytest

from nmt.evaluation.bleu import bleu_metric, compare, resampled_scores
from nmt.evaluation.significance import (
    holm,
    mean_interval,
    over_seeds,
    over_sentences,
    students_p,
    students_quantile,
)
from nmt.reporting.differences import System, difference_table


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 2.5, 12.0])
def test_the_tails_are_the_closed_forms_and_the_integral_of_the_density(t: float):
    """Closed forms exist for 1, 2 and 4 degrees of freedom; otherwise the density is integrated."""
    root = math.sqrt(2 + t * t)
    four = t / math.sqrt(4 + t * t)
    assert students_p(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-12)
    assert students_p(t, 2) == pytest.approx(1 - t / root, abs=1e-12)
    assert students_p(t, 4) == pytest.approx(1 - 1.5 * (four - four**3 / 3), abs=1e-12)
    assert students_p(-t, 4) == students_p(t, 4)
    n = 2.7
    scale = math.gamma((n + 1) / 2) / math.sqrt(n * math.pi) / math.gamma(n / 2)
    x = np.linspace(0, t, 20_001)
    inside = np.trapezoid(scale * (1 + x**2 / n) ** (-(n + 1) / 2), x)
    assert students_p(t, n) == pytest.approx(1 - 2 * inside, abs=1e-8)


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (9, 2.2622), (30, 2.0423)]
)
def test_quantiles_are_those_of_the_printed_table(freedom: int, t: float):
    assert students_quantile(freedom) == pytest.approx(t, abs=5e-5)


@pytest.mark.parametrize(
    ("scores", "baseline", "p_value", "interval"),
    [
        ([27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4],
         [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4],
         0.021378001462866992, (-3.984096267140929, -0.3492370661924069)),
        ([28.5, 28.8, 29.25, 29.0], [23.1, 23.9, 24.2],
         0.0008582216571659297, (3.979392690298045, 6.328940643035285)),
    ],
)  # fmt: skip
def test_welchs_test_agrees_with_scipy(scores, baseline, p_value: float, interval):
    """scipy 1.17.1: ttest_ind(scores, baseline, equal_var=False), with confidence_interval()."""
    found, back = over_seeds(scores, baseline), over_seeds(baseline, scores)
    assert found and back
    assert found.value == pytest.approx(mean(scores) - mean(baseline))
    assert found.p_value == pytest.approx(p_value, rel=1e-9) == back.p_value
    assert found.interval == pytest.approx(interval, rel=1e-9)


def test_equal_variances_of_equal_numbers_give_students_own_test():
    """Means 5 and 2, both variances 1, so t = 3 / sqrt(2 / 3) with 4 degrees of freedom."""
    found = over_seeds([4.0, 5.0, 6.0], [1.0, 2.0, 3.0])
    assert found and found.p_value == pytest.approx(students_p(3 / math.sqrt(2 / 3), 4))
    half = 2.77645 * math.sqrt(2 / 3)
    assert found.interval == pytest.approx((3 - half, 3 + half), abs=1e-4)


def test_too_few_runs_are_not_tested():
    assert over_seeds([1.0, 2.0], [1.0]) is None
    assert over_seeds([1.0, 1.0], [2.0, 2.0]) is None  # as if the seeds had no effect
    assert mean_interval([1.0]) is None
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((-0.4841, 4.4841), abs=1e-4)


def test_holm_by_hand():
    """0.01 * 4, 0.02 * 3, then 0.03 * 2, which is no less than the one before; 0.04 * 1 < 0.06."""
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


REFERENCES = [f"the {c} dog sees {n} cats in the garden ." for n in range(10) for c in "abcde"]
GOOD = [line.replace("dog", "hound") if i % 3 == 0 else line for i, line in enumerate(REFERENCES)]
BAD = [line.replace("sees", "saw") if i % 2 == 0 else line for i, line in enumerate(REFERENCES)]


def test_over_sentences_one_run_a_side_is_sacrebleus_test():
    metric, found = bleu_metric("en"), compare(GOOD, BAD, REFERENCES)
    good, bad = (resampled_scores(metric, each, [REFERENCES]) for each in (GOOD, BAD))
    scores = [metric.corpus_score(each, [REFERENCES]).score for each in (GOOD, BAD)]
    ours = over_sentences(scores[:1], [good], scores[1:], [bad])
    assert ours.value == pytest.approx(found.bleu_difference)
    assert ours.p_value == pytest.approx(found.bleu_p_value)
    assert 0.001 < ours.p_value < 0.5
    assert ours.interval[0] < ours.value < ours.interval[1]
    again = over_sentences(scores[:1] * 3, [good] * 3, scores[1:], [bad])  # the mean of equal runs
    assert again.p_value == ours.p_value
    assert again.interval == pytest.approx(ours.interval)
    assert over_sentences(scores[:1], [good], scores[:1], [good]).p_value == 1.0


def test_the_table_says_which_difference_is_of_what_and_corrects_each_column():
    systems = [System.of("base", [GOOD, BAD], REFERENCES, "en")]
    systems += [System.of("good", [GOOD, GOOD], REFERENCES, "en")]
    systems += [System.of("bad", [BAD], REFERENCES, "en")]
    table = difference_table(systems, others=["elsewhere"])
    assert [row[:2] for row in table.rows] == [
        ["base", "2"], ["good", "2"], ["bad", "1"], ["elsewhere", ""],
    ]  # fmt: skip
    good, bad = table.rows[1:3]
    welch = over_seeds(systems[1].scores, systems[0].scores)
    assert welch and f"p = {welch.p_value:.3f}" in good[4]
    assert "Holm" not in good[4]  # the only comparison of its column
    assert bad[4] == ""  # a single run has no noise of training to compare with
    p = [
        over_sentences(each.scores, each.resampled, systems[0].scores, systems[0].resampled).p_value
        for each in systems[1:]
    ]
    for row, corrected in zip((good, bad), holm(p), strict=True):
        assert f"Holm = {corrected:.3f}" in row[5]
    assert table.rows[3][3] == "different test set"
    assert table.as_markdown().count("\n| ") == 5
