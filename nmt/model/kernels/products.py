"""Multiplies matrices with the fastest library that torch includes.

For fp32 matrix multiplication on a CPU, torch calls MKL, which uses only half the vector width on
some processors. This module therefore calls oneDNN, which also computes in fp32. On AMD Zen 5, the
only processor on which both libraries were timed, oneDNN is up to 2.4 times as fast as MKL for the
base model's matrix sizes.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Returns x @ weight.T + bias: (..., I), (O, I), (O) -> (..., O).

    `weight` may have any strides, or it may be stored in oneDNN's layout.
    """
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


@cache
def has_onednn(dtype: torch.dtype) -> bool:
    """Returns whether oneDNN is available in torch and supports `dtype` on this processor."""
    one = torch.ones(1, 1, dtype=dtype)
    try:
        return onednn_linear(one, one, None).item() == 1
    except (AttributeError, RuntimeError):
        return False


def _by_onednn(a: Tensor) -> bool:
    if torch.compiler.is_compiling():  # the compiler chooses its own kernels
        return False
    return a.device.type == "cpu" and a.dtype == torch.float32 and has_onednn(a.dtype)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Returns a @ b, without autograd support: (N, K), (K, M) -> (N, M)."""
    is_empty_sum = not a.shape[1]  # oneDNN does not support K = 0
    return a @ b if is_empty_sum or not _by_onednn(a) else onednn_linear(a, b.t(), None)


def add_to_matmul(bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Returns bias + a @ b, without autograd support: (M), (N, K), (K, M) -> (N, M).

    Args:
        bias: an fp32 vector. On a CPU, oneDNN adds the bias before it rounds the result to the
            dtype of `a`. On other devices, the bias is rounded to the dtype of `a` before it is
            added.
    """
    if a.device.type == "cpu" and not torch.compiler.is_compiling() and has_onednn(a.dtype):
        return onednn_linear(a, b.t(), bias)
    return torch.addmm(bias.to(a.dtype), a, b)


def matmul_of_transposed(a: Tensor, b: Tensor) -> Tensor:
    """Returns a.t() @ b, without autograd support: (N, K), (N, M) -> (K, M).

    The result may be non-contiguous. The smaller of the two matrices is used as the first operand,
    because oneDNN makes a contiguous copy of the first operand.
    """
    if a.shape[1] <= b.shape[1] or not _by_onednn(a):
        return matmul(a.t(), b)
    return matmul(b.t(), a).t()


class _LinearFunction(torch.autograd.Function):
    """Computes x @ weight.T + bias in `dtype`; autograd converts gradients to the input dtypes."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
        x, weight = x.to(dtype), weight.to(dtype)
        ctx.save_for_backward(x, weight)
        return onednn_linear(x, weight, bias.to(dtype))

    @staticmethod
    def backward(ctx, gradient: Tensor):
        x, weight = ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        return (
            matmul(rows, weight).view_as(x),
            matmul_of_transposed(rows, x.flatten(0, -2)),
            rows.sum(0),
            None,
        )


class Linear(nn.Linear):
    """A linear layer; on a CPU, oneDNN computes the product and adds the bias in one pass.

    Args:
        in_features: the width I of the input.
        rows: for each projection of the input, its output width. The weights of all projections are
            stacked into one matrix, so that a single matrix multiplication computes all
            projections. The width O of the output is the sum of the projections' widths.
    """

    def __init__(self, in_features: int, *rows: int):
        super().__init__(in_features, sum(rows))
        self.rows = rows

    def initialize_weights(self, generator: torch.Generator) -> None:
        """Initializes weights with Xavier uniform (Glorot & Bengio, 2010), and biases with 0.

        The weights of each projection are initialized as a separate matrix.
        """
        for projection in self.weight.split(self.rows):
            nn.init.xavier_uniform_(projection, generator=generator)
        self.bias.zero_()

    def projections(self) -> list[tuple[Tensor, Tensor]]:
        """Returns the weight and the bias of each projection."""
        parts = zip(self.weight.split(self.rows), self.bias.split(self.rows), strict=True)
        return list(parts)

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer: (..., I) -> (..., O), in autocast's dtype if autocast is enabled."""
        device = x.device.type
        if device != "cpu" or torch.compiler.is_compiling():
            return F.linear(x, self.weight, self.bias)
        low = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if low else x.dtype
        if not has_onednn(dtype):
            return F.linear(x, self.weight, self.bias)
        return _LinearFunction.apply(x, self.weight, self.bias, dtype)
