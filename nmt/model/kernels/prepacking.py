"""Prepacks or quantizes a model's weights for inference on a CPU.

fp32 and bf16 weights are reordered once into oneDNN's layout. For int8, each row of a weight matrix
is quantized symmetrically with its own scale, which maps the largest magnitude in the row to 127.
Activations are quantized at each call according to their minimum and maximum, and int8 products are
summed in 32-bit integers. In an int8 model, all operations other than multiplications by weight
matrices are computed in fp32.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from nmt.model.kernels.products import Linear, has_onednn, onednn_linear
from nmt.model.transformer import Transformer

# Without VNNI, sums of two products saturate unless activations are reduced to 7 bits.
_HAS_VNNI = torch.cpu._is_vnni_supported()

Precision = Literal["fp32", "bf16", "int8"]


class PrepackedLinear(nn.Module):
    """Computes x @ weight.T + bias with a weight matrix that is stored in oneDNN's layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        self.prepacked = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
        self.bias = bias

    def forward(self, x: Tensor, _: Tensor | None = None) -> Tensor:
        """Applies the linear layer: (..., I) -> (..., O).

        If this module replaces an `OutputProjection`, the second argument is the embedding matrix,
        which is ignored.
        """
        return onednn_linear(x, self.prepacked, self.bias)


class Int8Linear(nn.Module):
    """Computes x @ weight.T + bias with an int8 weight matrix, and quantizes `x` at each call."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        weight = weight.detach()
        scales = weight.abs().amax(1).clamp_(min=1e-8).double() / 127
        zeros = torch.zeros(len(weight), dtype=torch.long)
        # torch deprecates these functions in favor of torchao, which has no such CPU kernels.
        with warnings.catch_warnings(action="ignore"):
            quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
            self.prepacked = torch.ops.quantized.linear_prepack(quantized, bias)

    def forward(self, x: Tensor, _: Tensor | None = None) -> Tensor:
        """Applies the linear layer: (..., I) -> (..., O) in fp32.

        The second argument is ignored, as in `PrepackedLinear`.
        """
        return torch.ops.quantized.linear_dynamic(x, self.prepacked, not _HAS_VNNI)


def prepack(transformer: Transformer, precision: Precision) -> None:
    """Converts a CPU model to `precision` in place; the result supports only inference.

    Raises:
        ValueError: `precision` is int8, but this build of torch does not support int8 matrix
            multiplication.
    """
    if precision == "bf16":
        transformer.to(torch.bfloat16)
    if precision == "int8":
        _refuse_missing_int8()
    elif not has_onednn(transformer.embedding.dtype):
        return
    make = Int8Linear if precision == "int8" else PrepackedLinear
    # The list omits the layers that are replaced, so that each layer's memory is freed at once.
    for module in [each for each in transformer.modules() if not isinstance(each, Linear)]:
        for name, child in module.named_children():
            if isinstance(child, Linear):
                setattr(module, name, make(child.weight, child.bias))
    transformer.projection = make(transformer.embedding, None)


def logits_of(transformer: Transformer, tokens: Tensor) -> Callable[[Tensor], Tensor]:
    """Returns a function that computes the logits of the given tokens: (..., D) -> (..., n).

    Args:
        transformer: the model; its weights may already be prepacked.
        tokens: the ids of the n tokens, (n,) int64.
    """
    rows, projection = transformer.embedding[tokens], transformer.projection
    bias = None if transformer.output_bias is None else transformer.output_bias[tokens]
    if isinstance(projection, Int8Linear | PrepackedLinear):
        return type(projection)(rows, bias)
    return lambda hidden: projection(hidden, rows) + (0 if bias is None else bias)


def _refuse_missing_int8() -> None:
    try:
        Int8Linear(torch.ones(1, 1), None)(torch.ones(1, 1))
    except (AttributeError, RuntimeError) as error:
        raise ValueError(f"This build of torch does not support int8 products: {error}") from None
