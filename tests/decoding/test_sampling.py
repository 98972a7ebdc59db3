"""Samples follow the model's distribution and depend only on the text and the seed."""

from collections import Counter

import numpy as np
import pytest
import torch

from nmt.decoding.beam_search import length_penalty
from nmt.decoding.sampling import Distribution, likeliest, random_numbers, sample
from nmt.errors import NoModelError
from nmt.model.special_ids import EOS_ID
from tests.decoding.toy import ALLOWED, ToySteps, V, toy_log_probabilities, toy_logits

LIMIT = 3
ALL = Distribution()


def drawn(sentences, samples, distribution=ALL, limits=None, numbers=None, alpha=0.6):
    limits = limits or [LIMIT] * len(sentences)
    if numbers is None:
        numbers = np.array([
            [random_numbers(1, [s], w, max(limits)) for w in range(samples)] for s in sentences
        ])  # fmt: skip
    return sample(ToySteps(list(sentences), samples), limits, numbers, distribution, alpha=alpha)


def truncated(logits: np.ndarray, distribution: Distribution) -> np.ndarray:
    """Computes the probabilities (V,) after temperature, top-k and top-p by their definitions."""
    scaled = logits.astype(np.float64) / distribution.temperature
    p = np.exp(scaled - scaled.max())
    p[[token for token in range(V) if token not in ALLOWED]] = 0
    order = sorted(range(V), key=lambda token: -p[token])
    p[order[distribution.top_k or V :]] = 0
    p /= p.sum()
    share = 0.0
    for token in order:
        if share >= distribution.top_p:
            p[token] = 0
        share += p[token]
    return p / p.sum()


DISTRIBUTIONS = [
    Distribution(), Distribution(temperature=0.5), Distribution(temperature=3.0),
    Distribution(top_k=2), Distribution(top_p=0.7), Distribution(1.7, 3, 0.8),
]  # fmt: skip


def probability_of(sentence: int, tokens: list[int], distribution: Distribution) -> float:
    p = 1.0
    for n, token in enumerate(tokens):
        p *= truncated(toy_logits(sentence, tuple(tokens[:n])), distribution)[token]
    return p


def sequences(sentence: int, distribution: Distribution, begun=()):
    """Maps every possible sample to its probability."""
    if len(begun) == LIMIT or begun[-1:] == (EOS_ID,):
        return {begun: probability_of(sentence, list(begun), distribution)}
    found: dict = {}
    for token in ALLOWED:
        found |= sequences(sentence, distribution, (*begun, token))
    return {tokens: p for tokens, p in found.items() if p > 0}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_samples_come_with_the_models_probabilities(distribution):
    """Chi-square test over all sequences; those expected fewer than five times are pooled."""
    n = 4000
    [found] = drawn([5], n, distribution)
    counts = Counter(tuple(each.tokens) for each in found)
    expected = {tokens: n * p for tokens, p in sequences(5, distribution).items()}
    assert sum(expected.values()) == pytest.approx(n) and set(counts) <= set(expected)
    often = [tokens for tokens, times in expected.items() if times >= 5]
    rest = n - sum(expected[tokens] for tokens in often)
    pairs = [(counts[tokens], expected[tokens]) for tokens in often]
    if rest > 1:
        pairs.append((n - sum(counts[tokens] for tokens in often), rest))
    chi_square = sum((a - b) ** 2 / b for a, b in pairs)
    freedom = len(pairs) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5  # mean plus four standard deviations


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
@pytest.mark.parametrize("tokens", [V, 1000])
def test_truncation_by_its_formula(distribution, tokens):
    logits = torch.randn((3, 2, tokens), generator=torch.Generator().manual_seed(tokens)) * 3
    found, kept = likeliest(logits, distribution)
    kept = torch.arange(tokens).expand_as(found) if kept is None else kept
    rows = [each.flatten(0, 1) for each in (found, kept, logits)]
    for p, order, row in zip(*rows, strict=True):
        scaled = (row.double() / distribution.temperature).softmax(-1)
        best = scaled.sort(descending=True)
        values = best.values.clone()
        values[distribution.top_k or tokens :] = 0
        values /= values.sum()
        values[values.cumsum(0) - values >= distribution.top_p] = 0
        expected = torch.zeros_like(scaled).scatter(0, best.indices, values)
        whole = torch.zeros_like(scaled).scatter(0, order, p.double())
        assert torch.allclose(whole / whole.sum(), expected / expected.sum(), atol=1e-6)


def test_a_flat_distribution_needs_more_than_the_first_tokens():
    p, tokens = likeliest(torch.zeros(2, 5000), Distribution(top_p=0.9))
    assert tokens is not None and (p > 0).sum(-1).tolist() == pytest.approx([4500] * 2, abs=2)


def test_log_probabilities_are_the_models_whatever_it_is_drawn_from():
    [found] = drawn([2], 50, Distribution(0.3, 2, 0.9), alpha=1.0)
    assert {each.finished for each in found} == {True, False}
    for each in found:
        logs = [
            float(toy_log_probabilities(2, tuple(each.tokens[:n]))[token])
            for n, token in enumerate(each.tokens)
        ]
        assert each.log_probability == pytest.approx(sum(logs), abs=1e-4)
        assert each.score == pytest.approx(sum(logs) / length_penalty(len(logs), 1.0), abs=1e-4)
        assert each.finished == (each.tokens[-1] == EOS_ID) and len(each.tokens) <= LIMIT


def test_neighbours_in_the_batch_change_nothing():
    """Neither other sentences, their maximum lengths nor further samples change a sample."""
    sentences, limits = list(range(15)), [3, 1, 8, 2, 5, 9, 4, 7, 6, 1, 2, 3, 4, 5, 12]
    together = drawn(sentences, 6, limits=limits)
    for sentence, limit, found in zip(sentences, limits, together, strict=True):
        [alone] = drawn([sentence], 4, limits=[limit])
        assert [each.tokens for each in found[:4]] == [each.tokens for each in alone]
    assert len({tuple(each.tokens) for found in together for each in found}) > 30


def test_random_numbers_depend_on_their_arguments_alone():
    numbers = random_numbers(1, [5, 6], 0, 9)
    assert numbers.tolist() == random_numbers(1, [5, 6], 0, 20)[:9].tolist()
    others = [random_numbers(2, [5, 6], 0, 9), random_numbers(1, [5], 0, 9),
              random_numbers(1, [5, 6], 1, 9), random_numbers(1, [6, 5], 0, 9)]  # fmt: skip
    assert len({tuple(each) for each in [numbers, *others]}) == 5
    assert numbers.min() >= 0 and numbers.max() < 1


@pytest.mark.parametrize("number", [0.0, 1 - 2**-32])
def test_the_ends_of_the_range_draw_what_may_be_drawn(number):
    for sentence in range(20):
        numbers = np.full((1, 1, LIMIT), number)
        [[found]] = drawn([sentence], 1, Distribution(top_p=0.5), numbers=numbers)
        assert probability_of(sentence, found.tokens, Distribution(top_p=0.5)) > 0


def test_scores_that_are_no_numbers():
    steps = ToySteps([0], 1, lambda *_: np.full(V, np.nan, np.float32))
    with pytest.raises(NoModelError, match="NaN"):
        sample(steps, [2], np.zeros((1, 1, 2)), Distribution(), alpha=0.6)


def test_no_sentences():
    assert sample(ToySteps([], 1), [], np.zeros((0, 1, 1)), Distribution(), alpha=0.6) == []
