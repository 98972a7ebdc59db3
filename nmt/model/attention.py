"""Scaled dot-product attention, multi-head attention (§3.2) and attention masks.

Shapes: R rows (each with one sentence or several packed sentences); T queries and S keys per row,
or C columns if queries and keys are the same tokens; D d_model; H heads; K d_k; V d_v.
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
from nmt.model.positions import rotated

if TYPE_CHECKING:  # nmt.config reads files, which the model does not need
    from nmt.config import Model

_MOST_WEIGHTS = 1 << 24  # maximum number of weights stored without gradients; 64 MiB in fp32

KeysValues = tuple[Tensor, Tensor]  # (R, H, S, K), (R, H, S, V)


@dataclass(eq=False)
class Visibility:
    """An attention mask that is defined by rules.

    A query can attend to a key if all rules that are set allow it. `attention` converts the rules
    into an additive bias and caches the bias in this object, which all layers of a stack share. A
    query that could not attend to any key would have NaN attention weights.

    Attributes:
        segments: segment ids of the queries (R, T) and of the keys (R, S), int64. A query can
            attend to the keys of its own segment. Padding queries (segment 0) can attend to every
            key; their output is not used.
        positions: positions of the queries (R, T) and of the keys (R, S) within their sentences,
            int64; R may be 1. `causal` and `window` require positions.
        ancestors: (R, T, S) bool; True allows attention. In decoding, the queries of a row are the
            newest tokens of one sentence's hypotheses. Each query can attend only to the tokens of
            its own hypothesis.
        causal: prevents attention to later positions.
        window: limits attention to the query's own position and window // 2 positions on each side.
            Because scores outside the window are computed and then masked, a window saves no time.
            In an encoder layer of the base model, attention's scores and weighted sums account for
            only 1% of the multiplications for a sentence of 27 tokens, and 8% for 256 tokens.
    """

    segments: tuple[Tensor, Tensor] | None = None
    positions: tuple[Tensor, Tensor] | None = None
    ancestors: Tensor | None = None
    causal: bool = False
    window: int | None = None
    is_plain: bool = False  # multiply matrices on any device, without a fused kernel
    blocks: BlockMask | None = None  # FlexAttention's mask for compiled layers, see `with_blocks`
    _bias: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if (self.causal or self.window is not None) and self.positions is None:
            raise ValueError("`causal` and `window` require `positions`.")


def rules_of(
    visibility: Visibility, of_query: Callable[[Tensor], Tensor], of_key: Callable[[Tensor], Tensor]
) -> Iterator[Tensor]:
    """Yields a bool mask for each rule that is set; True allows attention.

    Args:
        of_query: indexes a tensor (R, T) that contains a segment or a position for each query.
        of_key: indexes a tensor (R, S) that contains a segment or a position for each key. The
            results of `of_query` and `of_key` must broadcast.
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
    """Returns the additive attention mask, or None if there are no rules.

    Returns:
        A cached tensor (R, 1, T, S) of `dtype`: 0 where attention is allowed, -inf elsewhere.
    """
    if visibility._bias is None or visibility._bias.dtype != dtype:
        rules = list(
            rules_of(visibility, lambda each: each[:, :, None], lambda each: each[:, None])
        )
        if visibility.ancestors is not None:
            rules.append(visibility.ancestors)
        if not rules:
            return None
        allowed = reduce(and_, rules)
        bias = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
        visibility._bias = bias.masked_fill_(~allowed, -math.inf)[:, None]
    return visibility._bias


_recorded: ContextVar[list[Tensor] | None] = ContextVar("_recorded", default=None)


@contextmanager
def recorded_weights() -> Iterator[list[Tensor]]:
    """Yields a list to which each call of `attention` in this thread appends its attention weights.

    The weights have the shape (R, H, T, S) and are recorded before dropout. Calls in compiled
    layers are not recorded.
    """
    weights: list[Tensor] = []
    token = _recorded.set(weights)
    try:
        yield weights
    finally:
        _recorded.reset(token)


