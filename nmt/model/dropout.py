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
        """Bool mask on the CPU, False with probability `p` rounded to 1/65536."""
        size = shape.numel()
        bits = self._bits.random_raw((size + 3) // 4)
        words = torch.from_numpy(bits.view(np.int16)[:size])
        return words.ge(round(p * _LEVELS) - _LEVELS // 2).view(shape)


class _Masked(torch.autograd.Function):
    """x * mask * scale; stores only one byte an element for the backward pass."""

    @staticmethod
    def forward(ctx, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return (x * mask).mul_(scale)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (mask,) = ctx.saved_tensors
        return (gradient * mask).mul_(ctx.scale), None, None


class Dropout(nn.Module):
    """In training, zeroes elements with probability `p` and scales the others by 1 / (1 - p)."""

    def __init__(self, p: float, randomness: Randomness):
        super().__init__()
        self.p = p
        self.randomness = randomness

    def forward(self, x: Tensor) -> Tensor:
        """Takes and returns floats of any shape; in evaluation, or if p is 0, `x` itself."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        p = round(self.p * _LEVELS) / _LEVELS
        return _Masked.apply(x, self.randomness.keep(x.shape, p), 1 / (1 - p))
