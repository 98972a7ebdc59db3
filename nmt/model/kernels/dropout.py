"""Implements dropout with masks that depend only on the seed, the step and the micro-batch.

On a CPU, torch's dropout generates its masks serially, which takes 6 to 7 ms per million elements.
On a CPU, this module therefore uses numpy's SFC64 generator, which provides 16 random bits per
element. The elements of a mask are independent, and the dropout probability is rounded to a
multiple of 1/65536. On a GPU, this module uses torch's dropout and seeds torch's random number
generator.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16


class Randomness:
    """The random number generator that all dropout modules of a model share."""

    def __init__(self) -> None:
        self._bits = np.random.SFC64(0)

    def seed(self, *key: int) -> None:
        """Seeds the generator with non-negative integers, such as a seed and a step number."""
        sequence = np.random.SeedSequence(key)
        self._bits = np.random.SFC64(sequence)
        if torch.cuda.is_available():
            torch.cuda.manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))

    def keep(self, shape: torch.Size, p: float) -> Tensor:
        """Returns a bf16 mask on the CPU; each element is 0 with probability `p` and 1 otherwise.

        The probability `p` is rounded to a multiple of 1/65536.
        """
        size = shape.numel()
        bits = self._bits.random_raw((size + 3) // 4)
        words = torch.from_numpy(bits.view(np.int16)[:size])
        mask = torch.empty(size, dtype=torch.bfloat16)  # converting from bool would be slow
        return torch.ge(words, round(p * _LEVELS) - _LEVELS // 2, out=mask).view(shape)


class _Masked(torch.autograd.Function):
    """Computes residual + x * mask * scale in one pass.

    Only the mask is saved for the backward pass.
    """

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
    """Applies dropout with probability `p`, using random bits from a shared `Randomness`."""

    def __init__(self, p: float, randomness: Randomness):
        super().__init__()
        self.p = p
        self.randomness = randomness

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Returns residual + dropout(x), or dropout(x) if `residual` is None.

        In training mode, dropout zeroes elements with probability `p` and scales all other elements
        by 1 / (1 - p). In evaluation mode, dropout returns `x` unchanged.
        """
        if self.training and self.p > 0:
            if x.device.type == "cpu":
                p = round(self.p * _LEVELS) / _LEVELS
                residual = x.new_zeros(()) if residual is None else residual
                return _Masked.apply(residual, x, self.randomness.keep(x.shape, p), 1 / (1 - p))
            x = F.dropout(x, self.p)
        return x if residual is None else residual + x
