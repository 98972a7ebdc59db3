"""Implements scaled dot-product attention, multi-head attention (§3.2) and attention masks.

In shapes, R is the number of rows, each of which contains one sentence or several packed sentences.
Each row has T queries and S keys. If queries and keys are the same tokens, C is their number. D is
d_model, H is the number of heads, K stands for d_k, and V stands for d_v.
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

_MOST_WEIGHTS = 1 << 24  # maximum number of stored weights without gradients; 64 MiB in fp32

KeysValues = tuple[Tensor, Tensor]  # (R, H, S, K), (R, H, S, V)


@dataclass(eq=False)
class Visibility:
    """An attention mask that is defined by rules.

    A query can attend to a key if all enabled rules allow it. `attention` converts the rules to an
    additive bias and caches the bias in this object, because all layers of an encoder or decoder
    use the same mask. Each query must be able to attend to at least one key, because its attention
    weights would otherwise be NaN.

    Attributes:
        segments: the segment ids of the queries (R, T) and the segment ids of the keys (R, S), both
            int64. A query can attend only to the keys of its own segment. Padding queries, whose
            segment id is 0, can attend to the keys of every segment; their outputs are not used.
        positions: the positions of the queries (R, T) and of the keys (R, S) within their
            sentences, both int64. R may be 1. Positions are required if `causal` or `window` is
            set.
        ancestors: a bool tensor (R, T, S), in which True allows attention. During decoding, the
            queries of a row are the newest tokens of all hypotheses for one sentence, and each
            query can attend only to the tokens of its own hypothesis.
        causal: whether queries are prevented from attending to later positions.
        window: if not None, each query can attend only to its own position and to `window // 2`
            positions on each side. A window saves no time, because scores outside the window are
            computed and then masked. Skipping these scores would save little time: the scores and
            the weighted sums account for only 1% of the multiplications in an encoder layer of the
            base model if a sentence has 27 tokens, and for 8% if a sentence has 256 tokens.
    """

    segments: tuple[Tensor, Tensor] | None = None
    positions: tuple[Tensor, Tensor] | None = None
    ancestors: Tensor | None = None
    causal: bool = False
    window: int | None = None
    is_plain: bool = False  # use separate matrix multiplications on every device
    blocks: BlockMask | None = None  # FlexAttention's mask for compiled layers (see `with_blocks`)
    _bias: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if (self.causal or self.window is not None) and self.positions is None:
            raise ValueError("`causal` and `window` require `positions`.")


def rules_of(
    visibility: Visibility, of_query: Callable[[Tensor], Tensor], of_key: Callable[[Tensor], Tensor]
) -> Iterator[Tensor]:
    """Yields a bool mask for each enabled rule except `ancestors`; True allows attention.

    Args:
        of_query: a function that selects elements of a tensor of shape (R, T), which contains one
            segment id or position per query.
        of_key: a function that selects elements of a tensor of shape (R, S), which contains one
            segment id or position per key. The tensors that `of_query` and `of_key` return must be
            broadcastable.
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
    """Returns the additive attention bias, or None if no rules are enabled.

    Returns:
        A cached tensor (R, 1, T, S) of type `dtype`, which is 0 where attention is allowed and -inf
        elsewhere.
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

    The weights have the shape (R, H, T, S) and are recorded before dropout is applied. Calls of
    `attention` in compiled layers are not recorded.
    """
    weights: list[Tensor] = []
    token = _recorded.set(weights)
    try:
        yield weights
    finally:
        _recorded.reset(token)


