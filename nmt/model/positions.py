"""Implements sinusoidal (§3.5), learned (row E of Table 3) and rotary positional encodings."""

import math

import torch
from torch import Tensor, nn

_LEAST_ROWS = 512  # number of positions in the smallest table


def sinusoids(length: int, d_model: int) -> Tensor:
    """Returns the sinusoidal positional encodings of Vaswani et al. (2017), §3.5.

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)) and PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)),
    where pos is counted from 0. Unlike this formula, the code of the paper's authors puts all sines
    before all cosines.

    Returns:
        A float32 tensor (length, d_model), which is computed in float64.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position * torch.exp(even * (-math.log(10_000.0) / d_model))  # (length, d_model / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


class SinusoidalPositions(nn.Module):
    """Looks up the values of `sinusoids` in a table, and computes a longer table when needed.

    Shorter tables are kept, because a captured CUDA graph continues to read the table that was used
    during its capture. Because each table is at least twice as long as the previous one, all tables
    together have fewer than twice as many rows as the longest table.
    """

    max_length: int | None = None

    def __init__(self, d_model: int):
        super().__init__()
        self.d_model = d_model
        self._tables: list[Tensor] = []

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Returns the encodings of int64 positions, all below `length`: (...) -> (..., d_model)."""
        device = positions.device
        for table in self._tables:
            if len(table) >= length and table.device == device:
                return table[positions]
        rows = max(_LEAST_ROWS, 1 << (length - 1).bit_length())
        with torch.inference_mode(False):  # because training may use the table later
            table = sinusoids(rows, self.d_model).to(device)
        self._tables.append(table)
        return table[positions]


class LearnedPositions(nn.Module):
    """Learned positional embeddings; encoder and decoder share a (max_length, d_model) table."""

    def __init__(self, max_length: int, d_model: int):
        super().__init__()
        self.max_length = max_length
        self.weight = nn.Parameter(torch.empty(max_length, d_model))

    def initialize_weights(self, generator: torch.Generator) -> None:
        """Samples the table from N(0, 1/d_model), like the token embeddings."""
        self.weight.normal_(0, self.weight.shape[1] ** -0.5, generator=generator)

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Returns the embeddings of int64 positions: (...) -> (..., d_model); ignores `length`.

        Raises:
            IndexError: a position is `max_length` or larger.
        """
        return self.weight[positions]


class NoPositions(nn.Module):
    """Takes the place of positional encodings in models with rotary positions."""

    max_length: int | None = None

    def forward(self, positions: Tensor, length: int) -> Tensor:
        """Returns a scalar tensor of value 0, which has no effect when added to embeddings."""
        return torch.zeros((), device=positions.device)


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """Applies rotary position embeddings (Su et al., 2021) to queries or keys of self-attention.

    Channels 2i and 2i+1 are rotated by the angle pos / 10000^(2i/d_k). The dot product of a rotated
    query and a rotated key depends only on the difference between their positions.

    Args:
        x: the queries or keys, a tensor (R, H, C, K). K must be even.
        positions: (R, C) int64.

    Returns:
        The rotated queries or keys, (R, H, C, K), in the dtype of `x`. The rotation is computed
        with at least fp32 precision.
    """
    even = torch.arange(0, x.shape[-1], 2, device=x.device, dtype=torch.float32)
    angle = positions[:, None, :, None] * torch.exp(even * (-math.log(10_000.0) / x.shape[-1]))
    sin, cos = angle.sin(), angle.cos()  # (R, 1, C, K / 2)
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2).to(x.dtype)
