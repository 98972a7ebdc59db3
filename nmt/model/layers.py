"""Encoder and decoder layers (§3.1) with post-norm or pre-norm, and the output projection.

Post-norm, which the paper uses, computes LayerNorm(x + Dropout(Sublayer(x))). Pre-norm computes
x + Dropout(Sublayer(LayerNorm(x))), and each stack ends with one more LayerNorm.

Shapes: R rows; S source columns, T target columns, C columns of a source or a target; D d_model;
F d_ff; V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.attention import Cache, CrossAttention, KeysValues, SelfAttention, Visibility
from nmt.model.kernels.dropout import Dropout, Randomness
from nmt.model.kernels.layer_norm import LayerNorm
from nmt.model.kernels.products import Linear

if TYPE_CHECKING:
    from nmt.config import Model

LAYER_NORM_EPSILON = 1e-5  # torch's default; the paper gives no value


class RMSNorm(nn.RMSNorm):
    """RMSNorm (Zhang & Sennrich, 2019), computed in the dtype of its input.

    The output is x / sqrt(mean(x²) + epsilon) * weight.
    """

    def initialize_weights(self, generator: torch.Generator) -> None:
        """Sets the weight to 1, as the constructor does."""
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes the last dimension: (..., D) -> (..., D)."""
        with torch.autocast(x.device.type, enabled=False):  # autocast would convert x to fp32
            return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


def new_norm(model: Model) -> nn.Module:
    """Returns a new layer that normalizes the last dimension: (..., D) -> (..., D).

    Every normalization layer of the model is created by this function.
    """
    norm = RMSNorm if model.norm_type == "rms" else LayerNorm
    return norm(model.d_model, eps=LAYER_NORM_EPSILON)


class FeedForward(nn.Module):
    """The feed-forward network (§3.3), with ReLU, Swish or SwiGLU.

    With ReLU, it computes max(0, x W1 + b1) W2 + b2, Eq. 2; with Swish, swish(x W1 + b1) W2 + b2,
    where swish(y) = y * sigmoid(y). With SwiGLU (Shazeer, 2020), it computes
    (swish(x W + b) * (x V + c)) W2 + b2, although Shazeer omits the biases. W and V are stacked in
    one matrix.
    """

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        self.is_gated = model.feed_forward == "swiglu"
        self.activation = F.relu if model.feed_forward == "relu" else F.silu
        self.inner = Linear(model.d_model, *[model.d_ff] * (2 if self.is_gated else 1))
        self.outer = Linear(model.d_ff, model.d_model)
        self.dropout = Dropout(model.activation_dropout, randomness)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (R, C, D) to (R, C, D)."""
        return self.outer(self.dropout(self.units(x)))

    def units(self, x: Tensor) -> Tensor:
        """Returns the inner activations, before dropout: (..., D) -> (..., F)."""
        if not self.is_gated:
            return self.activation(self.inner(x))
        gate, linear = self.inner(x).chunk(2, dim=-1)
        return self.activation(gate) * linear


class Residual(nn.Module):
    """Wraps a sub-layer in dropout, a residual connection and layer normalization."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        self.norm = new_norm(model)
        self.dropout = Dropout(model.dropout, randomness)
        self.is_post = model.norm == "post"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Maps (R, C, D) to (R, C, D); `sublayer` has the same input and output shapes."""
        if self.is_post:
            return self.norm(self.dropout(sublayer(x), residual=x))
        return self.dropout(sublayer(self.norm(x)), residual=x)


class EncoderLayer(nn.Module):
    """An encoder layer: self-attention and feed-forward network, each wrapped in a `Residual`."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        self.self_attention = SelfAttention(model, randomness)
        self.self_attention_residual = Residual(model, randomness)
        self.feed_forward = FeedForward(model, randomness)
        self.feed_forward_residual = Residual(model, randomness)

    def forward(self, x: Tensor, visibility: Visibility) -> Tensor:
        """Maps (R, S, D) to (R, S, D); `visibility` masks the attention of S queries to S keys."""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, visibility))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """A decoder layer: self-attention, cross-attention and feed-forward network.

    Each of the three sub-layers is wrapped in a `Residual`.
    """

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        self.self_attention = SelfAttention(model, randomness)
        self.self_attention_residual = Residual(model, randomness)
        self.cross_attention = CrossAttention(model, randomness)
        self.cross_attention_residual = Residual(model, randomness)
        self.feed_forward = FeedForward(model, randomness)
        self.feed_forward_residual = Residual(model, randomness)

    def forward(
        self,
        x: Tensor,
        visibility: Visibility,
        memory: Tensor | KeysValues,
        memory_visibility: Visibility,
        cache: Cache | None = None,
    ) -> Tensor:
        """Maps (R, T, D) to (R, T, D).

        Args:
            visibility: attention mask for T queries and T keys; with a cache, for T queries and all
                keys in the cache.
            memory: the encoder's output (R, S, D), or the keys and values that
                `CrossAttention.project_memory` computes from it.
            memory_visibility: attention mask for T queries and S keys.
            cache: keys and values of earlier steps; None if `x` is the whole target.
        """
        if isinstance(memory, Tensor):
            memory = self.cross_attention.project_memory(memory)
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, visibility, cache))
        x = self.cross_attention_residual(
            x, lambda y: self.cross_attention(y, memory, memory_visibility)
        )
        return self.feed_forward_residual(x, self.feed_forward)


class OutputProjection(nn.Module):
    """Multiplies decoder outputs by the embedding matrix (§3.4).

    The embedding matrix is an argument rather than an attribute, so that checkpoints contain it
    under one name only. For inference, this module can be replaced by a module with its own copy of
    the matrix, for example a quantized copy.
    """

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Computes logits without a bias: (..., D), (V, D) -> (..., V)."""
        return F.linear(hidden, embedding)
