"""A model of eight tokens and simple reference searches."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt.decoding.beam_search import Hypothesis
from nmt.model.special_ids import BOS_ID, EOS_ID

V = 8  # four special tokens and four ordinary tokens
ALLOWED = [EOS_ID, 4, 5, 6, 7]


def toy_logits(sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
    """Returns logits that are an arbitrary function of the sentence and the tokens so far."""
    return np.random.default_rng([sentence, *prefix]).normal(0, 2, V).astype(np.float32)


def toy_log_probabilities(sentence: int, prefix: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(toy_logits(sentence, prefix)).double().log_softmax(-1)


class ToySteps:
    """Implements the stepper interface with `logits_of`, and checks the arguments."""

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


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    assert [h.finished for h in found] == [h.finished for h in expected]
    for a, b in zip(found, expected, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-4)
        assert a.log_probability == pytest.approx(b.log_probability, abs=1e-4)


def penalty(tokens: int, alpha: float) -> float:
    """Computes the length penalty of Wu et al. (2016), Eq. 14, without the code under test."""
    return ((5 + tokens) / 6) ** alpha


def exhaustive(
    sentence: int, limit: int, alpha: float, n_best: int, may_be=lambda content: True
) -> list[Hypothesis]:
    """Returns the best of all allowed sequences; truncated ones only if none is finished."""
    finished, cut = [], []
    for n in range(limit + 1):
        for content in filter(may_be, itertools.product(ALLOWED[1:], repeat=n)):
            log_probability = sum(
                float(toy_log_probabilities(sentence, content[:i])[content[i]]) for i in range(n)
            )
            if n < limit:
                ended = log_probability + float(toy_log_probabilities(sentence, content)[EOS_ID])
                score = ended / penalty(n + 1, alpha)
                finished.append(Hypothesis([*content, EOS_ID], ended, score, True))
            else:
                score = log_probability / penalty(n, alpha)
                cut.append(Hypothesis(list(content), log_probability, score, False))
    return sorted(finished or cut, key=lambda h: -h.score)[:n_best]


def beam_search_to_the_limit(
    sentence: int, limit: int, beam: int, alpha: float, n_best: int, *, may_be=None, reads_as=tuple
) -> list[Hypothesis]:
    """Textbook beam search of one sentence on Python lists, without early stopping.

    `may_be` returns whether a prefix is allowed. Of hypotheses with equal texts, only the best
    counts.
    """
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    for n in range(1, limit + 1):
        candidates = [
            (total + float(log_probabilities[token]), (*prefix, token))
            for total, prefix in live
            for log_probabilities in [toy_log_probabilities(sentence, prefix)]
            for token in ALLOWED
            if may_be is None or may_be((*prefix, token))
        ]
        candidates = sorted(candidates, key=lambda c: -c[0])[: 2 * beam]
        for total, tokens in candidates:
            if tokens[-1] == EOS_ID:
                finished.append(Hypothesis(list(tokens), total, total / penalty(n, alpha), True))
        live = [c for c in candidates if c[1][-1] != EOS_ID][:beam]
    cut = [Hypothesis(list(t), p, p / penalty(limit, alpha), False) for p, t in live]
    best: dict = {}
    for found in sorted(finished or cut, key=lambda h: -h.score):
        best.setdefault(reads_as(found.tokens), found)
    return list(best.values())[:n_best]
