"""RMSNorm, SwiGLU and rotary positions, compared with the formulas of their papers."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nmt.config import Model
from nmt.data.layout import one_per_row, packed
from nmt.errors import InputError
from nmt.model.kernels.dropout import Randomness
from nmt.model.layers import LAYER_NORM_EPSILON, FeedForward, new_norm
from nmt.model.positions import rotated
from nmt.model.tokens import Tokens
from nmt.runs.model_directory import new_transformer
from tests.model.test_transformer import random_pairs


def test_rmsnorm_divides_by_the_root_mean_square():
    norm = new_norm(Model(d_model=64, norm_type="rms"))
    torch.manual_seed(0)
    with torch.no_grad():
        norm.weight.normal_(1, 0.1)
    x, weight = torch.randn(3, 7, 64), norm.weight.double()
    found, exact = norm(x).double(), x.double()
    root = (exact.square().mean(-1, keepdim=True) + LAYER_NORM_EPSILON).sqrt()
    torch.testing.assert_close(found, exact / root * weight, atol=1e-6, rtol=1e-6)
    expected = F.rms_norm(exact, (64,), weight, LAYER_NORM_EPSILON)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_rmsnorm_in_bf16_is_as_accurate_as_its_rounding():
    """The gradients of 10,000 tokens mostly have the same sign, so no part of a sum may be lost."""
    torch.manual_seed(0)
    norm = new_norm(Model(d_model=64, norm_type="rms"))
    x = torch.randn(100, 100, 64).bfloat16().requires_grad_()
    gradient = (torch.randn(100, 100, 64) * 0.3 + x.detach()).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(x)
        y.backward(gradient)
    same, weight = x.detach().double().requires_grad_(), norm.weight.detach().double()
    weight.requires_grad_()
    expected = F.rms_norm(same, (64,), weight, LAYER_NORM_EPSILON)
    expected.backward(gradient.double())
    assert (y.dtype, norm.weight.grad.dtype) == (torch.bfloat16, torch.float32)
    for found, wanted in ((y, expected), (x.grad, same.grad), (norm.weight.grad, weight.grad)):
        error = found.detach().double() - wanted.detach()
        assert error.norm() < 2**-8 * wanted.detach().norm()


def test_swiglu_multiplies_a_gate_and_needs_two_thirds_of_d_ff():
    relu, swiglu = (
        FeedForward(Model(d_model=12, d_ff=d_ff, feed_forward=kind), Randomness()).eval()
        for kind, d_ff in (("relu", 48), ("swiglu", 32))
    )
    weights = [[p.numel() for p in each.parameters() if p.ndim == 2] for each in (relu, swiglu)]
    assert sum(weights[0]) == sum(weights[1])
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        swiglu.inner.initialize_weights(generator)
        swiglu.outer.initialize_weights(generator)
        swiglu.inner.bias.normal_()
    bound = math.sqrt(6 / (12 + 32))  # Xavier, for each of the two stacked matrices
    assert 0.95 * bound < swiglu.inner.weight.abs().max() <= bound
    (W, V), (b, c) = swiglu.inner.weight.double().chunk(2), swiglu.inner.bias.double().chunk(2)
    x = torch.randn(5, 12, dtype=torch.float64)
    gate = x @ W.T + b
    inner = gate / (1 + (-gate).exp()) * (x @ V.T + c)
    expected = inner @ swiglu.outer.weight.double().T + swiglu.outer.bias.double()
    torch.testing.assert_close(swiglu(x.float()).double(), expected, atol=1e-5, rtol=1e-5)


def test_rotary_positions_turn_complex_numbers():
    """Su et al. (2021): channel pairs as complex numbers, times e^(i pos theta)."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 3, 6, 8, dtype=torch.float64, generator=generator)
    positions = torch.tensor([[0, 1, 2, 0, 1, 300], [5, 4, 3, 2, 1, 0]])
    theta = np.array([10_000.0 ** (-2 * i / 8) for i in range(4)])
    turns = np.exp(1j * positions.numpy()[:, None, :, None] * theta)
    expected = x.numpy().view(complex) * turns
    found = rotated(x, positions).numpy().view(complex)
    np.testing.assert_allclose(found, expected, atol=1e-4)  # angles are fp32
    np.testing.assert_allclose(found[0, :, :5], expected[0, :, :5], atol=1e-6)
    half = rotated(x.bfloat16(), positions)
    assert half.dtype == torch.bfloat16
    np.testing.assert_allclose(half.float().numpy(), rotated(x, positions).numpy(), atol=0.05)


def test_scores_of_rotated_vectors_depend_on_the_distance_alone():
    q, k = torch.randn(2, 1, 1, 1, 16, dtype=torch.float64)
    scores = {
        (m, n): (rotated(q, torch.tensor([[m]])) * rotated(k, torch.tensor([[n]]))).sum().item()
        for m, n in ((0, 3), (2, 5), (40, 43), (0, 4), (3, 0))
    }
    assert scores[0, 3] == pytest.approx(scores[2, 5], abs=1e-5)
    assert scores[0, 3] == pytest.approx(scores[40, 43], abs=1e-4)
    assert abs(scores[0, 3] - scores[0, 4]) > 1e-3 < abs(scores[0, 3] - scores[3, 0])


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal"])
def test_only_a_rotary_model_ignores_where_a_sentence_begins(settings, positions: str):
    model = new_transformer(settings(model__positions=positions)).eval()
    model.initialize(3)
    batch = packed(random_pairs(9), capacity=32)
    real, here = batch.tgt_out != 0, model(batch.src, batch.tgt_in)
    sides = [Tokens(s.tokens, s.positions + 20, s.segments) for s in (batch.src, batch.tgt_in)]
    model.positions.register_forward_pre_hook(lambda _, given: (given[0], 100))
    there = model(*sides)
    assert torch.allclose(here[real], there[real], atol=1e-4) == (positions == "rotary")
    # the order of the source's tokens matters nevertheless
    longest = one_per_row([max(random_pairs(9), key=lambda pair: len(pair.source))])
    src, target = longest.src, longest.tgt_in
    flipped = Tokens(src.tokens.flip(1), src.positions, src.segments)
    assert not torch.allclose(model(flipped, target), model(src, target), atol=1e-3)


def test_rotary_positions_need_pairs_of_channels(settings):
    with pytest.raises(InputError, match=r"d_k must be even if model\.positions is rotary"):
        settings(model__positions="rotary", model__d_k=7)
