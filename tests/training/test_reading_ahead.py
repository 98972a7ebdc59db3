"""Reading ahead yields the same steps, raises errors at their step, and leaves no thread."""

import threading
from collections.abc import Iterator
from itertools import count

import pytest
import torch

from nmt.errors import DivergedError, InputError
from nmt.training import loading
from nmt.training import loop as training
from nmt.training.loading import read_ahead
from tests.training.runs import run


def numbers(last: int, seen: list[tuple[int, str]]) -> Iterator[int]:
    for number in range(last):
        seen.append((number, threading.current_thread().name))
        yield number
    raise InputError("no more")


def test_items_come_in_order_from_a_thread_and_an_error_in_its_place():
    seen: list[tuple[int, str]] = []
    taken = []
    with pytest.raises(InputError, match="no more"), read_ahead(numbers(5, seen), 2) as items:
        for item in items:
            taken.append(item)
    assert taken == list(range(5))
    assert [number for number, _ in seen] == taken
    assert all(name.startswith("loader") for _, name in seen)


def test_no_more_is_computed_than_was_asked_for():
    """At most two items are computed ahead, however long the current step takes."""
    seen: list[tuple[int, str]] = []
    enough = threading.Event()

    def slow() -> Iterator[int]:
        for number in numbers(100, seen):
            if number == 3:
                enough.set()
            yield number

    with read_ahead(slow(), 2) as items:
        assert [next(items), next(items)] == [0, 1]
        assert enough.wait(60)  # item 3 is computed ahead
    assert len(seen) == 4


def test_the_thread_ends_with_the_block():
    with read_ahead(iter(range(3)), 2) as items:
        assert list(items) == [0, 1, 2]
    with read_ahead(count(), 2) as items:
        assert next(items) == 0
    with pytest.raises(KeyError), read_ahead(count(), 2):
        raise KeyError
    assert not [each for each in threading.enumerate() if "loader" in each.name]


def test_a_run_packs_in_the_thread_and_leaves_none(settings, monkeypatch):
    """A micro-batch is packed into one int32 tensor, which is page-locked only for a GPU."""
    pack, names = loading.pack, []

    def packing(*arguments, **options):
        names.append(threading.current_thread().name)
        assert options == {"is_pinned": False}
        batch = pack(*arguments, **options)
        assert batch.flat.dtype == torch.int32
        return batch

    monkeypatch.setattr(loading, "pack", packing)
    before = set(threading.enumerate())
    run(settings(training__max_steps=3, training__validate_every=9))
    assert len(names) == 3  # one per step, none after the last
    assert all(name.startswith("loader") for name in names)

    def diverging(*_):
        raise DivergedError("diverged")

    monkeypatch.setattr(training, "optimizer_step", diverging)
    with pytest.raises(DivergedError):
        run(settings(training__max_steps=9, training__validate_every=9))
    assert set(threading.enumerate()) == before
