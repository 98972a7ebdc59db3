"""Loads the batches of training steps in a background thread while earlier steps are computed.

Prefetching does not change the batches of a step, because they depend only on the plan (see
`nmt.data.plan`).
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from nmt.data.layout import Batch, HostBatch, Shape, fixed_shape, pack
from nmt.data.plan import Plan, StepPlan
from nmt.data.shards import pairs_of
from nmt.errors import InputError
from nmt.training.begin import Run

# Tokens per side of a packed row. Longer rows have less padding, but attention takes more time,
# especially on a CPU: on Multi30k with d_model 128, training with rows of 48, 64 and 100 tokens
# processes 10.9, 9.9 and 9.0 thousand tokens/s.
CPU_ROW, GPU_ROW = 64, 256
_AHEAD = 2  # prefetched steps; 2 because planning a window or an epoch takes longer than a step

T = TypeVar("T")
LoadedStep = tuple[
    StepPlan, list[tuple[int, Batch]]
]  # the plan, and this rank's micro-batches with their numbers in the step


@contextmanager
def steps_of(run: Run, after: int, *, is_compiled: bool = False) -> Iterator[Iterator[LoadedStep]]:
    """Yields an iterator over the steps after step number `after`.

    The tensors of the steps are on this rank's device.

    Advancing the iterator may raise the same exceptions as `Plan.steps`.

    Args:
        is_compiled: whether layers are compiled, which requires micro-batches of a fixed shape (see
            `shape`).

    Raises:
        InputError: the number of micro-batches per step is not a multiple of the number of ranks.
    """
    left = run.config.training.max_steps - after
    with read_ahead(islice(_on_host(run, after, is_compiled), left), _AHEAD) as found:
        yield (
            (
                plan,
                [
                    (number, micro_batch.to(run.ranks.device))
                    for number, micro_batch in micro_batches
                ],
            )
            for plan, micro_batches in found
        )


@contextmanager
def read_ahead(items: Iterator[T], most: int) -> Iterator[Iterator[T]]:
    """Yields an iterator over `items`; a background thread computes up to `most` items ahead.

    If computing an item raises an exception, the exception is re-raised when the item is requested.
    At the end of the `with` statement, the background thread finishes its current item and exits.
    """
    end = object()
    with ThreadPoolExecutor(1, "loader") as thread:
        asked = deque(thread.submit(next, items, end) for _ in range(most))

        def taken() -> Iterator[T]:
            while (item := asked.popleft().result()) is not end:
                asked.append(thread.submit(next, items, end))
                yield item  # type: ignore[misc]

        try:
            yield taken()
        finally:
            for future in asked:
                future.cancel()


def shape(run: Run, micro_batches: int, is_compiled: bool) -> Shape:
    """Returns the shape of packed micro-batches, which is fixed if layers are compiled.

    Args:
        micro_batches: the number of micro-batches per step.
    """
    config = run.config
    if is_compiled:
        return fixed_shape(config.training.batch_tokens, micro_batches, config.data.max_length)
    row = CPU_ROW if run.ranks.device.type == "cpu" else GPU_ROW
    return Shape(row, row)


def _on_host(
    run: Run, after: int, is_compiled: bool
) -> Iterator[tuple[StepPlan, list[tuple[int, HostBatch]]]]:
    ranks, settings = run.ranks, run.config.training
    micro_batches = ranks.world_size if settings.micro_batches == "auto" else settings.micro_batches
    if micro_batches % ranks.world_size:
        raise InputError(
            f"training.micro_batches is {micro_batches}, which {ranks.world_size} processes cannot "
            f"share evenly. Set it to a multiple of {ranks.world_size}."
        )
    share = micro_batches // ranks.world_size
    own = range(ranks.rank * share, (ranks.rank + 1) * share)
    into, is_pinned = shape(run, micro_batches, is_compiled), ranks.device.type == "cuda"
    plan = Plan(run.training, settings.batch_tokens, micro_batches, settings.seed, run.verify)
    for step in plan.steps(after):
        parts = [step.micro_batches[number] for number in own]
        packed = [pack(pairs_of(run.training, part), into, is_pinned=is_pinned) for part in parts]
        yield step, list(zip(own, packed, strict=True))
