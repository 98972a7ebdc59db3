"""Processes: who this one is, what all agree on, and how a run is asked to stop.

torchrun sets RANK, LOCAL_RANK and WORLD_SIZE; without them there is one process. Decisions that
change what a run does next are taken by all ranks together, from sums that all of them hold.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nmt.errors import InputError

# torchrun passes on the signal that a scheduler has sent to every process already
_ONE_REQUEST_S = 2.0


@dataclass(frozen=True)
class Ranks:
    """This process among all."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """Sums over ranks, in float64; every rank gets the same."""
        if self.world_size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def max(self, value: int) -> int:
        """The greatest of the ranks' values; every rank gets the same."""
        if self.world_size == 1:
            return value
        greatest = torch.tensor(value, device=self.device)
        dist.all_reduce(greatest, dist.ReduceOp.MAX)
        return int(greatest)

    def wait(self) -> None:
        """Until all ranks are here."""
        if self.world_size > 1:
            dist.barrier()

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in the order of ranks."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def wrap(self, module: nn.Module) -> nn.Module:
        """`module` under DistributedDataParallel where there is more than one rank.

        Gradients are summed over ranks, not averaged: losses are divided by the tokens of the
        whole step already.
        """
        if self.world_size == 1:
            return module
        ids = [self.device.index] if self.device.type == "cuda" else None
        wrapped = DistributedDataParallel(
            module, device_ids=ids, gradient_as_bucket_view=True, broadcast_buffers=False
        )
        wrapped.register_comm_hook(None, _sum_gradients)
        return wrapped


def _sum_gradients(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


@contextmanager
def process_group(timeout_s: int) -> Iterator[Ranks]:
    """Joins the ranks of torchrun, if any, and leaves them cleanly."""
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", local_rank) if has_gpu else torch.device("cpu")
    if has_gpu:
        if local_rank >= torch.cuda.device_count():
            raise InputError(
                f"rank {local_rank} has no GPU, {torch.cuda.device_count()} on this machine, "
                "start one process a GPU"
            )
        torch.cuda.set_device(device)
    if world_size == 1:
        yield Ranks(0, 1, device)
        return
    backend = "nccl" if has_gpu else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    try:
        ranks = Ranks(dist.get_rank(), world_size, device)
        yield ranks
        ranks.wait()  # a rank that leaves early would be taken for lost
    finally:
        dist.destroy_process_group()


class StopRequest:
    """Remembers the first SIGINT, SIGTERM or SIGUSR1; a second one ends the process at once."""

    def __init__(self) -> None:
        self.signal_number = 0
        self._since = 0.0

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """Listens inside the block; restores the former handlers after it."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
        former = {number: signal.signal(number, self._handle) for number in numbers}
        try:
            yield self
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if not self.signal_number:
            self.signal_number, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > _ONE_REQUEST_S:
            os._exit(130 if number == signal.SIGINT else 143)
