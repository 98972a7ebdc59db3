"""Scaled dot-product and multi-head attention (§3.2), and which query may attend to which key.

Shapes: R rows, each one sentence or several packed ones; T query and S key columns; D d_model;
H heads; K d_k; V d_v.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from nmt.model.kernels.dropout import Dropout, Randomness
from nmt.model.kernels.products import Linear

if TYPE_CHECKING:  # its module reads files too, which a model does not need
    from nmt.config import Model

_MOST_WEIGHTS = 1 << 24  # in memory at once without a gradient: 64 MiB in fp32

KeysValues = tuple[Tensor, Tensor]  # (R, H, S, K), (R, H, S, V)


@dataclass(eq=False)
class Visibility:
    """Which keys each query sees (may attend to): those that every rule given here allows.

    `attention` turns it into the bias that a kernel takes and caches the bias here: a forward pass
    has one Visibility for all layers. A query must see at least one key: its attention weights
    would be NaN otherwise.

    Attributes:
        segments: of queries (R, T) and keys (R, S), int64. A query sees the keys of its own
            segment. Padding, segment 0, sees every key, as it must see one; its output is unused.
        positions: of queries (R, T) and keys (R, S), int64, in their sentences; R may be 1.
            Required by `causal` and `window`: ValueError without them.
        ancestors: (R, T, S) bool. In decoding the queries of a row are the hypotheses of one
            sentence: each sees itself and the tokens it continues.
        causal: a query sees no key of a later position.
        window: a query sees itself and window // 2 positions on either side. Scores beyond it
            are computed all the same: together with the weighted sum they are 1% of the
            multiplications in an encoder layer of the base model at 27 tokens, 8% at 256.
    """

    segments: tuple[Tensor, Tensor] | None = None
    positions: tuple[Tensor, Tensor] | None = None
    ancestors: Tensor | None = None
    causal: bool = False
    window: int | None = None
    is_plain: bool = False  # by matrix products on any device, instead of a fused kernel
    blocks: BlockMask | None = None  # of compiled layers, for FlexAttention, see `with_blocks`
    _bias: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if (self.causal or self.window is not None) and self.positions is None:
            raise ValueError("causal and window compare positions, and there are none")


def rules_of(
    visibility: Visibility, of_query: Callable[[Tensor], Tensor], of_key: Callable[[Tensor], Tensor]
) -> Iterator[Tensor]:
    """For each rule on segments and positions that is given, where it allows attention: bool.

    Args:
        of_query: takes from a tensor of queries (R, T) the values to compare; `of_key` from one of
            keys (R, S).
    """
    if visibility.segments is not None:
        query, key = of_query(visibility.segments[0]), of_key(visibility.segments[1])
        yield (query == key) | (query == 0)
    if visibility.positions is not None:
        query, key = of_query(visibility.positions[0]), of_key(visibility.positions[1])
        if visibility.causal:
            yield key <= query
        if visibility.window is not None:
            reach = visibility.window // 2
            yield (key >= query - reach) & (key <= query + reach)


def _added_bias(visibility: Visibility, dtype: torch.dtype) -> Tensor | None:
    """What is added to scores: 0 where a query sees a key, -inf elsewhere; None without rules.

    Returns:
        (R, 1, T, S) of `dtype`, computed at the first call.
    """
    if visibility._bias is None or visibility._bias.dtype != dtype:
        rules = list(
            rules_of(visibility, lambda each: each[:, :, None], lambda each: each[:, None])
        )
        if visibility.ancestors is not None:
            rules.append(visibility.ancestors)
        if not rules:
            return None
        sees = reduce(and_, rules)
        bias = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
        visibility._bias = bias.masked_fill_(~sees, -math.inf)[:, None]
    return visibility._bias


_recorded: ContextVar[list[Tensor] | None] = ContextVar("_recorded", default=None)


@contextmanager
def recorded_weights() -> Iterator[list[Tensor]]:
    """Collects the attention weights (R, H, T, S) of each call of `attention` in this thread.

    They are taken before dropout, in the order of the calls. Compiled code is not recorded.
    """
    weights: list[Tensor] = []
    token = _recorded.set(weights)
    try:
        yield weights
    finally:
        _recorded.reset(token)


def attention_weights(query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)), Eq. 1: (R, H, T, K), (R, H, S, K) -> (R, H, T, S)."""
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    bias = _added_bias(visibility, query.dtype)
    with torch.autocast(query.device.type, enabled=False):  # softmax converts row by row itself
        return (scores if bias is None else scores + bias).softmax(-1)


