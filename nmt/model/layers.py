"""Encoder and decoder layer (§3.1), post-norm as in the paper or pre-norm.

R rows, S source and T target columns, D d_model. Sub-layers are wrapped as
LayerNorm(x + Dropout(Sublayer(x))) (post) or x + Dropout(Sublayer(LayerNorm(x))) (pre; the
stacks then end in a LayerNorm of their own).
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import Model
from nmt.model.attention import CrossAttention, SelfAttention
from nmt.model.dropout import Dropout, Randomness

LAYER_NORM_EPSILON = 1e-5  # not stated in the paper; torch's default


def layer_norm(d_model: int) -> nn.LayerNorm:
    return nn.LayerNorm(d_model, eps=LAYER_NORM_EPSILON)


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, Eq. 2: (R, C, D) -> (R, C, D)."""

    def __init__(self, d_model: int, d_ff: int, dropout: Dropout):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(F.relu(self.inner(x))))


class Residual(nn.Module):
    """The wrapping of one sub-layer: residual connection, dropout, layer normalisation."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        self.norm = layer_norm(model.d_model)
        self.dropout = Dropout(model.dropout, randomness)
        self.is_post = model.norm == "post"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.is_post:
            return self.norm(x + self.dropout(sublayer(x)))
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderLayer(nn.Module):
    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        weights = Dropout(model.attention_dropout, randomness)
        self.self_attention = SelfAttention(
            model.d_model, model.heads, model.d_k, model.d_v, weights
        )
        self.self_attention_residual = Residual(model, randomness)
        activations = Dropout(model.activation_dropout, randomness)
        self.feed_forward = FeedForward(model.d_model, model.d_ff, activations)
        self.feed_forward_residual = Residual(model, randomness)

    def forward(self, x: Tensor, bias: Tensor | None, seen: list[Tensor] | None = None) -> Tensor:
        """(R, S, D) -> (R, S, D)"""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, bias, seen))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        weights = Dropout(model.attention_dropout, randomness)
        self.self_attention = SelfAttention(
            model.d_model, model.heads, model.d_k, model.d_v, weights
        )
        self.self_attention_residual = Residual(model, randomness)
        self.cross_attention = CrossAttention(
            model.d_model, model.heads, model.d_k, model.d_v, weights
        )
        self.cross_attention_residual = Residual(model, randomness)
        activations = Dropout(model.activation_dropout, randomness)
        self.feed_forward = FeedForward(model.d_model, model.d_ff, activations)
        self.feed_forward_residual = Residual(model, randomness)

    def forward(
        self,
        x: Tensor,
        attend_to_self: Callable[[Tensor], Tensor],
        memory: tuple[Tensor, Tensor],
        memory_bias: Tensor | None,
        seen: list[Tensor] | None = None,
    ) -> Tensor:
        """(R, T, D) -> (R, T, D)

        Args:
            attend_to_self: self-attention over the whole target (training) or over what a
                cache holds (decoding).
            memory: keys and values, `CrossAttention.project_memory` of the encoder's output.
        """
        x = self.self_attention_residual(x, attend_to_self)
        x = self.cross_attention_residual(
            x, lambda y: self.cross_attention(y, memory, memory_bias, seen)
        )
        return self.feed_forward_residual(x, self.feed_forward)
