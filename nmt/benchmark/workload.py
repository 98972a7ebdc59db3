"""Creates random sentences of token ids for benchmarks, with realistic sentence lengths.

Sentence lengths include EOS. Source lengths follow a lognormal distribution with mean 25 and sigma
0.6, and are clipped to the range from 3 to 100 tokens. A target is exp(x) times as long as its
source, where x is sampled from a normal distribution with mean 0 and sigma 0.12. The probability of
a token id is approximately proportional to 1 / rank (Zipf's law), so that ids are repeated about as
often as in real text. The same seed produces the same workload on every machine.
"""

from pathlib import Path

import numpy as np

from nmt.data.shards import Shard, Side
from nmt.model.special_ids import EOS_ID, UNK_ID

MEAN_LENGTH, LEAST_LENGTH, MAX_LENGTH = 25, 3, 100
_SIGMA, _SIGMA_OF_RATIO = 0.6, 0.12
_SEED = 1


def lengths(pairs: int, longest: int = MAX_LENGTH, seed: int = _SEED) -> np.ndarray:
    """Returns random source and target lengths in tokens, an int64 array of shape (2, pairs)."""
    rng = np.random.Generator(np.random.Philox(seed))
    normal = rng.normal(size=(2, pairs))
    source = MEAN_LENGTH * np.exp(_SIGMA * normal[0] - _SIGMA**2 / 2)
    target = source * np.exp(_SIGMA_OF_RATIO * normal[1])
    longest = min(longest, MAX_LENGTH)
    least = min(LEAST_LENGTH, longest)
    return np.clip(np.rint([source, target]), least, longest).astype(np.int64)


def side(lengths: np.ndarray, vocabulary_size: int, seed: int = _SEED) -> Side:
    """Returns random sentences, which consist of ids above `UNK_ID` and end with EOS.

    `lengths` contains the length of each sentence in tokens, including EOS.
    """
    rng = np.random.Generator(np.random.Philox((_SEED, seed)))
    first = UNK_ID + 1
    ends = np.cumsum(lengths)
    ranks = np.exp(rng.random(int(ends[-1])) * np.log(vocabulary_size - first + 1))
    values = (ranks.astype(np.int32) + (first - 1)).astype(np.int32)
    values[ends - 1] = EOS_ID
    return Side(values, np.concatenate([[0], ends]).astype(np.int32))


def shard(lengths: np.ndarray, vocabulary_size: int) -> Shard:
    """Returns training data that consists of random sentence pairs.

    `lengths` contains the source and target lengths in tokens, (2, pairs).
    """
    source, target = (side(row, vocabulary_size, seed) for seed, row in enumerate(lengths))
    return Shard(Path("random workload"), source, target, weight=1.0, first=0)
