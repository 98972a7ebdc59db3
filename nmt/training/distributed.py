"""The processes of a run: joining and leaving, sums over ranks, and the request to stop.

torchrun sets RANK, LOCAL_RANK and WORLD_SIZE; without them there is one process. Every decision on
how a run continues follows from values that all ranks have. The error that ends a run is printed
once, by the lowest rank that raised it.
"""

import os
import platform
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nmt import signals
from nmt.errors import (
    InputError,
    LostRankError,
    Status,
    ToldElsewhereError,
    count,
    is_out_of_memory,
    of_system,
)
from nmt.model.attention import avoid_cudnn

# Within this time a second signal is the same request: torchrun passes a scheduler's signal on.
_ONE_REQUEST_S = 2.0
# Groups are never freed. DistributedDataParallel has the last reference to one; when Python drops
# it, gloo joins its threads while holding the interpreter's lock, for which one of them may be
# waiting to free a tensor: a rank that had finished hung for ever (torch 2.13).
_kept: list[dist.ProcessGroup | None] = []
_LAST_WORDS_S = 5.0  # time in which the other ranks report how their part of the run ended


@dataclass(frozen=True)
class Ranks:
    """This process among those of the run, and what they exchange."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Whether this process writes the run's files and messages."""
        return self.rank == 0

    @property
    def is_asynchronous(self) -> bool:
        """Whether the device computes by itself, as a GPU does, and the host does not wait."""
        return self.device.type == "cuda"

    @cached_property
    def device_name(self) -> str:
        """The GPU, or the CPU and the number of threads, for a person to read."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"{_cpu_name()}, {count(torch.get_num_threads(), 'thread')}"

    def sum(self, values: list[float]) -> list[float]:
        """Sums over ranks, in float64; every rank gets the same."""
        if self.world_size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def max(self, value: int) -> int:
        """The greatest of the ranks' values; every rank gets the same."""
        if self.world_size == 1:
            return value
        greatest = torch.tensor(value)
        dist.all_reduce(greatest, dist.ReduceOp.MAX)
        return int(greatest)

    def wait(self) -> None:
        """Waits until all ranks have called it."""
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
        """`module`; of several ranks, in DistributedDataParallel, which averages gradients."""
        if self.world_size == 1:
            return module
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(module, device_ids=ids, gradient_as_bucket_view=True)


def _cpu_name() -> str:
    with suppress(OSError):  # Linux alone has it
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "CPU"


def world_size() -> int:
    """The number of processes that torchrun has started; 1 without it."""
    return _number("WORLD_SIZE", 1, least=1)


def _number(name: str, default: int, least: int = 0) -> int:
    """A whole number that torchrun or a scheduler has set in the environment."""
    text = os.environ.get(name, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text) < 2**31):
        raise InputError(f'{name} is "{text}", environment, start with torchrun or unset it')
    return int(text)


@contextmanager
def process_group(timeout_s: int) -> Iterator[Ranks]:
    """Joins the ranks that torchrun has started, if any, and leaves them at the end.

    Args:
        timeout_s: how long a rank waits for another before it is taken for lost.

    Raises:
        LostRankError: a rank was lost.
        InputError: raised inside the block by this rank.
        ToldElsewhereError: another rank raises the error that ended the run.
    """
    has_gpu = torch.cuda.is_available()
    device = _gpu() if has_gpu else torch.device("cpu")
    if world_size() == 1:
        yield Ranks(0, 1, device)
        return
    timeout = timedelta(seconds=timeout_s)
    try:
        _await_master(timeout_s)
        # Ranks exchange values on the CPU, so that no step has to wait for a GPU.
        dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpu else "gloo", timeout=timeout)
        _kept.append(dist.group.WORLD)
        server = dist.TCPStore(*_master(), is_master=False, timeout=timeout)
    # ValueError: WORLD_SIZE is set, but other variables are not
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(
            f"{world_size()} processes cannot reach each other ({reason}), torchrun, check "
            "its addresses and that all nodes were started"
        ) from None
    store = dist.PrefixStore(f"nmt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", server)
    ranks = Ranks(dist.get_rank(), world_size(), device)
    try:
        try:
            yield ranks
            ranks.wait()  # a rank that leaves early would be taken for lost
        finally:
            dist.destroy_process_group()
    except InputError as error:
        raise _agreed(store, ranks, error) from None
    except OSError as error:
        raise _agreed(store, ranks, of_system(error)) from error
    except Exception as error:
        if _is_lost_connection(error):
            raise _agreed(store, ranks, None) from error
        if is_out_of_memory(error):
            told = InputError(
                "out of memory, this machine, raise training.micro_batches, so that slots are "
                "smaller"
            )
            raise _agreed(store, ranks, told) from None
        store.set(str(ranks.rank), f"{int(Status.BUG)}\n{error!r}")  # the others stay silent
        raise


