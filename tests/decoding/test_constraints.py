"""Prefixes and forbidden n-grams, compared with exhaustive and textbook searches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.beam_search import NEVER_GENERATED, search
from nmt.decoding.constraints import ForcedPrefix, NoRepeatedNgrams, without
from nmt.model.special_ids import EOS_ID
from tests.decoding.toy import (
    ALLOWED,
    ToySteps,
    V,
    assert_same,
    beam_search_to_the_limit,
    exhaustive,
)

CONTENT = st.sampled_from(ALLOWED[1:])


def begins_with(prefix):
    return lambda content: content[: len(prefix)] == prefix


def repeats_none(n: int):
    def may_be(content) -> bool:
        ngrams = [content[i : i + n] for i in range(len(content) - n + 1)]
        return len(set(ngrams)) == len(ngrams)

    return may_be


@pytest.mark.parametrize("prefix", [(), (4,), (5, 5), (6, 4, 7)])
def test_a_wide_beam_finds_the_best_of_all_that_begin_so(prefix):
    steps = ForcedPrefix(ToySteps([1, 2], 170), [prefix, ()])
    found = search(steps, [4, 3], beam=170, alpha=0.6, n_best=5)
    begins = begins_with(prefix)
    forced = exhaustive(1, 4, 0.6, 10**6, begins)
    assert_same(found[0], [h for h in forced if begins(tuple(h.tokens))][:5])
    assert_same(found[1], exhaustive(2, 3, 0.6, 5))


@given(
    st.lists(
        st.tuples(st.integers(0, 999), st.integers(1, 4), st.lists(CONTENT, max_size=4)),
        min_size=1, max_size=12,
    ),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.6]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_a_prefix_whatever_the_neighbours(sentences, beam, alpha):
    numbers = [number for number, _, _ in sentences]
    prefixes = [tuple(prefix) for _, _, prefix in sentences]
    limits = [more + len(prefix) for _, more, prefix in sentences]
    steps = ForcedPrefix(ToySteps(numbers, beam), prefixes)
    found = search(steps, limits, beam=beam, alpha=alpha, n_best=beam)
    for number, prefix, limit, hypotheses in zip(numbers, prefixes, limits, found, strict=True):

        def may_be(tokens, prefix=prefix) -> bool:
            return tokens == prefix[: len(tokens)] or tokens[: len(prefix)] == prefix

        if beam > 1:
            expected = beam_search_to_the_limit(number, limit, beam, alpha, beam, may_be=may_be)
            assert_same(hypotheses, expected)
        assert all(tuple(h.tokens[: len(prefix)]) == prefix for h in hypotheses)


def test_a_prefix_that_the_model_thinks_impossible():
    def sure(_, prefix):
        return np.where(np.arange(V) == EOS_ID, 500.0, 0.0).astype(np.float32)

    steps = ForcedPrefix(ToySteps([0], 2, sure), [(4, 5)])
    [[best]] = search(steps, [4], beam=2, alpha=0.6)
    assert best.tokens == [4, 5, EOS_ID] and best.log_probability == pytest.approx(-160, rel=0.01)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_wide_beam_finds_the_best_of_all_that_repeat_nothing(n):
    for sentence in range(6):
        steps = NoRepeatedNgrams(ToySteps([sentence], 170), n)
        [found] = search(steps, [4], beam=170, alpha=0.6, n_best=5)
        assert_same(found, exhaustive(sentence, 4, 0.6, 5, repeats_none(n)))


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), min_size=1, max_size=9),
    st.integers(2, 4),
    st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_nothing_is_repeated_in_any_beam_or_batch(sentences, beam, n):
    numbers, limits = (list(column) for column in zip(*sentences, strict=True))
    steps = NoRepeatedNgrams(ToySteps(numbers, beam), n)
    found = search(steps, limits, beam=beam, alpha=0.6, n_best=beam)
    for number, limit, hypotheses in zip(numbers, limits, found, strict=True):
        expected = beam_search_to_the_limit(number, limit, beam, 0.6, beam, may_be=repeats_none(n))
        assert_same(hypotheses, expected)


def test_a_prefix_may_repeat_itself():
    steps = NoRepeatedNgrams(ForcedPrefix(ToySteps([3], 2), [(4, 4, 4)]), 1)
    [[best]] = search(steps, [6], beam=2, alpha=0.6)
    assert best.tokens[:3] == [4, 4, 4]
    assert len(set(best.tokens[2:])) == len(best.tokens[2:])


def test_what_remains_keeps_its_probability():
    logits = torch.randn((2, 3, V), generator=torch.Generator().manual_seed(1))
    ruled_out = torch.zeros_like(logits, dtype=torch.bool)
    ruled_out[0, :, 5:7] = True
    left = without(logits, ruled_out)
    assert torch.equal(left[1], logits[1])
    assert left[0, :, 5:7].isneginf().all()
    others = [EOS_ID, 4, 7]
    expected = logits[0, :, others].sub(logits[0].logsumexp(-1, keepdim=True))
    assert torch.allclose(left[0].log_softmax(-1)[:, others], expected, atol=1e-6)
    assert torch.equal(without(logits, torch.ones_like(ruled_out)), logits)
    assert EOS_ID not in NEVER_GENERATED
