"""Dropout masks: rate, independence, and that they are a function of their key."""

import numpy as np
import pytest
import torch

from nmt.model.dropout import Dropout, Randomness


def masks(p: float, n: int, *key: int) -> torch.Tensor:
    randomness = Randomness()
    randomness.seed(*key)
    return randomness.keep(torch.Size([n]), p)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_rate_and_independence(p: float):
    n = 4_000_000
    dropped = ~masks(p, n, 1, 2, 3)
    deviation = (p * (1 - p) / n) ** 0.5
    assert abs(dropped.double().mean().item() - p) < 5 * deviation + 1 / 65536
    for lag in (1, 2, 3, 4, 5, 8, 128):  # four masks come from one random word
        both = (dropped[lag:] & dropped[:-lag]).double().mean().item()
        assert abs(both - p * p) < 5 * (p * p * (1 - p * p) / n) ** 0.5 + 2 / 65536


@pytest.mark.parametrize("p", [0.1, 0.5, 1 / 65536])
def test_of_all_16_bits_as_many_drop_as_the_rate_says(p: float):
    class EachOnce:
        def random_raw(self, number: int) -> np.ndarray:
            return np.arange(4 * number, dtype=np.uint16).view(np.uint64)

    randomness = Randomness()
    randomness._bits = EachOnce()
    assert (~randomness.keep(torch.Size([65536]), p)).sum() == round(p * 65536)


def test_every_lane_of_a_random_word_has_the_rate():
    dropped = ~masks(0.1, 4_000_000, 7)
    for lane in range(4):
        assert abs(dropped[lane::4].double().mean().item() - 0.1) < 1e-3


def test_masks_depend_on_the_key_alone():
    assert torch.equal(masks(0.3, 1000, 1, 5, 0), masks(0.3, 1000, 1, 5, 0))
    assert not torch.equal(masks(0.3, 1000, 1, 5, 0), masks(0.3, 1000, 1, 5, 1))
    assert not torch.equal(masks(0.3, 1000, 1, 5, 0), masks(0.3, 1000, 1, 6, 0))


def test_keeps_the_mean_and_passes_gradients_through_the_same_mask():
    dropout = Dropout(0.25, Randomness()).train()
    x = torch.ones(200_000, requires_grad=True)
    y = dropout(x)
    assert abs(y.mean().item() - 1) < 0.01
    y.sum().backward()
    assert torch.equal(x.grad, y)
    assert torch.equal(dropout.eval()(x), x)
