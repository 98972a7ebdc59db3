"""Beam search on a model of eight tokens, compared with simple reference searches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.decoding.beam_search import _candidates, _top, search, take_turns
from nmt.errors import NoModelError
from nmt.model.special_ids import EOS_ID
from tests.decoding.toy import (
    ALLOWED,
    ToySteps,
    V,
    assert_same,
    beam_search_to_the_limit,
    exhaustive,
    toy_log_probabilities,
)


def toy_search(sentences: list[int], limits: list[int], beam: int, **kwargs):
    return search(ToySteps(sentences, beam), limits, beam=beam, **kwargs)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("n_best", [1, 7])
def test_wide_beam_is_exhaustive_search(alpha, n_best):
    found = toy_search([1, 2, 3], [4, 3, 2], beam=170, alpha=alpha, n_best=n_best)
    for sentence, limit, hypotheses in zip([1, 2, 3], [4, 3, 2], found, strict=True):
        expected = exhaustive(sentence, limit, alpha, n_best)
        assert len(expected) == min(n_best, 1 + 4 if limit == 2 else n_best)
        assert_same(hypotheses, expected)


@given(
    st.lists(st.tuples(st.integers(0, 999), st.integers(1, 7)), min_size=1, max_size=12),
    st.integers(2, 5),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.6, 1.0, 3.0]),
)
@settings(max_examples=60, deadline=None)
def test_batch_with_stopping_equals_one_by_one_without(sentences, beam, n_best, alpha):
    """Neither early stopping nor other sentences in the batch change the result."""
    n_best = min(n_best, beam)
    numbers, limits = (list(column) for column in zip(*sentences, strict=True))
    found = toy_search(numbers, limits, beam, alpha=alpha, n_best=n_best)
    for sentence, limit, hypotheses in zip(numbers, limits, found, strict=True):
        expected = beam_search_to_the_limit(sentence, limit, beam, alpha, n_best)
        assert_same(hypotheses, expected)


@given(
    st.lists(st.tuples(st.integers(0, 999), st.integers(1, 6)), min_size=1, max_size=9),
    st.integers(2, 6),
    st.integers(2, 6),
    st.sampled_from([0.0, 0.6, 3.0]),
)
@settings(max_examples=60, deadline=None)
def test_of_hypotheses_that_read_alike_the_best_counts_alone(sentences, beam, n_best, alpha):
    """The search continues until it has `n_best` different texts or reaches the maximum length."""

    def reads_as(tokens) -> str:
        return "".join("ab"[token > 5] for token in tokens if token != EOS_ID)

    n_best = min(n_best, beam)
    numbers, limits = (list(column) for column in zip(*sentences, strict=True))
    found = toy_search(numbers, limits, beam, alpha=alpha, n_best=n_best, reads_as=reads_as)
    for sentence, limit, hypotheses in zip(numbers, limits, found, strict=True):
        expected = beam_search_to_the_limit(sentence, limit, beam, alpha, n_best, reads_as=reads_as)
        assert_same(hypotheses, expected)


def test_stops_as_soon_as_nothing_can_win():
    def sure_to_end_after_two(_: int, prefix: tuple[int, ...]) -> np.ndarray:
        wanted = 4 if len(prefix) < 2 else EOS_ID
        return np.where(np.arange(V) == wanted, 20.0, 0.0).astype(np.float32)

    steps = ToySteps([0], 4, sure_to_end_after_two)
    [[best]] = search(steps, [1000], beam=4, alpha=1.0)
    assert best.tokens == [4, 4, EOS_ID]
    assert steps.steps == 3


def test_finished_sentences_leave():
    def ends_after(sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        wanted = 4 if len(prefix) < sentence else EOS_ID
        return np.where(np.arange(V) == wanted, 20.0, 0.0).astype(np.float32)

    steps = ToySteps([1, 9, 2], 2, ends_after)
    found = search(steps, [50, 50, 50], beam=2, alpha=0.6)
    assert [len(best.tokens) for [best] in found] == [2, 10, 3]
    assert steps.sentences == [9]


@pytest.mark.parametrize("sentence", range(20))
def test_beam_one_is_greedy(sentence):
    tokens: list[int] = []
    total = 0.0
    while len(tokens) < 6 and EOS_ID not in tokens:
        log_probabilities = toy_log_probabilities(sentence, tuple(tokens))
        token = max(ALLOWED, key=lambda token: float(log_probabilities[token]))
        tokens.append(token)
        total += float(log_probabilities[token])
    steps = ToySteps([sentence], 1)
    [[best]] = search(steps, [6], beam=1, alpha=0.6)
    assert best.tokens == tokens
    assert best.log_probability == pytest.approx(total, abs=1e-5)
    assert steps.steps == len(tokens)


def test_cut_at_the_limit():
    """The tokens, length and log-probability of a truncated hypothesis do not include EOS."""

    def never_ends(_: int, prefix: tuple[int, ...]) -> np.ndarray:
        return np.where(np.arange(V) == EOS_ID, -np.inf, np.arange(V)).astype(np.float32)

    [[best, second], [shorter, _]] = search(
        ToySteps([0, 1], 2, never_ends), [5, 3], beam=2, alpha=1.0, n_best=2
    )
    each = float(torch.tensor(never_ends(0, ())).log_softmax(-1)[7])
    assert best.tokens == [7] * 5 and not best.finished
    assert best.log_probability == pytest.approx(5 * each, abs=1e-5)
    assert best.score == pytest.approx(5 * each / (10 / 6), abs=1e-5)
    assert sorted(second.tokens) == [6, 7, 7, 7, 7] and second.score < best.score
    assert shorter.tokens == [7] * 3


def test_equal_candidates_rank_by_token():
    def level(_: int, prefix: tuple[int, ...]) -> np.ndarray:
        return np.where(np.arange(V) == EOS_ID, -9, 0).astype(np.float32)

    [found] = search(ToySteps([0], 2, level), [1], beam=2, alpha=0.0, n_best=2)
    assert [hypothesis.tokens for hypothesis in found] == [[4], [5]]


def test_penalty_beyond_all_bounds():
    [[best]] = toy_search([3], [6], beam=4, alpha=1e6)
    assert best.tokens and best.score == pytest.approx(0)


def test_candidates_are_picked_without_host_values():
    """On a GPU, indexing with Python numbers would synchronize with the host."""

    class Recorded(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            called.append(function)
            return function(*args, **(kwargs or {}))

    host_made = torch.ops.aten.lift_fresh.default
    called: list = []
    with Recorded():
        _candidates(torch.zeros(2, 3, V), torch.zeros(2, 3))
        assert called and host_made not in called
        torch.zeros(3)[[0]] = 1.0
    assert host_made in called  # indexing with numbers would be detected


@pytest.mark.parametrize("tokens", [5, 128, 1280, 1300, 9 * 128 + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_greatest_by_blocks_are_the_greatest(tokens: int, dtype: torch.dtype):
    generator = torch.Generator().manual_seed(tokens)
    logits = torch.randn((3, 2, tokens), generator=generator).to(dtype)
    logits[0, 0, -1] = 100.0  # after the last full block
    logits[0, 1, :8] = 50.0  # all within one block
    for k in (1, 4, 5):
        values, places = _top(logits, k)
        assert torch.equal(values, logits.topk(k).values)
        assert torch.equal(logits.gather(-1, places), values)
        assert all(len(set(row.tolist())) == k for row in places.flatten(0, 1))


def test_scores_that_are_no_numbers():
    def broken(_: int, prefix: tuple[int, ...]) -> np.ndarray:
        return np.full(V, np.nan, np.float32)

    with pytest.raises(NoModelError, match="NaN"):
        search(ToySteps([0], 2, broken), [3], beam=2, alpha=0.6)


@pytest.mark.parametrize(
    "wrong", [{"beam": 0}, {"n_best": 3}, {"n_best": 0}, {"alpha": -0.1}, {"max_lengths": [0]}]
)
def test_arguments_out_of_range(wrong):
    arguments = {"max_lengths": [3], "beam": 2, "alpha": 0.6} | wrong
    with pytest.raises(ValueError, match="out of range"):
        search(ToySteps([0], 2), **arguments)


def test_no_sentences():
    assert search(ToySteps([], 2), [], beam=2, alpha=0.6) == []


def test_searches_take_turns():
    """Each running search takes one step in turn; a new search replaces one that ends."""
    steps = []

    def counting(name: str, n: int):
        for step in range(n):
            steps.append(f"{name}{step}")
            yield

    take_turns((counting(name, n) for name, n in zip("abcd", (2, 4, 0, 1), strict=True)), 2)
    assert steps == ["a0", "b0", "a1", "b1", "d0", "b2", "b3"]
