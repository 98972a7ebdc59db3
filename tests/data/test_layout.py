"""Layouts: no token is lost, labels are inputs shifted by one, and no row exceeds its capacity."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.layout import Batch, Shape, by_length, fixed_shape, one_per_row, pack, packed
from nmt.data.pair import Pair
from nmt.data.prepared_data import PreparedData
from nmt.data.shards import pairs_of
from nmt.model.special_ids import BOS_ID, EOS_ID


def random_pairs(number: int, longest: int = 20):
    rng = np.random.default_rng(number)

    def sentence():
        return np.append(rng.integers(4, 99, rng.integers(0, longest)), EOS_ID).astype(np.int32)

    return [Pair(sentence(), sentence()) for _ in range(number)]


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


def in_blocks(pairs, shape: Shape = Shape(columns=32, block=8, rows=10)) -> Batch:  # noqa: B008
    return pack(pairs, shape).to(torch.device("cpu"))


@pytest.mark.parametrize("layout", [one_per_row, lambda pairs: packed(pairs, 40), in_blocks])
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
    long = Pair(np.full(70, 5, np.int32), np.full(90, 6, np.int32))
    batch = packed([*random_pairs(5), long], 64)
    assert batch.tgt_out.shape[1] == 90


def test_an_empty_micro_batch_is_one_row_of_padding():
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
    pairs = [Pair(np.ones(source, int), np.ones(target, int)) for source, target in lengths]
    batches = list(by_length(pairs, tokens))
    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    for batch in batches:
        longest = max(max(lengths[index]) for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= tokens


def test_a_pair_that_fits_into_a_block_does_not_leave_it():
    pairs = random_pairs(200, longest=11)
    batch = in_blocks(pairs)
    for both in zip(batch.src.segments.tolist(), batch.tgt_in.segments.tolist(), strict=True):
        is_of_long_pairs = any(row.count(segment) > 8 for row in both for segment in row if segment)
        for row in both:
            blocks = [set(row[begin : begin + 8]) - {0} for begin in range(0, 32, 8)]
            assert is_of_long_pairs or not any(a & b for a, b in pairwise(blocks))
    assert (batch.tgt_out != 0).float().mean() > 0.6


@pytest.mark.parametrize("number", [0, 1, 30, 60, 90])
def test_rows_of_a_fixed_shape_grow_only_if_pairs_need_them(number: int):
    shape = Shape(columns=32, block=8, rows=10)
    batch = in_blocks(random_pairs(number), shape)
    needed = len(pack(random_pairs(number), Shape(32, 8)).to(torch.device("cpu")).tgt_out)
    assert batch.src.tokens.shape == batch.tgt_out.shape == (max(10, needed), 32)
    longer = [Pair(np.full(40, 5, np.int32), np.full(3, 6, np.int32))]
    assert in_blocks([*random_pairs(number), *longer], shape).tgt_out.shape[1] == 40


def test_a_fixed_shape_holds_the_micro_batches_of_a_step():
    """The base model's: 25,000 tokens in rows of 2 blocks of 128."""
    assert fixed_shape(25_000, 1, 256) == Shape(columns=256, block=128, rows=100)
    assert fixed_shape(25_000, 8, 100) == Shape(columns=128, block=128, rows=25)
    rng = np.random.default_rng(1)
    lengths = np.clip(rng.lognormal(3.1, 0.65, 2000), 1, 256).astype(int)
    lengths = lengths[np.cumsum(lengths) <= 25_000]
    pairs = [Pair(*[np.full(length, 5, np.int32)] * 2) for length in lengths]
    batch = pack(pairs, fixed_shape(25_000, 1, 256))
    assert batch.rows in (100, 104)


@pytest.mark.parametrize("layout", [one_per_row, lambda pairs: packed(pairs, 40), in_blocks])
def test_columns_stand_at_the_target_tokens_of_their_pair(layout):
    """Each column follows from the ids of the pair's target."""
    pairs = []
    for number, (source, target) in enumerate(random_pairs(30)):
        target = target * 100 + number  # each id occurs in one pair
        columns = {"number": number + 0.5, "ids": target / 2} if number % 3 else {}
        pairs.append(Pair(source, target, columns))
    batch = layout(pairs)
    real = batch.tgt_out != 0
    number, ids = batch.columns["number"], batch.columns["ids"]
    lacks = batch.tgt_out % 100 % 3 == 0
    assert number.dtype == torch.float32 and number.shape == batch.tgt_out.shape
    assert bool((number[~real] == 0).all() and (ids[~real] == 0).all())
    assert bool(number[real & lacks].isnan().all() and ids[real & lacks].isnan().all())
    has = real & ~lacks
    assert torch.equal(number[has], batch.tgt_out[has] % 100 + 0.5)
    assert torch.equal(ids[has], batch.tgt_out[has] / 2)
    half = batch.rows(slice(0, 1))
    assert len(half.tgt_out) == 1
    assert torch.equal(half.columns["ids"].nan_to_num(-1), ids[:1].nan_to_num(-1))
    assert layout(random_pairs(3)).columns == {}