def _master() -> tuple[str, int]:
    """Address and port where ranks meet; torch has reported before if they are not set."""
    return os.environ["MASTER_ADDR"], _number("MASTER_PORT", 0)


def _await_master(timeout_s: int) -> None:
    """Waits until the main process listens where ranks meet; OSError if it does not in time.

    torch would wait as well, but prints some forty lines of internals when it gives up.
    """
    is_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    is_host = os.environ.get("RANK") == "0" and not is_agents
    if is_host or not {"RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        return
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            socket.create_connection(_master(), timeout=timeout_s).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                place = ":".join(map(str, _master()))
                raise OSError(f"{place}: {error.strerror or error}") from None
        time.sleep(0.2)


def _gpu() -> torch.device:
    local_rank, count = _number("LOCAL_RANK", 0), torch.cuda.device_count()
    if local_rank >= count:
        raise InputError(
            f"rank {local_rank} has no GPU, {count} on this machine, start one process a GPU"
        )
    torch.cuda.set_device(local_rank)
    avoid_cudnn()
    # gradients of weights are sums over all tokens of a slot, in parts whose sums would be in bf16
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    return torch.device("cuda", local_rank)


def _is_lost_connection(error: Exception) -> bool:
    """Whether another rank is unreachable. gloo's errors have no class, but name its source."""
    is_gloo = isinstance(error, RuntimeError) and "/gloo/" in str(error)
    return is_gloo or isinstance(error, dist.DistError)


def _agreed(store: dist.Store, ranks: Ranks, error: InputError | None) -> InputError:
    """The error that this rank raises, given how the parts of the others have ended.

    A rank with an error of its own waits only for lower ranks, which may report the same, and then
    exits: its exit interrupts the others, which are waiting for it. A rank that has only lost the
    connection waits for the reports of all ranks; one without a report counts as lost.

    Args:
        store: where ranks report, apart from the group, which is broken.
        error: this rank's own; None if it only lost the connection to another.
    """
    own = "\n".join(error.problems) if error else ""
    status = error.status if error else Status.INPUT
    awaited = range(ranks.rank) if error else range(ranks.world_size)
    try:
        words = _last_words(store, ranks, f"{int(status)}\n{own}", awaited)
    except RuntimeError:  # the machine of the store is lost
        words = {}
    if error:
        is_said = own in [text for rank, (_, text) in words.items() if rank < ranks.rank]
        return ToldElsewhereError(status) if is_said else error
    causes = [status for status, text in words.values() if text]
    if causes or min(words, default=ranks.rank) != ranks.rank:
        return ToldElsewhereError(max(causes, default=Status.INPUT))
    lost = [rank for rank in range(ranks.world_size) if rank not in {*words, ranks.rank}]
    names = f"rank {', '.join(map(str, lost))}" if lost else "the connection between ranks"
    return LostRankError(
        f"lost {names} of {ranks.world_size} (killed, stopped or unreachable), this run, start it "
        "again: it resumes from its newest checkpoint"
    )


def _last_words(
    store: dist.Store, ranks: Ranks, own: str, awaited: range
) -> dict[int, tuple[Status, str]]:
    """Status and text of each rank that reports in time, this one included."""
    store.set(str(ranks.rank), own)
    deadline = time.monotonic() + _LAST_WORDS_S
    while time.monotonic() < deadline and not store.check([str(rank) for rank in awaited]):
        time.sleep(0.05)
    present = [rank for rank in range(ranks.world_size) if store.check([str(rank)])]
    parts = {rank: store.get(str(rank)).decode().split("\n", 1) for rank in present}
    return {rank: (Status(int(status)), text) for rank, (status, text) in parts.items()}


class StopRequest:
    """Records the first signal that asks to stop; a second one ends the process at once."""

    def __init__(self) -> None:
        self.signal_number = 0
        self._since = 0.0

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """Handles signals inside the block; restores the former handlers after it."""
        with signals.handled_by(self._handle):
            yield self

    def _handle(self, number: int, _: FrameType | None) -> None:
        if not self.signal_number:
            self.signal_number, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > _ONE_REQUEST_S:
            os._exit(130 if number == signal.SIGINT else 143)
