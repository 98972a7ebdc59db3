"""FlexAttention, which computes attention in compiled layers.

R rows; T query and S key columns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from nmt.model.attention import Visibility, rules_of

if TYPE_CHECKING:
    from nmt.config import Model

_BLOCK = 128  # columns of the squares that FlexAttention computes or skips


def flex_suits(model: Model, device: torch.device) -> bool:
    """Whether FlexAttention can compute a model's attention in compiled layers.

    It has neither dropout nor, on a CPU, a backward pass. Its kernels take heads whose width is a
    power of two.
    """
    is_power = all(size in (16, 32, 64, 128, 256) for size in (model.d_k, model.d_v))
    return device.type == "cuda" and model.attention_dropout == 0 and is_power


def with_blocks(visibility: Visibility) -> Visibility:
    """Adds the mask of FlexAttention, whose kernels skip blocks of 128 x 128 without a pair to see.

    Packed rows have their sentences within blocks of 128 columns, or in a row of their own, so
    that of base's rows of 256 columns about half is skipped, and no bias is read or written. A
    query of padding sees nothing there, and its output is 0: in the plain code it sees all keys.

    Args:
        visibility: returned as it is if it has no segments, or if columns do not divide into
            blocks.
    """
    if visibility.segments is None or visibility.ancestors is not None:
        return visibility
    queries, keys = visibility.segments
    if queries.shape[1] % _BLOCK or keys.shape[1] % _BLOCK:
        return visibility

    def sees(row: Tensor, _: Tensor, query: Tensor, key: Tensor) -> Tensor:
        rules = rules_of(visibility, lambda each: each[row, query], lambda each: each[row, key])
        return reduce(and_, rules, queries[row, query] != 0)

    rules = rules_of(visibility, lambda each: each[:, :, None], lambda each: each[:, None])
    seen = reduce(and_, rules, (queries != 0)[:, :, None])
    squares = seen.unflatten(2, (-1, _BLOCK)).unflatten(1, (-1, _BLOCK)).any(4).any(2)  # (R, q, k)
    order = squares.int().argsort(dim=-1, descending=True, stable=True)
    number = squares.sum(-1)
    blocks = BlockMask.from_kv_blocks(
        number[:, None].int(), order[:, None].int(), BLOCK_SIZE=_BLOCK, mask_mod=sees,
        seq_lengths=(queries.shape[1], keys.shape[1]),
    )  # fmt: skip
    return replace(visibility, blocks=blocks)
