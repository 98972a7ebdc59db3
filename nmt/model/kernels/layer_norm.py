"""Computes LayerNorm in the dtype of its input, without fp32 copies of the input."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_CACHED = 1 << 16  # number of elements that are converted to fp32 at once (256 KiB)


class LayerNorm(nn.LayerNorm):
    """A LayerNorm that is computed in the dtype of its input, even under autocast.

    On a GPU, autocast would convert the input and the output of torch's LayerNorm to fp32, and save
    the fp32 input for the backward pass. A training step of the base model would take 0.7 GiB more
    memory with these conversions. The kernels always compute the mean and the variance in fp32,
    with and without autocast.
    """

    def initialize_weights(self, generator: torch.Generator) -> None:
        """Sets the weight to 1 and the bias to 0, as the constructor does."""
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes the last dimension: (..., D) -> (..., D)."""
        if _is_on_cpu(x):  # autocast does not convert LayerNorm's input on a CPU
            if x.dtype != torch.bfloat16 or not torch.is_grad_enabled():
                return super().forward(x)
            if torch.compiler.is_compiling():  # compiled code converts in registers
                return super().forward(x.float()).to(x.dtype)
            return _LowPrecisionLayerNorm.apply(x, self.weight, self.bias, self.eps)
        with torch.autocast(x.device.type, enabled=False):  # all inputs must have the same dtype
            weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
            return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


def _is_on_cpu(x: Tensor) -> bool:
    return x.device.type == "cpu"


class _LowPrecisionLayerNorm(torch.autograd.Function):
    """Normalizes bf16 input with fp32 weights on a CPU, and sums weight gradients in fp32.

    torch's bf16 kernel also sums the weight gradients of all tokens in bf16, where small summands
    are lost to rounding. In torch 2.13, 33% of the bias gradient was lost with 4,096 tokens, and
    86% was lost with 25,000 tokens. The backward pass of this class therefore applies torch's fp32
    kernel to chunks of rows that fit in the processor's cache.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        y, mean, deviation = torch.native_layer_norm(x, weight.shape, weight, bias, epsilon)
        ctx.save_for_backward(x, mean, deviation, weight, bias)
        return y

    @staticmethod
    def backward(ctx, gradient: Tensor):
        *inputs, weight, bias = ctx.saved_tensors
        size = max(1, _CACHED // len(weight))
        pieces = [each.flatten(0, -2).split(size) for each in (gradient, *inputs)]
        x_gradients = []
        sums = [torch.zeros_like(weight), torch.zeros_like(bias)]
        for rows, x, mean, deviation in zip(*pieces, strict=True):
            x_gradient, *parts = torch.ops.aten.native_layer_norm_backward(
                rows.float(), x.float(), weight.shape, mean, deviation, weight, bias, [True] * 3
            )
            x_gradients.append(x_gradient.to(gradient.dtype))
            for total, part in zip(sums, parts, strict=True):
                total += part
        return torch.cat(x_gradients).view_as(gradient), *sums, None