def attention_weights(query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
    """Computes softmax(Q K^T / sqrt(d_k)), Eq. 1: (R, H, T, K), (R, H, S, K) -> (R, H, T, S)."""
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    bias = _added_bias(visibility, query.dtype)
    with torch.autocast(query.device.type, enabled=False):  # no copy of the scores in fp32
        return (scores if bias is None else scores + bias).softmax(-1)


def attention(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, dropout: Dropout
) -> Tensor:
    """Computes softmax(Q K^T / sqrt(d_k)) V, Eq. 1.

    On a CPU, this function uses separate matrix multiplications. For inputs as long as a sentence,
    separate multiplications are faster than torch's fused kernel: 3 to 6 times in the bf16 backward
    pass, and 2 to 8 times in the forward pass of a decoding step. Without gradients and dropout,
    inputs with more than 2^24 attention weights use the fused kernel, which needs less memory if
    d_k and d_v are equal.

    Args:
        query, key, value: (R, H, T, K), (R, H, S, K), (R, H, S, V).
        visibility: attention mask for T queries and S keys.
        dropout: applied to the attention weights.

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
    """Returns whether the weights are too large to store, and no gradient or dropout needs them."""
    number = query.shape[:-1].numel() * key.shape[-2]
    return number > _MOST_WEIGHTS and not drops and not torch.is_grad_enabled()


class Cache(Protocol):
    """The keys and values of earlier steps in one layer's self-attention."""

    def append(self, keys: Tensor, values: Tensor) -> KeysValues:
        """Appends a step's keys (R, H, T, K) and values (R, H, T, V).

        Returns:
            The keys and values of all steps so far. The order of the columns must match the
            Visibility of the step.
        """


class MultiHeadAttention(nn.Module):
    """Multi-head attention (§3.2.2).

    The number of heads, d_k, d_v and d_model can be set independently, as the experiments in rows A
    and B of the paper's Table 3 require.

    Projections of the same input are stacked in one matrix. Unlike in the paper, the projections
    have biases.
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
        """Computes attention, concatenates the heads and projects the result.

        (R, H, T, K), (R, H, S, K), (R, H, S, V) -> (R, T, D)
        """
        attended = attention(query, key, value, visibility, self.dropout)
        return self.output(attended.transpose(1, 2).flatten(2))


class SelfAttention(MultiHeadAttention):
    """Attention with queries, keys and values from the same sequence."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__(model, randomness)
        self.is_rotary = model.positions == "rotary"
        self.rows = [self.heads * size for size in (self.d_k, self.d_k, self.d_v)]
        self.query_key_value = Linear(model.d_model, *self.rows)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projects (R, C, D) to queries (R, H, C, K), keys (R, H, C, K) and values (R, H, C, V)."""
        q, k, v = self.query_key_value(x).split(self.rows, dim=-1)
        return self.split(q, self.d_k), self.split(k, self.d_k), self.split(v, self.d_v)

    def forward(self, x: Tensor, visibility: Visibility, cache: Cache | None = None) -> Tensor:
        """Computes self-attention: (R, C, D) -> (R, C, D).

        Args:
            visibility: attention mask for C queries and C keys; with a cache, for C queries and all
                keys in the cache. If positions are rotary, `visibility.positions` must be set.
            cache: keys and values of earlier steps; None if `x` is the whole sequence.
        """
        query, key, value = self.project(x)
        if self.is_rotary:
            assert visibility.positions is not None
            positions = visibility.positions[0]  # positions of `x`, for queries and new keys
            query, key = rotated(query, positions), rotated(key, positions)
        if cache is not None:
            key, value = cache.append(key, value)
        return self.combine(query, key, value, visibility)


class CrossAttention(MultiHeadAttention):
    """Attention with keys and values from the encoder's output ("encoder-decoder attention")."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__(model, randomness)
        self.query = Linear(model.d_model, self.heads * self.d_k)
        self.rows = [self.heads * size for size in (self.d_k, self.d_v)]
        self.key_value = Linear(model.d_model, *self.rows)

    def project_memory(self, memory: Tensor) -> KeysValues:
        """Projects the encoder's output: (R, S, D) -> keys (R, H, S, K), values (R, H, S, V)."""
        k, v = self.key_value(memory).split(self.rows, dim=-1)
        return self.split(k, self.d_k), self.split(v, self.d_v)

    def forward(self, x: Tensor, keys_values: KeysValues, visibility: Visibility) -> Tensor:
        """Maps (R, T, D) to (R, T, D); `keys_values` is the result of `project_memory`."""
        return self.combine(self.split(self.query(x), self.d_k), *keys_values, visibility)
