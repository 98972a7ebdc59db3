"""Layouts: nothing lost, labels one behind inputs, rows within their capacity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.layout import Batch, by_length, one_per_row, packed
from nmt.data.prepared import PreparedData
from nmt.data.shards import pairs_of
from nmt.model.special_ids import BOS_ID, EOS_ID


def random_pairs(number: int, longest: int = 20):
    rng = np.random.default_rng(number)

    def sentence():
        return np.append(rng.integers(4, 99, rng.integers(0, longest)), EOS_ID).astype(np.int32)

    return [(sentence(), sentence()) for _ in range(number)]


def pairs_in(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Reads a batch back, checking inputs, labels and positions on the way."""
    found = []
    for row in range(len(batch.tgt_out)):
        for segment in range(1, int(batch.src.segments[row].max()) + 1):
            src, tgt = (side.segments[row] == segment for side in (batch.src, batch.tgt_in))
            tgt_in = batch.tgt_in.tokens[row, tgt].tolist()
            tgt_out = batch.tgt_out[row, tgt].tolist()
            assert tgt_in == [BOS_ID, *tgt_out[:-1]]
            for side, own in ((batch.src, src), (batch.tgt_in, tgt)):
                assert side.positions[row, own].tolist() == list(range(int(own.sum())))
            found.append((tuple(batch.src.tokens[row, src].tolist()), tuple(tgt_out)))
    return found


@pytest.mark.parametrize("layout", [one_per_row, lambda pairs: packed(pairs, 40)])
@pytest.mark.parametrize("number", [1, 2, 50])
def test_every_pair_stands_in_the_tensors_once(layout, number: int):
    pairs = random_pairs(number)
    batch = layout(pairs)
    expected = [(tuple(source.tolist()), tuple(target.tolist())) for source, target in pairs]
    assert sorted(pairs_in(batch)) == sorted(expected)
    real = sum(len(target) for _, target in pairs)
    assert int((batch.tgt_out != 0).sum()) == real


def test_packed_rows_keep_to_their_capacity_and_are_full():
    pairs = random_pairs(400)
    batch = packed(pairs, 64)
    assert max(batch.src.tokens.shape[1], batch.tgt_out.shape[1]) <= 64
    assert (batch.tgt_out != 0).float().mean() > 0.85


def test_a_pair_longer_than_the_capacity_widens_the_rows():
    long = (np.full(70, 5, np.int32), np.full(90, 6, np.int32))
    batch = packed([*random_pairs(5), long], 64)
    assert batch.tgt_out.shape[1] == 90


def test_an_empty_slot_is_one_row_of_padding():
    batch = one_per_row([])
    assert batch.tgt_out.tolist() == [[0]]
    assert batch.src.segments.tolist() == [[0]]


def test_pairs_are_found_by_their_index_across_shards(settings):
    config = settings()
    shards = PreparedData.of(config).shards("train")
    halves = [
        type(shards[0])(s.path, s.source, s.target, 1.0, first)
        for s, first in ((shards[0], 0), (shards[0], len(shards[0])))
    ]
    size = len(shards[0])
    (a, _), (b, _) = pairs_of(halves, np.asarray([3, size + 3]))
    assert np.array_equal(a, b)
    assert np.array_equal(a, shards[0].source[3])


@given(
    lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=60),
    tokens=st.integers(1, 200),
)
def test_batches_of_like_length_hold_each_pair_once_and_not_too_much(lengths, tokens: int):
    pairs = [(np.ones(source, int), np.ones(target, int)) for source, target in lengths]
    batches = list(by_length(pairs, tokens))
    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    for batch in batches:
        longest = max(max(lengths[index]) for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= tokens
