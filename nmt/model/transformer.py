"""Implements the encoder-decoder Transformer, for both training and decoding.

In shapes, R is the number of rows, S the number of source columns, T the number of target columns,
H the number of heads, and V the vocabulary size. D is d_model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.attention import Cache, KeysValues, Visibility, recorded_weights
from nmt.model.kernels.dropout import Dropout, Randomness
from nmt.model.kernels.flex import with_blocks
from nmt.model.layers import DecoderLayer, EncoderLayer, OutputProjection, new_norm
from nmt.model.positions import LearnedPositions, NoPositions, SinusoidalPositions
from nmt.model.tokens import Tokens

if TYPE_CHECKING:
    from nmt.config import Model


@dataclass(frozen=True)
class AttentionWeights:
    """The attention weights of a forward pass, in one tensor per layer.

    The weights of each query sum to 1.
    """

    encoder: list[Tensor]  # (R, H, S, S)
    decoder: list[Tensor]  # (R, H, T, T)
    cross: list[Tensor]  # (R, H, T, S)


class _Initializes(Protocol):
    """A module that can initialize its own parameters."""

    def initialize_weights(self, generator: torch.Generator) -> None:
        """Initializes the module's own parameters, but not the parameters of its submodules."""


class Transformer(nn.Module):
    """The Transformer model in Figure 1 of Vaswani et al. (2017).

    One matrix serves as source embedding, target embedding and output projection (§3.4).
    Embeddings are scaled by sqrt(d_model). Dropout is applied to the outputs of sub-layers and to
    the sums of embeddings and positional encodings (§5.4).
    """

    def __init__(self, model: Model, vocabulary_size: int, max_length: int):
        """Allocates the weights without initializing them (see `initialize`).

        Args:
            vocabulary_size: the size V of the joint vocabulary.
            max_length: the number of learned positional embeddings. `max_length` is ignored if
                positional encodings are not learned.
        """
        super().__init__()
        self.d_model, self.attention_window = model.d_model, model.attention_window
        self.randomness = Randomness()
        self.embedding = nn.Parameter(torch.empty(vocabulary_size, model.d_model))
        self.output_bias = (
            nn.Parameter(torch.empty(vocabulary_size)) if model.output_bias else None
        )  # added to the logits
        self.positions: SinusoidalPositions | LearnedPositions | NoPositions
        if model.positions == "sinusoidal":
            self.positions = SinusoidalPositions(model.d_model)
        elif model.positions == "learned":
            self.positions = LearnedPositions(max_length, model.d_model)
        else:
            self.positions = NoPositions()
        self.dropout = Dropout(model.dropout, self.randomness)
        self.encoder = nn.ModuleList(
            EncoderLayer(model, self.randomness) for _ in range(model.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(model, self.randomness) for _ in range(model.decoder_layers)
        )
        pre = model.norm == "pre"  # the output of a post-norm layer is normalized already
        self.encoder_norm = new_norm(model) if pre else nn.Identity()
        self.decoder_norm = new_norm(model) if pre else nn.Identity()
        self.projection: nn.Module = OutputProjection()  # may be replaced, for example by `prepack`
        # "flex" uses FlexAttention in compiled layers; "plain" uses separate matrix multiplications
        self.attention: Literal["fused", "flex", "plain"] = "fused"

    @property
    def max_length(self) -> int | None:
        """The maximum sentence length in tokens, or None if positions impose no limit."""
        return self.positions.max_length

    @torch.no_grad()
    def initialize(self, seed: int) -> None:
        """Initializes all weights.

        The paper does not specify how the weights are initialized. Embeddings are sampled from N(0,
        1/d_model), as in fairseq. After scaling by sqrt(d_model), the embeddings have a variance of
        1, compared with 1/2 for the sinusoids. The output bias is initialized to 0. All other
        weights are initialized by the `initialize_weights` methods of their modules.

        Raises:
            AttributeError: a module has parameters but no `initialize_weights` method.
        """
        generator = torch.Generator().manual_seed(seed)
        self.embedding.normal_(0, self.d_model**-0.5, generator=generator)
        if self.output_bias is not None:
            self.output_bias.zero_()
        for module in self.modules():
            if module is not self and list(module.parameters(recurse=False)):
                cast(_Initializes, module).initialize_weights(generator)

    def embed(self, tokens: Tensor, positions: Tensor, length: int) -> Tensor:
        """Returns scaled embeddings plus positional encodings: (R, C), (R, C) -> (R, C, D).

        Args:
            positions: the positions of the tokens, int64, all below `length`.

        Raises:
            IndexError: the positional embeddings are learned, and a position is `max_length` or
                larger.
        """
        embedded = F.embedding(tokens, self.embedding) * math.sqrt(self.d_model)
        x = embedded + self.positions(positions, length).to(embedded.dtype)
        if torch.is_autocast_enabled(x.device.type):
            # autocast would keep the residual stream in fp32 and convert it at every sub-layer
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.dropout(x)

    def encode(self, src: Tokens) -> Tensor:
        """Computes the encoder's output for the sources: (R, S) -> (R, S, D)."""
        x = self.embed(src.tokens, src.positions, src.tokens.shape[1])
        visibility = self._of_self_attention(_among(src))
        for layer in self.encoder:
            x = layer(x, visibility)
        return self.encoder_norm(x)

    def decoder_layers(self) -> Iterator[DecoderLayer]:
        """Returns an iterator over the decoder's layers."""
        return cast(Iterator[DecoderLayer], iter(self.decoder))

    def decode(
        self,
        y: Tensor,
        visibility: Visibility,
        memory: Sequence[Tensor | KeysValues],
        memory_visibility: Visibility,
        caches: Sequence[Cache | None],
    ) -> Tensor:
        """Maps embedded target tokens to hidden states: (R, T, D) -> (R, T, D).

        Args:
            visibility: the self-attention mask, to which this method adds the model's attention
                window.
            memory: for each layer, the encoder's output, or the keys and values that the layer
                computed from the encoder's output.
            memory_visibility: the cross-attention mask for the T queries and S keys.
            caches: for each layer, the keys and values of earlier decoding steps, or None if `y` is
                the whole target.
        """
        visibility = self._of_self_attention(visibility)
        layers = zip(self.decoder_layers(), memory, caches, strict=True)
        for layer, layer_memory, cache in layers:
            y = layer(y, visibility, layer_memory, memory_visibility, cache)
        return self.decoder_norm(y)

    def forward(self, src: Tokens, tgt_in: Tokens) -> Tensor:
        """Computes the decoder's final hidden states: (R, S), (R, T) -> (R, T, D)."""
        memory = self.encode(src)
        y = self.embed(tgt_in.tokens, tgt_in.positions, tgt_in.tokens.shape[1])
        n = len(self.decoder)
        cross = self._by_kernel(Visibility(segments=(tgt_in.segments, src.segments)))
        return self.decode(y, _among(tgt_in, causal=True), [memory] * n, cross, [None] * n)

    def logits(self, hidden: Tensor) -> Tensor:
        """Projects hidden states to logits: (..., D) -> (..., V)."""
        logits = self.projection(hidden, self.embedding)
        return logits if self.output_bias is None else logits + self.output_bias

    def attention_weights(self, src: Tokens, tgt_in: Tokens) -> AttentionWeights:
        """Returns the attention weights of a forward pass, before dropout."""
        with recorded_weights() as weights:
            self(src, tgt_in)
        encoder, decoder = weights[: len(self.encoder)], weights[len(self.encoder) :]
        return AttentionWeights(encoder, decoder[::2], decoder[1::2])

    def _of_self_attention(self, visibility: Visibility) -> Visibility:
        return self._by_kernel(replace(visibility, window=self.attention_window))

    def _by_kernel(self, visibility: Visibility) -> Visibility:
        if self.attention == "flex":
            return with_blocks(visibility)
        return replace(visibility, is_plain=True) if self.attention == "plain" else visibility


def _among(side: Tokens, *, causal: bool = False) -> Visibility:
    """Returns the self-attention mask for the sources or targets of a micro-batch."""
    segments, positions = side.segments, side.positions
    return Visibility((segments, segments), (positions, positions), causal=causal)