def attention_weights(query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
    """Computes the attention weights softmax(Q K^T / sqrt(d_k)) of Eq. 1 in the paper.

    (R, H, T, K), (R, H, S, K) -> (R, H, T, S)
    """
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    bias = _added_bias(visibility, query.dtype)
    with torch.autocast(query.device.type, enabled=False):  # avoids an fp32 copy of the scores
        return (scores if bias is None else scores + bias).softmax(-1)


def attention(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, dropout: Dropout
) -> Tensor:
    """Computes softmax(Q K^T / sqrt(d_k)) V, which is Eq. 1 in the paper.

    On a CPU, this function uses separate matrix multiplications instead of torch's fused kernel. At
    the length of typical sentences, separate multiplications are 3 to 6 times as fast as the fused
    kernel in the bf16 backward pass, and 2 to 8 times as fast in the forward pass of a decoding
    step. The fused kernel is used on a CPU only if there are more than 2^24 attention weights and
    neither gradients nor dropout are required. The fused kernel needs less memory than separate
    multiplications if d_k and d_v are equal.

    Args:
        query, key, value: tensors of the shapes (R, H, T, K), (R, H, S, K) and (R, H, S, V).
        visibility: the attention mask for the T queries and S keys.
        dropout: the dropout module that is applied to the attention weights.

    Returns:
        The attention output, (R, H, T, V).
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
    """Returns whether the attention weights are too large to be stored.

    The result is always False if gradients or dropout require the attention weights.
    """
    number = query.shape[:-1].numel() * key.shape[-2]
    return number > _MOST_WEIGHTS and not drops and not torch.is_grad_enabled()


class Cache(Protocol):
    """Stores the keys and values of earlier decoding steps for one layer's self-attention."""

    def append(self, keys: Tensor, values: Tensor) -> KeysValues:
        """Appends the keys (R, H, T, K) and values (R, H, T, V) of a decoding step.

        Returns:
            The keys and values of all decoding steps so far. Column i of the cache and key i of
            this step's attention mask must belong to the same token.
        """


class MultiHeadAttention(nn.Module):
    """Multi-head attention (§3.2.2).

    The number of heads, d_k, d_v and d_model can be set independently, as the experiments in rows A
    and B of the paper's Table 3 require.

    The weight matrices that project the same input are stacked into one matrix. Unlike in the
    paper, the projections have biases.
    """

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        self.heads, self.d_k, self.d_v = model.heads, model.d_k, model.d_v
        self.dropout = Dropout(model.attention_dropout, randomness)
        self.output = Linear(model.heads * model.d_v, model.d_model)

    def split(self, projected: Tensor, size: int) -> Tensor:
        """Splits a projected tensor into heads: (R, C, H * size) -> (R, H, C, size)."""
        return projected.unflatten(-1, (self.heads, size)).transpose(1, 2)

    def combine(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        """Computes attention, concatenates the heads and projects the result.

        (R, H, T, K), (R, H, S, K), (R, H, S, V) -> (R, T, D)
        """
        attended = attention(query, key, value, visibility, self.dropout)
        return self.output(attended.transpose(1, 2).flatten(2))


class SelfAttention(MultiHeadAttention):
    """Multi-head attention whose queries, keys and values come from the same sequence."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__(model, randomness)
        self.is_rotary = model.positions == "rotary"
        self.rows = [self.heads * size for size in (self.d_k, self.d_k, self.d_v)]
        self.query_key_value = Linear(model.d_model, *self.rows)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projects the input to queries, keys and values.

        (R, C, D) -> (R, H, C, K), (R, H, C, K), (R, H, C, V)
        """
        q, k, v = self.query_key_value(x).split(self.rows, dim=-1)
        return self.split(q, self.d_k), self.split(k, self.d_k), self.split(v, self.d_v)

    def forward(self, x: Tensor, visibility: Visibility, cache: Cache | None = None) -> Tensor:
        """Computes self-attention: (R, C, D) -> (R, C, D).

        Args:
            visibility: the attention mask for the C queries and their keys. If `cache` is given,
                the keys are all keys in the cache; otherwise, they are the C keys of `x`. If the
                model uses rotary positions, `visibility.positions` must be set.
            cache: the keys and values of earlier decoding steps, or None if `x` is the whole
                sequence.
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
    """Cross-attention, which the paper calls "encoder-decoder attention"."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__(model, randomness)
        self.query = Linear(model.d_model, self.heads * self.d_k)
        self.rows = [self.heads * size for size in (self.d_k, self.d_v)]
        self.key_value = Linear(model.d_model, *self.rows)

    def project_memory(self, memory: Tensor) -> KeysValues:
        """Projects the encoder's output to keys and values.

        (R, S, D) -> (R, H, S, K), (R, H, S, V)
        """
        k, v = self.key_value(memory).split(self.rows, dim=-1)
        return self.split(k, self.d_k), self.split(v, self.d_v)

    def forward(self, x: Tensor, keys_values: KeysValues, visibility: Visibility) -> Tensor:
        """Computes cross-attention with the keys and values that `project_memory` returned.

        (R, T, D) -> (R, T, D)
        """
        return self.combine(self.split(self.query(x), self.d_k), *keys_values, visibility)
