"""Attention against torch's own and against the formula."""

import math

import pytest
import torch
import torch.nn.functional as F

from nmt.model.attention import SelfAttention, attention, attention_bias, attention_weights
from nmt.model.dropout import Dropout, Randomness

NO_DROPOUT = Dropout(0.0, Randomness())


def random_case(seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(2, 3, 5, 8, generator=generator, requires_grad=True)
    k = torch.randn(2, 3, 7, 8, generator=generator, requires_grad=True)
    v = torch.randn(2, 3, 7, 4, generator=generator, requires_grad=True)
    query_segments = torch.tensor([[1, 1, 2, 2, 0], [1, 1, 1, 1, 1]])
    key_segments = torch.tensor([[1, 1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 0, 0, 0]])
    bias = attention_bias(query_segments, key_segments, causal=False, dtype=torch.float32)
    return q, k, v, bias


def test_training_and_decoding_kernels_agree_in_values_and_gradients():
    q, k, v, bias = random_case()
    ours = attention(q, k, v, bias, NO_DROPOUT)
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    torch.testing.assert_close(ours, theirs)
    with torch.no_grad():
        torch.testing.assert_close(attention(q, k, v, bias, NO_DROPOUT), ours)
    weight = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad((ours * weight).sum(), (q, k, v)),
        torch.autograd.grad((theirs * weight).sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_weights_are_a_distribution_over_what_may_be_seen():
    q, k, _, bias = random_case()
    weights = attention_weights(q, k, bias)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
    assert (weights.masked_select(bias.expand_as(weights) == -math.inf) == 0).all()
    by_hand = (q[0, 1, 0] @ k[0, 1, :3].T / math.sqrt(8)).softmax(-1)  # segment 1: keys 0 to 2
    torch.testing.assert_close(weights[0, 1, 0, :3], by_hand)


def test_bias_is_the_rule_written_out():
    segments = torch.tensor([[1, 1, 2, 2, 2, 0]])
    bias = attention_bias(segments, segments, causal=True, dtype=torch.float32)[0, 0]
    for query in range(5):
        for key in range(6):
            sees = segments[0, query] == segments[0, key] and key <= query
            assert (bias[query, key] == 0) == bool(sees)
    assert (bias[5] == 0).any()  # padding sees something, so that no row is all -inf


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("window", "each_side"), [(1, 0), (2, 1), (3, 1), (5, 2), (99, 49)])
def test_a_window_is_centred_on_the_query_and_of_its_size(window: int, each_side: int, causal):
    sentences = [3, 1, 6]  # tokens each, then padding
    places = [(s, place) for s, n in enumerate(sentences, start=1) for place in range(n)]
    segments = torch.tensor([[s for s, _ in places] + [0, 0]])
    bias = attention_bias(segments, segments, causal=causal, dtype=torch.float32, window=window)
    for row, (sentence, place) in zip(bias[0, 0], places, strict=False):
        last = 0 if causal else each_side
        near = {(sentence, p) for p in range(place - each_side, place + last + 1)}
        assert {places[key] for key in (row == 0).nonzero().flatten()} == near & set(places)
    assert (bias[0, 0, -2:] == 0).any(-1).all()  # padding sees something


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_self_attention_equals_torchs_module_with_the_same_weights(heads: int):
    torch.manual_seed(heads)
    ours = SelfAttention(16, heads, 16 // heads, 16 // heads, NO_DROPOUT)
    theirs = torch.nn.MultiheadAttention(16, heads, batch_first=True)
    theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    x = torch.randn(3, 6, 16)
    segments = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] * 5 + [0]])
    bias = attention_bias(segments, segments, causal=False, dtype=torch.float32)
    seen: list[torch.Tensor] = []
    expected, weights = theirs(x, x, x, key_padding_mask=segments == 0)
    real = segments != 0
    torch.testing.assert_close(ours(x, bias, seen)[real], expected[real])
    torch.testing.assert_close(seen[0].mean(1)[real], weights[real])  # theirs: mean over heads
