"""Weights as a CPU reads them fastest, for a model that only translates.

fp32 and bf16 weights are laid out once as oneDNN's kernels want them. In int8 each row of a matrix
is quantized on its own, symmetrically, to 8 bits with an fp32 scale (its largest magnitude is 127);
activations are quantized at each call, by their own least and greatest value, and products are
summed in 32-bit integers. Everything that is no matrix product stays in fp32.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from nmt.model.kernels.products import Linear, has_onednn, onednn_linear
from nmt.model.transformer import Transformer

# without these instructions sums of two products saturate unless activations have 7 bits
_HAS_VNNI = torch.cpu._is_vnni_supported()

Precision = Literal["fp32", "bf16", "int8"]


class PrepackedLinear(nn.Module):
    """x @ weight.T + bias with a reordered weight."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        self.prepacked = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
        self.bias = bias

    def forward(self, x: Tensor, _: Tensor | None = None) -> Tensor:
        """(..., I) -> (..., O); the second argument is an `OutputProjection`'s embedding."""
        return onednn_linear(x, self.prepacked, self.bias)


class Int8Linear(nn.Module):
    """x @ weight.T + bias with a weight quantized row by row and `x` quantized at each call."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        weight = weight.detach()
        scales = weight.abs().amax(1).clamp_(min=1e-8).double() / 127
        zeros = torch.zeros(len(weight), dtype=torch.long)
        # deprecated for torchao, which has no such kernels for CPUs
        with warnings.catch_warnings(action="ignore"):
            quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
            self.prepacked = torch.ops.quantized.linear_prepack(quantized, bias)

    def forward(self, x: Tensor, _: Tensor | None = None) -> Tensor:
        """(..., I) -> (..., O) fp32; the second argument is an `OutputProjection`'s embedding."""
        return torch.ops.quantized.linear_dynamic(x, self.prepacked, not _HAS_VNNI)


def prepack(transformer: Transformer, precision: Precision) -> None:
    """Makes a model on a CPU, in place, compute its products in `precision`, for inference only.

    Raises:
        ValueError: int8, and this build of torch has no such products.
    """
    if precision == "bf16":
        transformer.to(torch.bfloat16)
    if precision == "int8":
        _refuse_missing_int8()
    elif not has_onednn(transformer.embedding.dtype):
        return
    make = Int8Linear if precision == "int8" else PrepackedLinear
    for module in list(transformer.modules()):
        for name, child in module.named_children():
            if isinstance(child, Linear):
                setattr(module, name, make(child.weight, child.bias))
    transformer.projection = make(transformer.embedding, None)


def logits_of(transformer: Transformer, tokens: Tensor) -> Callable[[Tensor], Tensor]:
    """Like `Transformer.logits`, but of some tokens alone: (..., D) -> (..., n).

    Args:
        transformer: prepacked or not.
        tokens: (n,) int64.
    """
    rows, projection = transformer.embedding[tokens], transformer.projection
    if isinstance(projection, Int8Linear | PrepackedLinear):
        return type(projection)(rows, None)
    return lambda hidden: projection(hidden, rows)


def _refuse_missing_int8() -> None:
    try:
        Int8Linear(torch.ones(1, 1), None)(torch.ones(1, 1))
    except (AttributeError, RuntimeError) as error:
        raise ValueError(f"no int8 products in this build of torch: {error}") from None
