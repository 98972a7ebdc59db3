"""The probabilities of an ensemble are the mean of its members' probabilities."""

import numpy as np
import pytest
import torch

from nmt.decoding.beam_search import search
from nmt.decoding.ensemble import Ensemble
from tests.decoding.toy import ToySteps, V, assert_same, toy_log_probabilities, toy_logits

MEMBERS = (0, 50, 90)  # added to the sentence's number, so that members differ


def of_member(member: int):
    return lambda sentence, prefix: toy_logits(sentence + member, prefix)


def mean_log_probabilities(sentence: int, prefix) -> np.ndarray:
    each = [toy_log_probabilities(sentence + member, prefix).exp().numpy() for member in MEMBERS]
    return np.log(np.mean(each, 0)).astype(np.float32)


def ensemble(sentences: list[int], beam: int) -> Ensemble:
    return Ensemble([ToySteps(list(sentences), beam, of_member(member)) for member in MEMBERS])


def test_a_step_is_the_logarithm_of_the_mean_probability():
    last, parents = torch.ones((2, 1), dtype=torch.int64), torch.zeros((2, 1), dtype=torch.int64)
    found = ensemble([3, 7], 1).step(last, parents)
    for row, sentence in zip(found, (3, 7), strict=True):
        np.testing.assert_allclose(row[0], mean_log_probabilities(sentence, ()), atol=1e-5)
    assert found.exp().sum(-1).numpy() == pytest.approx(np.ones((2, 1)))


def test_what_one_member_thinks_impossible_is_no_loss_of_numbers():
    def sure(_, prefix):
        return np.where(np.arange(V) == 4, 0.0, -500.0).astype(np.float32)

    steps = Ensemble([ToySteps([0], 1, sure), ToySteps([0], 1, sure)])
    logs = steps.step(torch.ones((1, 1), dtype=torch.int64), torch.zeros((1, 1), dtype=torch.int64))
    assert logs[0, 0, 5] == pytest.approx(-500)


class Rounded(ToySteps):
    """Steps with logits rounded to bf16."""

    def step(self, last_tokens: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        return super().step(last_tokens, parents).bfloat16()


def test_the_mean_of_bf16_members_is_not_rounded_again():
    last, parents = torch.ones((1, 1), dtype=torch.int64), torch.zeros((1, 1), dtype=torch.int64)
    members = [Rounded([3], 1, of_member(member)) for member in MEMBERS]
    found = Ensemble(members).step(last, parents)
    logits = [torch.from_numpy(toy_logits(3 + member, ())).bfloat16() for member in MEMBERS]
    mean = torch.stack([each.double().softmax(-1) for each in logits]).mean(0)
    torch.testing.assert_close(found[0, 0].double(), mean.log(), atol=1e-5, rtol=0)


def test_search_over_an_ensemble_is_search_over_the_mean():
    """This also holds when sentences leave the batch."""
    sentences, limits = list(range(12)), [2, 9, 4, 7, 3, 8, 5, 6, 2, 9, 3, 1]
    found = search(ensemble(sentences, 3), limits, beam=3, alpha=0.6, n_best=3)
    mean = ToySteps(sentences, 3, mean_log_probabilities)
    for a, b in zip(found, search(mean, limits, beam=3, alpha=0.6, n_best=3), strict=True):
        assert_same(a, b)
