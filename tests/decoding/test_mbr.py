"""Minimum Bayes risk decoding with chrF, compared with sacreBLEU for each pair of samples."""

import random

import numpy as np
import pytest
import sacrebleu

from nmt.decoding.mbr import expected_chrf, pairwise_chrf

WORDS = ["der", "alte", "Mann", "liest", "ein", "Buch", "x", "é", "漢字", "'", "."]


def texts(n: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(0, 9))) for _ in range(n)]


def chrf(hypothesis: str, reference: str) -> float:
    return sacrebleu.sentence_chrf(hypothesis, [reference]).score


def test_each_pair_is_sacrebleus():
    some = [*texts(25, 1), "", "a", "ab", "   ", "a a a a a a a a"]
    expected = [[chrf(hypothesis, reference) for reference in some] for hypothesis in some]
    np.testing.assert_allclose(pairwise_chrf(some), expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_has_the_greatest_mean_over_all_samples(seed):
    some = texts(12, seed) + texts(4, seed) * 2  # repeated samples
    means = [float(np.mean([chrf(one, other) for other in some])) for one in some]
    found = expected_chrf(some)
    np.testing.assert_allclose(found, means, atol=1e-9)
    assert some[int(found.argmax())] == some[int(np.argmax(means))]


def test_no_texts():
    assert expected_chrf([]).tolist() == []


def test_memory_is_bounded(monkeypatch):
    some = texts(20, 3)
    whole = pairwise_chrf(some)
    monkeypatch.setattr("nmt.decoding.mbr._MAX_COUNTS", 1)
    np.testing.assert_array_equal(pairwise_chrf(some), whole)
