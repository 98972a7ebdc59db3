"""Creates block masks for FlexAttention, an attention kernel for compiled layers.

In shapes, R is the number of rows, q the number of query blocks, and k the number of key blocks.
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

_BLOCK = 128  # FlexAttention computes or skips blocks of 128 x 128 scores


def flex_suits(model: Model, device: torch.device) -> bool:
    """Returns whether FlexAttention supports a model's attention in compiled layers.

    FlexAttention supports neither dropout nor a backward pass on a CPU. Both d_k and d_v must be
    powers of two from 16 to 256.
    """
    is_power = all(size in (16, 32, 64, 128, 256) for size in (model.d_k, model.d_v))
    return device.type == "cuda" and model.attention_dropout == 0 and is_power


def with_blocks(visibility: Visibility) -> Visibility:
    """Adds a block mask that lets FlexAttention skip fully masked blocks of 128 x 128 scores.

    When sentences are packed, a sentence of up to 128 tokens usually lies within one block of 128
    columns. If a row has 256 columns, as in the paper's configurations,
    FlexAttention therefore skips about half of the scores. With FlexAttention, padding queries
    attend to no key, and their outputs are 0. With the other attention kernels, padding queries
    attend to the keys of all segments.

    Args:
        visibility: the attention mask. Masks without segments, masks with ancestors, and masks in
            which the number of queries or keys is not a multiple of 128 are returned unchanged.
    """
    if visibility.segments is None or visibility.ancestors is not None:
        return visibility
    queries, keys = visibility.segments
    if queries.shape[1] % _BLOCK or keys.shape[1] % _BLOCK:
        return visibility

    def allowed(row: Tensor, _: Tensor, query: Tensor, key: Tensor) -> Tensor:
        rules = rules_of(visibility, lambda each: each[row, query], lambda each: each[row, key])
        return reduce(and_, rules, queries[row, query] != 0)

    rules = rules_of(visibility, lambda each: each[:, :, None], lambda each: each[:, None])
    mask = reduce(and_, rules, (queries != 0)[:, :, None])
    squares = mask.unflatten(2, (-1, _BLOCK)).unflatten(1, (-1, _BLOCK)).any(4).any(2)  # (R, q, k)
    order = squares.int().argsort(dim=-1, descending=True, stable=True)
    number = squares.sum(-1)
    blocks = BlockMask.from_kv_blocks(
        number[:, None].int(), order[:, None].int(), BLOCK_SIZE=_BLOCK, mask_mod=allowed,
        seq_lengths=(queries.shape[1], keys.shape[1]),
    )  # fmt: skip
    return replace(visibility, blocks=blocks)
