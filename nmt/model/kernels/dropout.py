"""Dropout whose masks are a function of (seed, step, slot).

torch's own dropout draws its masks serially on a CPU, 6 to 7 ms a million elements. On a CPU the
masks here come from numpy's SFC64, 16 random bits an element, so the rate is exact to 1/65536 and
elements are independent. Other devices use torch's generator, seeded from the same numbers.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16


class Randomness:
    """The random bits from which all dropout modules of a model draw: one call seeds them all."""

    def __init__(self) -> None:
        self._bits = np.random.SFC64(0)

    def seed(self, *key: int) -> None:
        """Restarts at the masks of `key`, such as (seed, step, slot), whole numbers >= 0."""
        sequence = np.random.SeedSequence(key)
        self._bits = np.random.SFC64(sequence)
        if torch.cuda.is_available():
            torch.cuda.manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))

    def keep(self, shape: torch.Size, p: float) -> Tensor:
        """bf16 mask on the CPU: 0 with probability `p` rounded to 1/65536, otherwise 1."""
        size = shape.numel()
        bits = self._bits.random_raw((size + 3) // 4)
        words = torch.from_numpy(bits.view(np.int16)[:size])
        mask = torch.empty(size, dtype=torch.bfloat16)  # torch converts bool 5 times as slowly
        return torch.ge(words, round(p * _LEVELS) - _LEVELS // 2, out=mask).view(shape)


class _Masked(torch.autograd.Function):
    """residual + x * mask * scale in one pass; stores the mask alone for the backward pass."""

    @staticmethod
    def forward(ctx, residual: Tensor, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return torch.addcmul(residual, x, mask.to(x.dtype), value=scale)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (mask,) = ctx.saved_tensors
        zero, mask = gradient.new_zeros(()), mask.to(gradient.dtype)
        return gradient, torch.addcmul(zero, gradient, mask, value=ctx.scale), None, None


class Dropout(nn.Module):
    """In training, zeroes elements with probability `p` and scales the others by 1 / (1 - p)."""

    def __init__(self, p: float, randomness: Randomness):
        super().__init__()
        self.p = p
        self.randomness = randomness

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Floats of any shape, to which `residual`, of the same shape, is added.

        In evaluation, or if p is 0, nothing is dropped.
        """
        if self.training and self.p > 0:
            if x.device.type == "cpu":
                p = round(self.p * _LEVELS) / _LEVELS
                residual = x.new_zeros(()) if residual is None else residual
                return _Masked.apply(residual, x, self.randomness.keep(x.shape, p), 1 / (1 - p))
            x = F.dropout(x, self.p)
        return x if residual is None else residual + x
