"""Dropout masks: rate, independence and dependence on the key."""

import numpy as np
import pytest
import torch

from nmt.model.kernels.dropout import Dropout, Randomness


def masks(p: float, n: int, *key: int) -> torch.Tensor:
    randomness = Randomness()
    randomness.seed(*key)
    return randomness.keep(torch.Size([n]), p).bool()


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_rate_and_independence(p: float):
    n = 4_000_000
    dropped = ~masks(p, n, 1, 2, 3)
    deviation = (p * (1 - p) / n) ** 0.5
    assert abs(dropped.double().mean().item() - p) < 5 * deviation + 1 / 65536
    for lag in (1, 2, 3, 4, 5, 8, 128):  # one random number serves four elements
        both = (dropped[lag:] & dropped[:-lag]).double().mean().item()
        assert abs(both - p * p) < 5 * (p * p * (1 - p * p) / n) ** 0.5 + 2 / 65536


@pytest.mark.parametrize("p", [0.1, 0.5, 1 / 65536])
def test_of_all_16_bits_as_many_drop_as_the_rate_says(p: float):
    class EachOnce:
        def random_raw(self, number: int) -> np.ndarray:
            return np.arange(4 * number, dtype=np.uint16).view(np.uint64)

    randomness = Randomness()
    randomness._bits = EachOnce()
    assert (randomness.keep(torch.Size([65536]), p) == 0).sum() == round(p * 65536)


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


def test_a_residual_is_added_to_what_is_kept():
    """Values and gradients are those of a product with the mask, in float64."""
    n, key, p = 1000, (1, 2, 3), 0.25
    randomness = Randomness()
    randomness.seed(*key)
    x, residual = torch.randn(2, n, dtype=torch.float64).requires_grad_().unbind()
    y = Dropout(p, randomness).train()(x, residual)
    expected = residual + x * masks(p, n, *key) / (1 - p)
    torch.testing.assert_close(y, expected, rtol=1e-15, atol=1e-15)
    weights = torch.randn(n, dtype=torch.float64)
    found, plain = (torch.autograd.grad(z, (x, residual), weights) for z in (y, expected))
    torch.testing.assert_close(found, plain, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_sum_is_of_the_type_of_its_terms(dtype: torch.dtype):
    x = torch.randn(2, 30, dtype=dtype)
    dropout = Dropout(0.5, Randomness())
    for mode in (dropout.train(), dropout.eval()):
        assert mode(x, x).dtype == mode(x).dtype == dtype
    assert torch.equal(dropout(x, x), x + x)
