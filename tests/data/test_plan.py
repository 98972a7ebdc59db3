"""The plan of batches has every pair once per epoch and depends only on the seed and the step."""

from collections import Counter
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nmt.data import plan as plan_module
from nmt.data.plan import Plan, epoch_size
from nmt.data.shards import Shard, Side
from nmt.errors import InputError


def make_shards(sizes: list[int], weights: list[float] | None = None, longest: int = 30):
    rng = np.random.default_rng(len(sizes))
    shards, first = [], 0
    for number, size in enumerate(sizes):
        sides = []
        for _ in range(2):
            offsets = np.concatenate([[0], np.cumsum(rng.integers(1, longest + 1, size))])
            sides.append(Side(np.zeros(offsets[-1], np.int32), offsets.astype(np.int32)))
        weight = weights[number] if weights else 1.0
        shards.append(Shard(Path(str(number)), sides[0], sides[1], weight, first))
        first += size
    return shards


def lengths(shards: list[Shard]) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.concatenate([shard.source.lengths for shard in shards]),
        np.concatenate([shard.target.lengths for shard in shards]),
    )


def epoch(plan: Plan, number: int) -> list:
    steps = (step for step in plan.steps() if step.epoch >= number)
    return list(takewhile(lambda step: step.epoch == number, steps))


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=5),
    batch_tokens=st.integers(30, 600),
    micro_batches=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_r9_an_epoch_has_every_pair_once_within_the_bounds(
    sizes, batch_tokens, micro_batches, seed
):
    shards = make_shards(sizes)
    source, target = lengths(shards)
    for number in (1, 2):
        steps = epoch(Plan(shards, batch_tokens, micro_batches, seed), number)
        pairs = np.concatenate(
            [micro_batch for step in steps for micro_batch in step.micro_batches]
        )
        assert sorted(pairs) == list(range(sum(sizes)))
        for step in steps:
            assert len(step.micro_batches) == micro_batches
            own = np.concatenate(step.micro_batches)
            assert step.source_tokens == source[own].sum() <= batch_tokens
            assert step.target_tokens == target[own].sum() <= batch_tokens


def test_windows_cover_an_epoch_too(monkeypatch):
    monkeypatch.setattr(plan_module, "WINDOW_PAIRS", 250)
    shards = make_shards([100] * 7)
    used: list[str] = []
    plan = Plan(shards, 200, 1, 1, before_use=lambda shard: used.append(shard.path.name))
    steps = epoch(plan, 1)
    assert sorted(np.concatenate([step.micro_batches[0] for step in steps])) == list(range(700))
    assert sorted(used[:7]) == [str(number) for number in range(7)]  # then comes epoch 2
    fresh: list[str] = []
    next(Plan(shards, 200, 1, 1, before_use=lambda shard: fresh.append(shard.path.name)).steps())
    assert fresh == used[:3]  # only the first window's shards are touched before the first step
    heavy: list[str] = []
    weighted = make_shards([100] * 7, weights=[2.0] * 7)
    next(Plan(weighted, 200, 1, 1, before_use=lambda shard: heavy.append(shard.path.name)).steps())
    assert len(set(heavy)) == 2  # a window is as long as it takes to go through it


def test_shards_come_in_another_order_in_each_epoch(monkeypatch):
    """Otherwise windows would always have the same pairs."""
    monkeypatch.setattr(plan_module, "WINDOW_PAIRS", 100)
    used: list[str] = []
    plan = Plan(make_shards([100] * 7), 200, 1, 1, lambda shard: used.append(shard.path.name))
    epoch(plan, 3)
    orders = [used[begin : begin + 7] for begin in (0, 7, 14)]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert len(set(map(tuple, orders))) == 3


def test_windows_of_a_million_pairs():
    """At their real size, 1.1 million pairs: two windows, every pair once, sums beyond 16 bits."""
    shards = make_shards([100_000] * 11, longest=3)
    used: list[str] = []
    plan = Plan(shards, 100_000, 2, 1, before_use=lambda shard: used.append(shard.path.name))
    steps = plan.steps()
    first = next(steps)
    assert len(set(used)) == 10
    seen = np.concatenate([*first.micro_batches, *(micro_batch for step in takewhile(
        lambda step: step.epoch == 1, steps) for micro_batch in step.micro_batches)])  # fmt: skip
    assert np.array_equal(np.sort(seen), np.arange(1_100_000))


def test_weights_say_how_often_a_pair_is_seen():
    shards = make_shards([60, 40, 50], weights=[1.0, 2.0, 0.5])
    plan = Plan(shards, 200, 1, 1)
    for number in (1, 2):
        counts = Counter(
            np.concatenate([step.micro_batches[0] for step in epoch(plan, number)]).tolist()
        )
        assert all(counts[pair] == 1 for pair in range(60))
        assert all(counts[pair] == 2 for pair in range(60, 100))
        assert sum(counts[pair] for pair in range(100, 150)) == 25
    both = Counter(
        np.concatenate([s.micro_batches[0] for n in (1, 2) for s in epoch(plan, n)]).tolist()
    )
    assert all(both[pair] == 1 for pair in range(100, 150))  # half an epoch each, none twice
    tokens, number_of_steps = epoch_size(shards, 200)
    steps = [step for n in (1, 2) for step in epoch(plan, n)]
    assert 2 * tokens == pytest.approx(sum(step.target_tokens for step in steps), abs=1)
    assert 2 * number_of_steps == pytest.approx(len(steps), rel=0.15)


def test_resuming_anywhere_gives_the_same_steps():
    shards = make_shards([200, 150])
    straight = list(islice(Plan(shards, 300, 2, 1).steps(), 60))
    for after in (0, 1, 13, 14, 15, 37, 59):
        resumed = next(Plan(shards, 300, 2, 1).steps(after))
        assert (resumed.step, resumed.epoch) == (after + 1, straight[after].epoch)
        for a, b in zip(resumed.micro_batches, straight[after].micro_batches, strict=True):
            assert np.array_equal(a, b)


def test_r9_the_global_batch_does_not_depend_on_how_it_is_cut():
    shards = make_shards([300])
    plans = [
        list(islice(Plan(shards, 400, micro_batches, 1).steps(), 20)) for micro_batches in (1, 2, 4)
    ]
    for steps in zip(*plans, strict=True):
        whole = [np.concatenate(step.micro_batches) for step in steps]
        assert all(np.array_equal(whole[0], other) for other in whole[1:])


def test_steps_are_full_and_their_micro_batches_of_nearly_equal_size():
    shards = make_shards([5000])
    source, target = lengths(shards)
    steps = epoch(Plan(shards, 2000, 4, 1), 1)
    full = [step for step in steps if step.target_tokens > 1800 or step.source_tokens > 1800]
    assert len(full) > 0.95 * len(steps)
    for step in full:
        sizes = [
            int((source[micro_batch] + target[micro_batch]).sum())
            for micro_batch in step.micro_batches
        ]
        assert max(sizes) - min(sizes) <= 2 * 60


def test_seeds_and_epochs_differ():
    shards = make_shards([300])
    orders = {
        tuple(
            np.concatenate([s.micro_batches[0] for s in epoch(Plan(shards, 300, 1, seed), number)])
        )
        for seed in (1, 2)
        for number in (1, 2)
    }
    assert len(orders) == 4


def test_a_pair_beyond_the_bound_is_refused():
    with pytest.raises(InputError, match=r"more tokens than training.batch_tokens \(40"):
        next(Plan(make_shards([50], longest=80), 40, 1, 1).steps())
