"""Scaled dot-product and multi-head attention (§3.2): the only place that knows who sees whom.

Shapes: R rows, each one sentence or several packed ones; T query and S key columns; D d_model;
H heads; K d_k; V d_v.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.dropout import Dropout


def attention_bias(
    query_segments: Tensor,
    key_segments: Tensor,
    *,
    causal: bool,
    dtype: torch.dtype,
    window: int | None = None,
) -> Tensor:
    """What is added to attention scores: 0 where a query may attend to a key, -inf elsewhere.

    A query attends to keys of its own segment and, where causal, to none that comes later.
    Padding, segment 0, attends to any segment, so that no row is all -inf; nothing reads it.

    A window hides scores that are computed nevertheless: at 27 tokens they and the weighted sum
    are 1% of an encoder layer's multiplications in the base model, at 256 tokens 8%.

    Args:
        query_segments: (R, T) int64.
        key_segments: (R, S) int64.
        window: for self-attention; a query sees itself and `reach(window)` tokens on either side.

    Returns:
        (R, 1, T, S) of `dtype`.
    """
    query, key = query_segments[:, :, None], key_segments[:, None, :]
    may_attend = (query == key) | (query == 0)  # (R, T, S)
    if causal:
        may_attend = may_attend.tril()
    if window is not None:  # a sentence's tokens stand side by side, so columns tell how far
        may_attend = may_attend.tril(reach(window)).triu(-reach(window))
    bias = torch.zeros(may_attend.shape, dtype=dtype, device=may_attend.device)
    return bias.masked_fill_(~may_attend, -math.inf)[:, None]


def reach(window: int) -> int:
    """How far a neighbourhood of `window` tokens around one of them goes on either side."""
    return window // 2


def attention_weights(query: Tensor, key: Tensor, bias: Tensor | None) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)), Eq. 1: (R, H, T, K), (R, H, S, K) -> (R, H, T, S)."""
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    return (scores if bias is None else scores + bias).softmax(-1)


def attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: Dropout
) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V, Eq. 1.

    On a CPU training goes through plain matrix products: the backward pass of torch's fused
    kernel is 3 to 6 times slower there at sentence lengths in bf16.

    Args:
        query: (R, H, T, K); key: (R, H, S, K); value: (R, H, S, V).
        bias: broadcastable to (R, H, T, S), or None.

    Returns:
        (R, H, T, V).
    """
    drops = dropout.training and dropout.p > 0
    if query.device.type == "cpu" and (torch.is_grad_enabled() or drops):
        weights = dropout(attention_weights(query, key, bias))
        return weights.to(value.dtype) @ value
    bias = None if bias is None else bias.to(query.dtype)
    p = dropout.p if drops else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=p)


class MultiHeadAttention(nn.Module):
    """§3.2.2, with heads, d_k and d_v free of each other and of d_model (Table 3, A and B).

    Projections that read the same input are one matrix, its rows ordered query, key, value.

    Differs from Vaswani et al. (2017), §3.2.2: the projections have biases.
    """

    def __init__(self, d_model: int, heads: int, d_k: int, d_v: int, dropout: Dropout):
        super().__init__()
        self.heads, self.d_k, self.d_v = heads, d_k, d_v
        self.dropout = dropout
        self.output = nn.Linear(heads * d_v, d_model)

    def split(self, projected: Tensor, size: int) -> Tensor:
        """(R, C, H * size) -> (R, H, C, size)"""
        return projected.unflatten(-1, (self.heads, size)).transpose(1, 2)

    def combine(
        self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, seen: list[Tensor] | None
    ) -> Tensor:
        """Attends and projects: (R, H, T, K), (R, H, S, K), (R, H, S, V) -> (R, T, D).

        The attention weights (R, H, T, S) are appended to `seen` if it is a list.
        """
        if seen is not None:
            seen.append(attention_weights(q, k, bias))
        return self.output(attention(q, k, v, bias, self.dropout).transpose(1, 2).flatten(2))


class SelfAttention(MultiHeadAttention):
    """Queries, keys and values from the same sequence."""

    def __init__(self, d_model: int, heads: int, d_k: int, d_v: int, dropout: Dropout):
        super().__init__(d_model, heads, d_k, d_v, dropout)
        self.query_key_value = nn.Linear(d_model, heads * (2 * d_k + d_v))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(R, C, D) -> (R, H, C, K), (R, H, C, K), (R, H, C, V)"""
        sizes = [self.heads * self.d_k, self.heads * self.d_k, self.heads * self.d_v]
        q, k, v = self.query_key_value(x).split(sizes, dim=-1)
        return self.split(q, self.d_k), self.split(k, self.d_k), self.split(v, self.d_v)

    def forward(self, x: Tensor, bias: Tensor | None, seen: list[Tensor] | None = None) -> Tensor:
        """(R, C, D) -> (R, C, D)"""
        return self.combine(*self.project(x), bias, seen)


class CrossAttention(MultiHeadAttention):
    """The paper's "encoder-decoder attention": the decoder asks, memory gives keys and values."""

    def __init__(self, d_model: int, heads: int, d_k: int, d_v: int, dropout: Dropout):
        super().__init__(d_model, heads, d_k, d_v, dropout)
        self.query = nn.Linear(d_model, heads * d_k)
        self.key_value = nn.Linear(d_model, heads * (d_k + d_v))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """(R, S, D) -> (R, H, S, K), (R, H, S, V)"""
        sizes = [self.heads * self.d_k, self.heads * self.d_v]
        k, v = self.key_value(memory).split(sizes, dim=-1)
        return self.split(k, self.d_k), self.split(v, self.d_v)

    def forward(
        self,
        x: Tensor,
        memory: tuple[Tensor, Tensor],
        bias: Tensor | None,
        seen: list[Tensor] | None = None,
    ) -> Tensor:
        """x (R, T, D), memory as `project_memory` gives it -> (R, T, D)"""
        return self.combine(self.split(self.query(x), self.d_k), *memory, bias, seen)
