"""Computes the loss weights, by which the losses of the target tokens are multiplied.

For each pair, `pair_weights` must return the sum of the weights that `token_weights` returns for
its target tokens, because the loss of a step is divided by the sum of all weights in the step.
"""

import numpy as np
from torch import Tensor

from nmt.data.layout import Batch
from nmt.data.shards import Shard, Side

LOSS_WEIGHT = "loss_weight"  # a column with the loss weight of each pair or of each target token


def token_weights(batch: Batch) -> Tensor | None:
    """Returns the loss weight of each `tgt_out` token, (R, T) fp32, or None if all are 1."""
    weights = batch.columns.get(LOSS_WEIGHT)
    return None if weights is None else weights.nan_to_num(1.0)  # NaN: the pair has no weight


def pair_weights(shard: Shard) -> np.ndarray:
    """Returns the sum of the loss weights of each pair's target tokens: (pairs,)."""
    weights, lengths = shard.columns.get(LOSS_WEIGHT), shard.target.lengths
    if isinstance(weights, Side):
        return np.add.reduceat(weights.values, weights.offsets[:-1], dtype=np.float64)
    return lengths if weights is None else weights * lengths
