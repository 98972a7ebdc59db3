"""The random workload has the stated lengths and ids, and is the same on every machine."""

import numpy as np
import pytest

from nmt.benchmark import workload
from nmt.model.special_ids import EOS_ID, UNK_ID


def test_lengths_are_those_of_text():
    source, target = workload.lengths(100_000)
    for side in (source, target):
        assert side.mean() == pytest.approx(25, rel=0.02)
        assert (side.min(), side.max()) == (3, 100)
    assert np.corrcoef(source, target)[0, 1] > 0.95
    assert np.std(np.log(source)) == pytest.approx(0.6, rel=0.05)


def test_no_sentence_is_longer_than_the_model_takes():
    assert workload.lengths(1000, longest=12).max() == 12
    assert workload.lengths(10, longest=2).max() == 2


def test_the_seed_decides():
    assert (workload.lengths(50) == workload.lengths(50)).all()
    assert (workload.lengths(50) != workload.lengths(50, seed=2)).any()
    # must never change, because figures are compared between versions
    assert workload.lengths(4)[0].tolist() == [29, 12, 21, 16]


def test_ids_follow_zipfs_law_and_end_each_sentence():
    lengths = workload.lengths(5000)
    shard = workload.shard(lengths, vocabulary_size=1000)
    assert len(shard) == 5000
    for side, expected in zip((shard.source, shard.target), lengths, strict=True):
        assert (side.lengths == expected).all()
        assert (side.values == EOS_ID).sum() == 5000
        assert all(side[i][-1] == EOS_ID for i in range(100))
        ids = side.values[side.values != EOS_ID]
        assert (ids.min(), ids.max()) == (UNK_ID + 1, 999)
        for rank in (1, 10):
            share = (ids == UNK_ID + rank).mean()
            assert share == pytest.approx(np.log((rank + 1) / rank) / np.log(997), rel=0.1)
    assert shard.source.values[:50].tolist() != shard.target.values[:50].tolist()
