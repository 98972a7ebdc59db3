"""Beam search against searches that are too plain to be wrong, on a model of eight tokens."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.decoding.search import Hypothesis, _candidates, _top, length_penalty, search
from nmt.errors import NoModelError
from nmt.model.special_ids import BOS_ID, EOS_ID

V = 8  # the four special tokens and four of content
ALLOWED = [EOS_ID, 4, 5, 6, 7]


def toy_logits(sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
    """Any function of the sentence and the tokens so far will do."""
    return np.random.default_rng([sentence, *prefix]).normal(0, 2, V).astype(np.float32)


def toy_log_probabilities(sentence: int, prefix: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(toy_logits(sentence, prefix)).double().log_softmax(-1)


class ToySteps:
    """The step interface over `logits_of`; checks that it is used as promised."""

    def __init__(self, sentences: list[int], beam: int, logits_of=toy_logits):
        self.sentences, self.logits_of = sentences, logits_of
        self.prefixes: list[list[tuple[int, ...]]] = [[()] * beam for _ in sentences]
        self.steps = 0

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        assert last_tokens.dtype == parents.dtype == torch.int64
        assert last_tokens.shape == parents.shape == (len(self.sentences), len(self.prefixes[0]))
        if self.steps == 0:
            assert (last_tokens == BOS_ID).all()
        else:
            self.prefixes = [
                [prefixes[parent] + (token,) for token, parent in zip(*row, strict=True)]
                for prefixes, *row in zip(
                    self.prefixes, last_tokens.tolist(), parents.tolist(), strict=True
                )
            ]
        self.steps += 1
        return torch.tensor(
            np.array(
                [
                    [self.logits_of(sentence, prefix) for prefix in prefixes]
                    for sentence, prefixes in zip(self.sentences, self.prefixes, strict=True)
                ]
            )
        )

    def keep(self, sentences: Tensor) -> None:
        indices = sentences.tolist()
        assert indices == sorted(set(indices)) and len(indices) < len(self.sentences)
        self.sentences = [self.sentences[index] for index in indices]
        self.prefixes = [self.prefixes[index] for index in indices]


def toy_search(sentences: list[int], limits: list[int], beam: int, **kwargs):
    return search(ToySteps(sentences, beam), limits, beam=beam, **kwargs)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    assert [h.finished for h in found] == [h.finished for h in expected]
    for a, b in zip(found, expected, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-4)
        assert a.log_probability == pytest.approx(b.log_probability, abs=1e-4)


def exhaustive(sentence: int, limit: int, alpha: float, n_best: int) -> list[Hypothesis]:
    """Every sequence there is, the finished ones preferred."""
    finished, cut = [], []
    for n in range(limit + 1):
        for content in itertools.product(ALLOWED[1:], repeat=n):
            log_probability = sum(
                float(toy_log_probabilities(sentence, content[:i])[content[i]]) for i in range(n)
            )
            if n < limit:
                ended = log_probability + float(toy_log_probabilities(sentence, content)[EOS_ID])
                score = ended / ((5 + n + 1) / 6) ** alpha
                finished.append(Hypothesis([*content, EOS_ID], ended, score, True))
            else:
                score = log_probability / ((5 + n) / 6) ** alpha
                cut.append(Hypothesis(list(content), log_probability, score, False))
    return sorted(finished or cut, key=lambda h: -h.score)[:n_best]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("n_best", [1, 7])
def test_wide_beam_is_exhaustive_search(alpha, n_best):
    found = toy_search([1, 2, 3], [4, 3, 2], beam=170, alpha=alpha, n_best=n_best)
    for sentence, limit, hypotheses in zip([1, 2, 3], [4, 3, 2], found, strict=True):
        expected = exhaustive(sentence, limit, alpha, n_best)
        assert len(expected) == min(n_best, 1 + 4 if limit == 2 else n_best)
        assert_same(hypotheses, expected)


def beam_search_to_the_limit(
    sentence: int, limit: int, beam: int, alpha: float, n_best: int
) -> list[Hypothesis]:
    """The textbook's search without any stopping rule: one sentence, Python lists."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    for n in range(1, limit + 1):
        candidates = [
            (total + float(log_probabilities[token]), (*prefix, token))
            for total, prefix in live
            for log_probabilities in [toy_log_probabilities(sentence, prefix)]
            for token in ALLOWED
        ]
        candidates = sorted(candidates, key=lambda c: -c[0])[: 2 * beam]
        for total, tokens in candidates:
            if tokens[-1] == EOS_ID:
                finished.append(
                    Hypothesis(list(tokens), total, total / length_penalty(n, alpha), True)
                )
        live = [c for c in candidates if c[1][-1] != EOS_ID][:beam]
    cut = [Hypothesis(list(t), p, p / length_penalty(limit, alpha), False) for p, t in live]
    return sorted(finished or cut, key=lambda h: -h.score)[:n_best]


@given(
    st.lists(st.tuples(st.integers(0, 999), st.integers(1, 7)), min_size=1, max_size=12),
    st.integers(2, 5),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.6, 1.0, 3.0]),
)
@settings(max_examples=60, deadline=None)
def test_batch_with_stopping_equals_one_by_one_without(sentences, beam, n_best, alpha):
    """Neither the stopping rule nor neighbours in the batch, nor their leaving, change anything."""
    n_best = min(n_best, beam)
    numbers, limits = (list(column) for column in zip(*sentences, strict=True))
    found = toy_search(numbers, limits, beam, alpha=alpha, n_best=n_best)
    for sentence, limit, hypotheses in zip(numbers, limits, found, strict=True):
        expected = beam_search_to_the_limit(sentence, limit, beam, alpha, n_best)
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
    """A cut hypothesis has no end symbol in its tokens, its length or its log-probability."""

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
    """On a GPU an index made of Python numbers would be a copy that the host waits for."""

    class Recorded(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            called.append(function)
            return function(*args, **(kwargs or {}))

    host_made = {torch.ops.aten.lift_fresh.default, torch.ops.aten.index_put_.default}
    called: list = []
    with Recorded():
        _candidates(torch.zeros(2, 3, V), torch.zeros(2, 3))
        assert called and not host_made & set(called)
        torch.zeros(3)[[0]] = 1.0
    assert host_made <= set(called)  # as it would be seen


@pytest.mark.parametrize("tokens", [5, 128, 1280, 1300, 9 * 128 + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_greatest_by_blocks_are_the_greatest(tokens: int, dtype: torch.dtype):
    generator = torch.Generator().manual_seed(tokens)
    logits = torch.randn((3, 2, tokens), generator=generator).to(dtype)
    logits[0, 0, -1] = 100.0  # in what is left over behind the last block
    logits[0, 1, :8] = 50.0  # all in one block
    for k in (1, 4, 5):
        values, places = _top(logits, k)
        assert torch.equal(values, logits.topk(k).values)
        assert torch.equal(logits.gather(-1, places), values)
        assert all(len(set(row.tolist())) == k for row in places.flatten(0, 1))


def test_scores_that_are_no_numbers():
    def broken(_: int, prefix: tuple[int, ...]) -> np.ndarray:
        return np.full(V, np.nan, np.float32)

    with pytest.raises(NoModelError, match="not numbers"):
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
