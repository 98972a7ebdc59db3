"""The encoder-decoder Transformer: one set of weights, run over whole slots or step by step.

R rows, S source and T target columns, D d_model, V vocabulary; in decoding B sentences, W beam.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import Config
from nmt.model.attention import attention_bias
from nmt.model.dropout import Dropout, Randomness
from nmt.model.layers import DecoderLayer, EncoderLayer, layer_norm
from nmt.model.positions import LearnedPositions, SinusoidalPositions
from nmt.model.steps import CachedSteps
from nmt.model.tokens import Tokens


@dataclass(frozen=True)
class AttentionWeights:
    """Attention weights, one entry a layer, each (R, H, queries, keys)."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


class Transformer(nn.Module):
    """Figure 1 of Vaswani et al. (2017).

    One matrix embeds both languages and projects to logits (§3.4); embeddings are scaled by
    sqrt(d_model). Dropout stands on sub-layer outputs and embedding sums (§5.4).
    """

    def __init__(self, config: Config):
        super().__init__()
        model = config.model
        self.d_model, self.attention_window = model.d_model, model.attention_window
        self.randomness = Randomness()
        self.embedding = nn.Parameter(torch.empty(config.tokenizer.vocabulary_size, model.d_model))
        self.positions: SinusoidalPositions | LearnedPositions = (
            SinusoidalPositions(model.d_model)
            if model.positions == "sinusoidal"
            else LearnedPositions(config.data.max_length, model.d_model)
        )
        self.dropout = Dropout(model.dropout, self.randomness)
        self.encoder = nn.ModuleList(
            EncoderLayer(model, self.randomness) for _ in range(model.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(model, self.randomness) for _ in range(model.decoder_layers)
        )
        pre = model.norm == "pre"  # post-norm layers end normalised already
        self.encoder_norm = layer_norm(model.d_model) if pre else nn.Identity()
        self.decoder_norm = layer_norm(model.d_model) if pre else nn.Identity()

    @property
    def max_length(self) -> int | None:
        """Longest sequence in tokens that the positions allow; None: any."""
        return self.positions.max_length

    @torch.no_grad()
    def initialize(self, seed: int) -> None:
        """Draws all weights; the paper does not say how.

        Matrices: Glorot & Bengio (2010), uniform, each projection on its own although some
        share a tensor; biases 0; LayerNorm 1 and 0; embeddings N(0, 1/d_model), so that scaled
        by sqrt(d_model) they match the sinusoids in size (as fairseq does).
        """
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if name in ("embedding", "positions.weight"):
                parameter.normal_(0, self.d_model**-0.5, generator=generator)
            elif parameter.dim() == 1:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
            else:
                for part in self._projections(name, parameter):
                    nn.init.xavier_uniform_(part, generator=generator)

    def _projections(self, name: str, parameter: Tensor) -> tuple[Tensor, ...]:
        layer = self.get_submodule(name.rsplit(".", 2)[0])
        if name.endswith("query_key_value.weight"):
            keys, values = layer.heads * layer.d_k, layer.heads * layer.d_v  # type: ignore[operator]
            return parameter.split([keys, keys, values])
        if name.endswith("key_value.weight"):
            keys, values = layer.heads * layer.d_k, layer.heads * layer.d_v  # type: ignore[operator]
            return parameter.split([keys, values])
        return (parameter,)

    def embed(self, tokens: Tensor, positions: Tensor, length: int) -> Tensor:
        """(R, C), (R, C), bound of the positions -> (R, C, D)"""
        embedded = F.embedding(tokens, self.embedding) * math.sqrt(self.d_model)
        x = embedded + self.positions(positions, length).to(embedded.dtype)
        if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            # CPU autocast would leave the residual stream in fp32 and convert it at every sub-layer
            x = x.to(torch.get_autocast_dtype("cpu"))
        return self.dropout(x)

    def _self_attention_bias(self, side: Tokens, *, causal: bool, dtype: torch.dtype) -> Tensor:
        window, segments = self.attention_window, side.segments
        return attention_bias(segments, segments, causal=causal, dtype=dtype, window=window)

    def encode(self, src: Tokens, seen: list[Tensor] | None = None) -> Tensor:
        """(R, S) -> memory (R, S, D)"""
        x = self.embed(src.tokens, src.positions, src.tokens.shape[1])
        bias = self._self_attention_bias(src, causal=False, dtype=x.dtype)
        for layer in self.encoder:
            x = layer(x, bias, seen)
        return self.encoder_norm(x)

    def decoder_layers(self) -> Iterator[DecoderLayer]:
        """The decoder's layers, typed."""
        return cast(Iterator[DecoderLayer], iter(self.decoder))

    def forward(self, src: Tokens, tgt_in: Tokens, maps: AttentionWeights | None = None) -> Tensor:
        """Hidden states (R, T, D) that `logits` projects; `maps` collects attention weights."""
        memory = self.encode(src, maps.encoder if maps else None)
        y = self.embed(tgt_in.tokens, tgt_in.positions, tgt_in.tokens.shape[1])
        self_bias = self._self_attention_bias(tgt_in, causal=True, dtype=y.dtype)
        cross_bias = attention_bias(tgt_in.segments, src.segments, causal=False, dtype=y.dtype)
        seen_self, seen_cross = (maps.decoder, maps.cross) if maps else (None, None)
        for layer in self.decoder_layers():
            y = layer(
                y,
                lambda x, layer=layer: layer.self_attention(x, self_bias, seen_self),
                layer.cross_attention.project_memory(memory),
                cross_bias,
                seen_cross,
            )
        return self.decoder_norm(y)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V); the projection has no bias."""
        return F.linear(hidden, self.embedding)

    def start(self, src: Tensor, beam: int, max_length: int) -> CachedSteps:
        """Encodes sentences and prepares to decode them step by step.

        Args:
            src: (B, S) int64, padded with 0, each sentence with its end symbol.
            beam: W, hypotheses a sentence.
            max_length: most steps that will be taken.
        """
        positions = torch.arange(src.shape[1], device=src.device).expand_as(src)
        return CachedSteps(self, Tokens(src, positions, (src != 0).long()), beam, max_length)
