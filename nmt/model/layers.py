"""Implements the encoder and decoder layers (§3.1 of the paper) and the output projection.

Post-norm layers, which the paper uses, compute LayerNorm(x + Dropout(Sublayer(x))). Pre-norm layers
compute x + Dropout(Sublayer(LayerNorm(x))), and one more LayerNorm follows the last layer of the
encoder and the last layer of the decoder.

In shapes, R is the number of rows, S the number of source columns, and T the number of target
columns. C is S in the encoder and T in the decoder. D is d_model, F is d_ff, and V is the
vocabulary size.
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
    """An RMSNorm layer (Zhang & Sennrich, 2019) that is computed in the dtype of its input.

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
    """Creates a layer that normalizes the last dimension: (..., D) -> (..., D).

    All normalization layers of the model are created by this function.
    """
    norm = RMSNorm if model.norm_type == "rms" else LayerNorm
    return norm(model.d_model, eps=LAYER_NORM_EPSILON)


class FeedForward(nn.Module):
    """A feed-forward network (§3.3) with ReLU, Swish or SwiGLU activations.

    With ReLU, the network computes max(0, x W1 + b1) W2 + b2, which is Eq. 2 in the paper. With
    Swish, the network computes swish(x W1 + b1) W2 + b2, where swish(y) = y * sigmoid(y). With
    SwiGLU, the network computes (swish(x W + b) * (x V + c)) W2 + b2, whereas the SwiGLU of Shazeer
    (2020) has no biases. The SwiGLU matrices W and V are stacked into one matrix.
    """

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        self.is_gated = model.feed_forward == "swiglu"
        self.activation = F.relu if model.feed_forward == "relu" else F.silu
        self.inner = Linear(model.d_model, *[model.d_ff] * (2 if self.is_gated else 1))
        self.outer = Linear(model.d_ff, model.d_model)
        self.dropout = Dropout(model.activation_dropout, randomness)

    def forward(self, x: Tensor) -> Tensor:
        """Applies the feed-forward network: (R, C, D) -> (R, C, D)."""
        return self.outer(self.dropout(self.units(x)))

    def units(self, x: Tensor) -> Tensor:
        """Returns the activations of the inner layer before dropout: (..., D) -> (..., F)."""
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
        """Applies the wrapped sub-layer: (R, C, D) -> (R, C, D).

        The output of the function `sublayer` must have the same shape as its input.
        """
        if self.is_post:
            return self.norm(self.dropout(sublayer(x), residual=x))
        return self.dropout(sublayer(self.norm(x)), residual=x)


class EncoderLayer(nn.Module):
    """An encoder layer with self-attention and a feed-forward network, each in a `Residual`."""

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__()
        self.self_attention = SelfAttention(model, randomness)
        self.self_attention_residual = Residual(model, randomness)
        self.feed_forward = FeedForward(model, randomness)
        self.feed_forward_residual = Residual(model, randomness)

    def forward(self, x: Tensor, visibility: Visibility) -> Tensor:
        """Applies the encoder layer: (R, S, D) -> (R, S, D).

        `visibility` is the self-attention mask for the S queries and S keys of each row.
        """
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, visibility))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """A decoder layer with self-attention, cross-attention and a feed-forward network.

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
        """Applies the decoder layer: (R, T, D) -> (R, T, D).

        Args:
            visibility: the self-attention mask for the T queries and their keys. If `cache` is
                given, the keys are all keys in the cache; otherwise, they are the T keys of `x`.
            memory: the encoder's output (R, S, D), or the keys and values that
                `CrossAttention.project_memory` computes from it.
            memory_visibility: the cross-attention mask for the T queries and S keys.
            cache: the keys and values of earlier decoding steps, or None if `x` is the whole
                target.
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

    The embedding matrix is an argument of `forward` rather than an attribute, so that checkpoints
    contain the matrix under only one name. For inference, this module can be replaced with a module
    that stores its own copy of the matrix, for example a quantized copy.
    """

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Computes logits without the output bias: (..., D), (V, D) -> (..., V)."""
        return F.linear(hidden, embedding)