def attention(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, dropout: Dropout
) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V, Eq. 1.

    On a CPU this uses plain matrix products: the backward pass of torch's fused kernel is 3 to 6
    times slower there at sentence lengths in bf16, and the forward pass of a decoding step 2 to 8
    times. Inputs so long that their weights would need too much memory use the fused kernel if no
    gradient is needed. (On a CPU that kernel holds all weights as well if d_k and d_v differ.)

    Args:
        query: (R, H, T, K); key: (R, H, S, K); value: (R, H, S, V).
        visibility: of T queries and S keys.
        dropout: on the attention weights.

    Returns:
        (R, H, T, V).
    """
    recorded = None if torch.compiler.is_compiling() else _recorded.get()
    drops = dropout.training and dropout.p > 0
    if visibility.blocks is not None and torch.compiler.is_compiling():
        return flex_attention(query, key, value, block_mask=visibility.blocks)
    is_plain = visibility.is_plain or recorded is not None
    if is_plain or (query.device.type == "cpu" and not _is_long(query, key, drops)):
        weights = attention_weights(query, key, visibility)
        if recorded is not None:
            recorded.append(weights)
        return dropout(weights).to(value.dtype) @ value
    bias = _added_bias(visibility, query.dtype)
    p = dropout.p if drops else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=p)


def _is_long(query: Tensor, key: Tensor, drops: bool) -> bool:
    """Whether the weights are too many to hold, and no dropout or backward pass needs them."""
    number = query.shape[:-1].numel() * key.shape[-2]
    return number > _MOST_WEIGHTS and not drops and not torch.is_grad_enabled()


class Cache(Protocol):
    """The keys and values of former steps in one layer's self-attention."""

    def append(self, keys: Tensor, values: Tensor) -> KeysValues:
        """Adds a step's keys (R, H, T, K) and values (R, H, T, V).

        Returns:
            Keys and values of all steps so far, their columns ordered as in the step's Visibility.
        """


class MultiHeadAttention(nn.Module):
    """§3.2.2, with heads, d_k and d_v independent of each other and of d_model (Table 3, A and B).

    Projections of the same input are stacked in one matrix.

    Differs from Vaswani et al. (2017), §3.2.2: the projections have biases.
    """

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        self.heads, self.d_k, self.d_v = model.heads, model.d_k, model.d_v
        self.dropout = Dropout(model.attention_dropout, randomness)
        self.output = Linear(model.heads * model.d_v, model.d_model)

    def split(self, projected: Tensor, size: int) -> Tensor:
        """Separates the heads: (R, C, H * size) -> (R, H, C, size)."""
        return projected.unflatten(-1, (self.heads, size)).transpose(1, 2)

    def combine(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        """Attention, joined over heads and projected.

        (R, H, T, K), (R, H, S, K), (R, H, S, V) -> (R, T, D)
        """
        attended = attention(query, key, value, visibility, self.dropout)
        return self.output(attended.transpose(1, 2).flatten(2))


class SelfAttention(MultiHeadAttention):
    """Queries, keys and values from the same sequence."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__(model, randomness)
        self.rows = [self.heads * size for size in (self.d_k, self.d_k, self.d_v)]
        self.query_key_value = Linear(model.d_model, *self.rows)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys, values: (R, C, D) -> (R, H, C, K), (R, H, C, K), (R, H, C, V)."""
        q, k, v = self.query_key_value(x).split(self.rows, dim=-1)
        return self.split(q, self.d_k), self.split(k, self.d_k), self.split(v, self.d_v)

    def forward(self, x: Tensor, visibility: Visibility, cache: Cache | None = None) -> Tensor:
        """(R, C, D) -> (R, C, D)

        Args:
            visibility: of C queries, and of as many keys or of all those in the cache.
            cache: None where `x` is the whole sequence.
        """
        query, key, value = self.project(x)
        if cache is not None:
            key, value = cache.append(key, value)
        return self.combine(query, key, value, visibility)


class CrossAttention(MultiHeadAttention):
    """The paper's "encoder-decoder attention": the keys and values are those of `memory`."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__(model, randomness)
        self.query = Linear(model.d_model, self.heads * self.d_k)
        self.rows = [self.heads * size for size in (self.d_k, self.d_v)]
        self.key_value = Linear(model.d_model, *self.rows)

    def project_memory(self, memory: Tensor) -> KeysValues:
        """Keys and values of the encoder's output: (R, S, D) -> (R, H, S, K), (R, H, S, V)."""
        k, v = self.key_value(memory).split(self.rows, dim=-1)
        return self.split(k, self.d_k), self.split(v, self.d_v)

    def forward(self, x: Tensor, keys_values: KeysValues, visibility: Visibility) -> Tensor:
        """(R, T, D) -> (R, T, D); `keys_values` as `project_memory` gives them."""
        return self.combine(self.split(self.query(x), self.d_k), *keys_values, visibility)
