"""Attention, compared with torch's functions and with the formula."""

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.config import Model
from nmt.model.attention import (
    SelfAttention,
    Visibility,
    attention,
    attention_weights,
    recorded_weights,
)
from nmt.model.kernels.dropout import Dropout, Randomness

NO_DROPOUT = Dropout(0.0, Randomness())


def random_case(seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(2, 3, 5, 8, generator=generator, requires_grad=True)
    k = torch.randn(2, 3, 7, 8, generator=generator, requires_grad=True)
    v = torch.randn(2, 3, 7, 4, generator=generator, requires_grad=True)
    query_segments = torch.tensor([[1, 1, 2, 2, 0], [1, 1, 1, 1, 1]])
    key_segments = torch.tensor([[1, 1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 0, 0, 0]])
    return q, k, v, Visibility(segments=(query_segments, key_segments))


def sees(visibility: Visibility, queries: int, keys: int) -> torch.Tensor:
    """Returns where attention weights are positive, for `queries` by `keys`: (R, T, S), bool."""
    query, key = torch.zeros(1, 1, queries, 1), torch.zeros(1, 1, keys, 1)
    return attention_weights(query, key, visibility)[:, 0] > 0


def among(segments: torch.Tensor, **rules) -> Visibility:
    """Returns the self-attention mask of packed sentences, from `segments` (R, C)."""
    positions = torch.zeros_like(segments)
    for row, column in product(*map(range, segments.shape)):
        if column and segments[row, column] and segments[row, column] == segments[row, column - 1]:
            positions[row, column] = positions[row, column - 1] + 1
    return Visibility((segments, segments), (positions, positions), **rules)


def test_weights_of_long_inputs_are_not_held_without_a_gradient():
    """With 2,100 tokens and 4 heads, no tensor is larger than the weights of one head."""

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                sizes.append(result.untyped_storage().nbytes() // 4)
            return result

    q, k, v = (torch.randn(1, 4, 2100, 4) for _ in range(3))
    segments = torch.ones(1, 2100, dtype=torch.long)
    segments[:, 1000:] = 2
    visibility = Visibility(segments=(segments, segments))
    sizes: list[int] = []
    with torch.no_grad(), Sizes():
        found = attention(q, k, v, visibility, NO_DROPOUT)
    assert max(sizes) <= 2100**2
    held = attention(q[:, :1], k[:, :1], v[:, :1], visibility, NO_DROPOUT)
    torch.testing.assert_close(found[:, :1], held)


def test_training_and_decoding_kernels_agree_in_values_and_gradients(monkeypatch):
    q, k, v, visibility = random_case()
    ours = attention(q, k, v, visibility, NO_DROPOUT)
    mask = sees(visibility, 5, 7)[:, None]
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(ours, theirs)
    calls: list[tuple] = []
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr("nmt.model.attention._MOST_WEIGHTS", 0)  # all inputs count as long
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **k: calls.append(a) or fused(*a, **k)
    )
    with torch.no_grad():
        torch.testing.assert_close(attention(q, k, v, visibility, NO_DROPOUT), ours)
    assert len(calls) == 1
    weight = torch.randn_like(ours)
    for a, b in zip(
        torch.autograd.grad((ours * weight).sum(), (q, k, v)),
        torch.autograd.grad((theirs * weight).sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_weights_are_a_distribution_over_what_may_be_seen():
    q, k, _, visibility = random_case()
    weights = attention_weights(q, k, visibility)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
    segments, keys = visibility.segments
    for row, query, key in product(range(2), range(5), range(7)):
        seen = segments[row, query] in (0, keys[row, key])
        assert (weights[row, :, query, key] > 0).all() == bool(seen)
    by_hand = (q[0, 1, 0] @ k[0, 1, :3].T / math.sqrt(8)).softmax(-1)  # segment 1: keys 0 to 2
    torch.testing.assert_close(weights[0, 1, 0, :3], by_hand)


def test_what_is_seen_is_the_rule_written_out():
    segments = torch.tensor([[1, 1, 2, 2, 2, 0]])
    seen = sees(among(segments, causal=True), 6, 6)[0]
    for query, key in product(range(5), range(6)):
        expected = segments[0, query] == segments[0, key] and key <= query
        assert seen[query, key] == bool(expected)
    assert seen[5].any()  # otherwise the softmax of padding would be NaN


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("window", "each_side"), [(1, 0), (2, 1), (3, 1), (5, 2), (99, 49)])
def test_a_window_is_centred_on_the_query_and_of_its_size(window: int, each_side: int, causal):
    sentences = [3, 1, 6]  # tokens per sentence, then padding
    places = [(s, place) for s, n in enumerate(sentences, start=1) for place in range(n)]
    segments = torch.tensor([[s for s, _ in places] + [0, 0]])
    seen = sees(among(segments, causal=causal, window=window), 12, 12)[0]
    for row, (sentence, place) in zip(seen, places, strict=False):
        last = 0 if causal else each_side
        near = {(sentence, p) for p in range(place - each_side, place + last + 1)}
        assert {places[key] for key in row.nonzero().flatten()} == near & set(places)
    assert seen[-2:].any(-1).all()  # padding attends to something


def test_hypotheses_see_their_ancestors_within_the_window():
    """Two hypotheses after three steps, which both continue the first hypothesis of step 1."""
    ancestors = torch.tensor([[[1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 0, 1]]]).bool()
    positions = torch.tensor([[2, 2]]), torch.tensor([[0, 0, 1, 1, 2, 2]])
    assert torch.equal(sees(Visibility(ancestors=ancestors), 2, 6), ancestors)
    near = sees(Visibility(positions=positions, ancestors=ancestors, window=3), 2, 6)
    assert torch.equal(near, ancestors & torch.tensor([0, 0, 1, 1, 1, 1]).bool())


def test_without_rules_all_see_all_and_rules_ask_for_what_they_compare():
    assert sees(Visibility(), 2, 3).all()
    for rule in ({"causal": True}, {"window": 3}):
        with pytest.raises(ValueError, match="positions"):
            Visibility(segments=(torch.ones(1, 2), torch.ones(1, 2)), **rule)


def test_one_visibility_serves_both_types():
    q, k, _, visibility = random_case()
    expected = attention_weights(q, k, visibility)
    low = attention_weights(q.bfloat16(), k.bfloat16(), visibility)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), expected, atol=0.02, rtol=0.02)
    assert torch.equal(attention_weights(q, k, visibility), expected)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_self_attention_equals_torchs_module_with_the_same_weights(heads: int):
    torch.manual_seed(heads)
    model = Model(d_model=16, heads=heads, d_k=16 // heads, d_v=16 // heads)
    ours = SelfAttention(model, Randomness())
    theirs = torch.nn.MultiheadAttention(16, heads, batch_first=True)
    theirs.in_proj_weight.data.copy_(ours.query_key_value.weight)
    theirs.in_proj_bias.data.copy_(ours.query_key_value.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    x = torch.randn(3, 6, 16)
    segments = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [1] * 5 + [0]])
    expected, weights = theirs(x, x, x, key_padding_mask=segments == 0)
    real = segments != 0
    with recorded_weights() as found:
        torch.testing.assert_close(ours(x, among(segments))[real], expected[real])
    (found_weights,) = found
    torch.testing.assert_close(found_weights.mean(1)[real], weights[real])
