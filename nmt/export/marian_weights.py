"""Converts the weights of a Transformer to the names and the channel order of `transformers`.

In the position encodings of Marian and Pegasus models, all sines precede all cosines, whereas nmt
interleaves sines and cosines. The channels of the residual stream are therefore permuted. The
permutation affects the columns of weights that read the residual stream, and the rows of weights
that write to the stream.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from nmt.model.attention import CrossAttention, SelfAttention
from nmt.model.layers import DecoderLayer, EncoderLayer
from nmt.model.positions import LearnedPositions, sinusoids
from nmt.model.transformer import Transformer

POSITIONS = 4096  # length of the sinusoidal table

_READERS = ("query_key_value", "query", "key_value", "inner")  # read the residual stream

Weights = dict[str, Tensor]


def named_weights(model: Transformer) -> Weights:
    """Returns the weights of a model, keyed by their names in transformers.

    The tensors share memory with the model's parameters. Stacked projection matrices are split into
    separate tensors.

    Args:
        model: a model whose channels have the order that `channels` returns.
    """
    weights: Weights = {"model.shared.weight": model.embedding}
    if model.output_bias is not None:
        weights["final_logits_bias"] = model.output_bias[None]
    for side in ("encoder", "decoder"):
        norm = model.get_submodule(f"{side}_norm")
        if isinstance(norm, nn.LayerNorm):  # Pegasus, which also saves its position encodings
            weights |= _of(f"model.{side}.layer_norm", norm)
            weights[f"model.{side}.embed_positions.weight"] = _positions(model)
        layers = cast(Iterable[EncoderLayer | DecoderLayer], model.get_submodule(side))
        for number, layer in enumerate(layers):
            weights |= _of_layer(f"model.{side}.layers.{number}", layer)
    return weights


def permuted(transformer: Transformer, order: Tensor) -> Transformer:
    """Returns a copy of a model in which the channels of the residual stream are permuted.

    Args:
        order: (D) int64, the indices of the channels in their new order.
    """
    model = copy.deepcopy(transformer)
    for name, parameter in model.named_parameters():
        *_, module, kind = f".{name}".split(".")
        if (module in _READERS and kind == "bias") or name == "output_bias":
            continue
        is_stream_last = module in _READERS or name in ("embedding", "positions.weight")
        parameter.data = parameter.data.index_select(-1 if is_stream_last else 0, order)
    return model


def _positions(model: Transformer) -> Tensor:
    """Returns the position encodings of a permuted model: (positions, D)."""
    if isinstance(model.positions, LearnedPositions):
        return model.positions.weight
    return sinusoids(POSITIONS, model.d_model)[:, channels(model.d_model)]


def channels(d_model: int) -> Tensor:
    """Returns the indices of all even channels (sines), then of all odd channels (cosines): (D)."""
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def _of_layer(name: str, layer: EncoderLayer | DecoderLayer) -> Weights:
    weights = _of_attention(f"{name}.self_attn", layer.self_attention)
    weights |= _of(f"{name}.self_attn_layer_norm", layer.self_attention_residual.norm)
    if isinstance(layer, DecoderLayer):
        weights |= _of_attention(f"{name}.encoder_attn", layer.cross_attention)
        weights |= _of(f"{name}.encoder_attn_layer_norm", layer.cross_attention_residual.norm)
    weights |= _of(f"{name}.fc1", layer.feed_forward.inner)
    weights |= _of(f"{name}.fc2", layer.feed_forward.outer)
    return weights | _of(f"{name}.final_layer_norm", layer.feed_forward_residual.norm)


def _of_attention(name: str, ours: SelfAttention | CrossAttention) -> Weights:
    weights = _of(f"{name}.out_proj", ours.output)
    if isinstance(ours, SelfAttention):
        stacked, names = ours.query_key_value, ["q_proj", "k_proj", "v_proj"]
    else:
        weights |= _of(f"{name}.q_proj", ours.query)
        stacked, names = ours.key_value, ["k_proj", "v_proj"]
    for part, (weight, bias) in zip(names, stacked.projections(), strict=True):
        weights |= {f"{name}.{part}.weight": weight, f"{name}.{part}.bias": bias}
    return weights


def _of(name: str, module: nn.Module) -> Weights:
    return {f"{name}.{key}": value for key, value in module.named_parameters()}
