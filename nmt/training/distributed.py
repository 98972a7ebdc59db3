"""Manages a run's process groups, the communication between ranks, and stop requests.

torchrun sets the environment variables RANK, LOCAL_RANK and WORLD_SIZE. If these variables are not
set, the run has one process. Decisions such as when to stop depend only on values that are the same
on all ranks, so that all ranks make the same decisions. If several ranks raise the same error, only
the lowest of these ranks prints it.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, reduce
from operator import add
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from nmt import signals
from nmt.errors import InputError, Status, Stopped, count, is_out_of_memory, of_system
from nmt.model.devices import avoid_cudnn, is_gpu
from nmt.system import cpu_name
from nmt.training.peers import Peers, own_process

# Signals within this time count as one request: a scheduler may signal torchrun, which forwards the
# signal, and also every process directly.
_ONE_REQUEST_S = 2.0
# Process groups are never freed. When the last reference to a group is dropped, which would happen
# in DistributedDataParallel, gloo joins its threads while it holds the GIL. If one of these threads
# waits for the GIL to free a tensor, a finished rank hangs forever (torch 2.13).
_kept: list[dist.ProcessGroup | None] = []
_LOOK_AT_DEVICE_S = 0.0005
_RESOLVE_S = 30.0  # maximum time until the main machine's host name can be resolved


class StopRequest:
    """Records the first stop signal; a second signal ends the process immediately."""

    def __init__(self) -> None:
        self.signal_number = 0
        self._since = 0.0

    @contextmanager
    def listening(self) -> Iterator["StopRequest"]:
        """Handles stop signals during a `with` statement, then restores the previous handlers."""
        with signals.handled_by(self._handle):
            yield self

    def _handle(self, number: int, _: FrameType | None) -> None:
        if not self.signal_number:
            self.signal_number, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > _ONE_REQUEST_S:
            os._exit(130 if number == signal.SIGINT else 143)


@dataclass(frozen=True)
class Ranks:
    """The rank of this process, with methods for communicating with other ranks."""

    rank: int
    world_size: int
    device: torch.device
    peers: Peers | None = None  # None if there is only one rank
    gradient_group: dist.ProcessGroup | None = None  # for gradients; None for the default group

    @property
    def is_main(self) -> bool:
        """Returns whether this process writes the run's files and messages."""
        return self.rank == 0

    @cached_property
    def device_name(self) -> str:
        """Returns the GPU's name, or the CPU's name and the number of threads."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return f"{cpu_name()}, {count(torch.get_num_threads(), 'thread')}"

    def exchange(
        self, values: Sequence[float], requests: Sequence[float]
    ) -> tuple[list[float], list[float]]:
        """Reduces `values` and `requests` over all ranks in one collective operation.

        Returns:
            A list with the sum over all ranks of each number in `values`, and a list with the
            maximum over all ranks of each number in `requests`. Both lists are the same on all
            ranks.
        """
        columns = list(zip(*self._rows([*values, *requests]), strict=True))
        return list(map(_added, columns[: len(values)])), list(map(max, columns[len(values) :]))

    def sum(self, values: list[float]) -> list[float]:
        """Sums each value over all ranks in float64; every rank returns the same sums."""
        return list(map(_added, zip(*self._rows(values), strict=True)))

    def max(self, value: int) -> int:
        """Returns the maximum of `value` over all ranks; every rank returns the same maximum."""
        return int(max(row[0] for row in self._rows([value])))

    def _rows(self, values: list[float]) -> list[list[float]]:
        """Returns one list of `values` per rank, in rank order."""
        if self.world_size == 1:
            return [values]
        own = torch.tensor(values, dtype=torch.float64)
        rows = [torch.empty_like(own) for _ in range(self.world_size)]
        dist.all_gather(rows, own)
        return [row.tolist() for row in rows]

    def await_device(self, event: torch.cuda.Event) -> None:
        """Waits until a CUDA event has completed.

        If a rank is lost, the GPUs of the other ranks may hang in a collective operation, and a
        host thread that waits for its GPU cannot be interrupted. This method therefore polls the
        event, and checks between polls whether a rank was lost.

        Raises:
            DistError: another rank has exited, or the event did not complete before the timeout.
        """
        if not self.peers:
            event.synchronize()
            return
        deadline = time.monotonic() + self.peers.timeout_s
        while not event.query():
            if time.monotonic() > deadline or self.peers.is_one_ending():
                raise dist.DistError("The GPU is waiting for a lost rank.")
            time.sleep(_LOOK_AT_DEVICE_S)

    def guarded(self) -> AbstractContextManager[None]:
        """Returns a context manager that guards code that uses a GPU (see `Peers.guarded`)."""
        return self.peers.guarded() if self.peers and is_gpu(self.device) else nullcontext()

    def wait(self) -> None:
        """Waits until all ranks have called this method."""
        if self.world_size > 1:
            dist.barrier()

    def gather(self, value: Any) -> list[Any]:
        """Returns a list with the `value` of every rank, in rank order."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def refuse_different(self, value: object, name: str) -> None:
        """Raises InputError if `value` is not the same on all ranks.

        Ranks can have different values if, for example, their machines share no file system.

        Args:
            name: a description of the value for the error message.
        """
        if any(other != value for other in self.gather(value)):
            raise InputError(
                f"The ranks read different {name}. Use a file system that all machines share."
            )

    def wrap(self, module: nn.Module) -> nn.Module:
        """Wraps `module` in DistributedDataParallel if there are several ranks."""
        if self.world_size == 1:
            return module
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(
            module, device_ids=ids, process_group=self.gradient_group, gradient_as_bucket_view=True
        )


def _added(values: Sequence[float]) -> float:
    """Adds values from left to right, because `sum` rounds differently in some Python versions."""
    return reduce(add, values)


def world_size() -> int:
    """Returns the number of processes that torchrun has started, or 1 without torchrun.

    Raises:
        InputError: WORLD_SIZE is not a positive integer, RANK is not set although WORLD_SIZE is
            greater than 1, or RANK or LOCAL_RANK is not less than WORLD_SIZE.
    """
    size = _number("WORLD_SIZE", 1, least=1)
    if size > 1 and "RANK" not in os.environ:
        raise InputError(
            f"WORLD_SIZE is {size} in the environment, but RANK is not set. Start the processes "
            "with torchrun, or unset WORLD_SIZE."
        )
    for name in ("RANK", "LOCAL_RANK"):
        if (rank := _number(name, 0)) >= size:
            raise InputError(
                f"{name} is {rank} in the environment, but WORLD_SIZE is "
                f"{os.environ.get('WORLD_SIZE', 'not set')}. "
                f"Start the processes with torchrun, or unset {name}."
            )
    return size


def is_under_torchrun() -> bool:
    """Returns whether torchrun or a cluster scheduler started this process as a rank."""
    return "RANK" in os.environ


def _number(name: str, default: int, least: int = 0, most: int = 2**31 - 1) -> int:
    """Reads an integer from an environment variable that torchrun or a scheduler sets."""
    text = os.environ.get(name, str(default))
    is_number = text.isascii() and text.isdigit() and len(text) <= 10
    if not (is_number and least <= int(text) <= most):
        raise InputError(
            f"The environment variable {name} must be a whole number from {least} to {most:,}, not "
            f'"{text:.40}". Start the processes with torchrun, or unset {name}.'
        )
    return int(text)


@contextmanager
def process_group(timeout_s: int) -> Iterator[Ranks]:
    """Joins the process group of a run with several ranks during a `with` statement.

    After an error, the process groups are not destroyed, because destroying them can hang if a rank
    is lost. The caller must then end the process with `os._exit`, as `nmt.cli.main` does, because a
    normal exit of the Python interpreter can also hang.

    Args:
        timeout_s: the time in seconds after which a rank that does not respond is considered lost.

    Raises:
        LostRankError: another rank exited without a report, or it is unreachable.
        InputError: the body of the `with` statement raised an InputError, an OSError or an
            out-of-memory error on this rank, or the processes cannot reach each other.
        ReportedElsewhereError: another rank reports the error that ended the run.
    """
    has_gpu, size = torch.cuda.is_available(), world_size()
    device = _gpu() if has_gpu else torch.device("cpu")
    if size == 1:
        yield Ranks(0, 1, device)
        return
    peers, gradient_group = _join(timeout_s, has_gpu)
    ranks = Ranks(peers.rank, size, device, peers, gradient_group)
    try:
        peers.watch(ranks.gather(own_process()))
        try:
            yield ranks
            ranks.wait()  # a rank that leaves early would count as lost
        except Stopped:  # raised on all ranks
            dist.destroy_process_group()
            raise
        dist.destroy_process_group()
    except InputError as error:
        raise peers.agreed(error) from None
    except OSError as error:
        raise peers.agreed(of_system(error)) from error
    except Exception as error:
        if _is_lost_connection(error):
            raise peers.agreed(None) from error
        if is_out_of_memory(error):
            exhausted = InputError(
                "Out of memory on this machine. Raise training.micro_batches to divide each step "
                "into smaller micro-batches."
            )
            raise peers.agreed(exhausted) from None
        peers.report(Status.BUG, repr(error))  # so that the other ranks print nothing
        raise


def _join(timeout_s: int, has_gpu: bool) -> tuple[Peers, dist.ProcessGroup | None]:
    """Joins a gloo process group and, if there are GPUs, an NCCL process group for gradients."""
    timeout = timedelta(seconds=timeout_s)
    try:
        _await_master(timeout_s)
        # Ranks exchange values on the CPU, so that no step has to wait for a GPU.
        dist.init_process_group("gloo", timeout=timeout)
        # NCCL's timeout is longer, because NCCL then ends the process, and the host must report the
        # cause before that.
        gradient_group = dist.new_group(backend="nccl", timeout=2 * timeout) if has_gpu else None
        _kept.extend([dist.group.WORLD, gradient_group])
        server = dist.TCPStore(*_master(), is_master=False, timeout=timeout)
    # ValueError: WORLD_SIZE is set, but other variables are not
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(
            f"The {world_size()} processes cannot reach each other ({reason}). Check the address "
            "that was given to torchrun, and that torchrun was started on every machine."
        ) from None
    store = dist.PrefixStore(f"nmt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", server)
    return Peers(dist.get_rank(), world_size(), store, timeout_s), gradient_group


def _master() -> tuple[str, int]:
    """Reads the main process's address and port from MASTER_ADDR and MASTER_PORT."""
    return os.environ["MASTER_ADDR"], _number("MASTER_PORT", 0, most=65_535)


def _await_master(timeout_s: int) -> None:
    """Waits until the main process accepts connections.

    On the main process itself, this function waits only until the host name can be resolved. torch
    is not used for waiting, because it prints about forty lines of internal details if it cannot
    connect.

    Raises:
        OSError: no connection was accepted before the timeout, or the host name could not be
            resolved within 30 s.
    """
    is_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    is_host = os.environ.get("RANK") == "0" and not is_agents
    if not {"RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        return
    began, master = time.monotonic(), _master()
    while True:
        try:
            socket.getaddrinfo(*master)
            if not is_host:
                socket.create_connection(master, timeout=timeout_s).close()
                _refuse_mute(master, timeout_s)
            return
        except OSError as error:
            is_unknown = isinstance(error, socket.gaierror)
            if time.monotonic() - began > min(timeout_s, _RESOLVE_S if is_unknown else timeout_s):
                place = ":".join(map(str, master))
                raise OSError(f"{place}: {error.strerror or error}") from None
        time.sleep(0.2)


def _refuse_mute(master: tuple[str, int], timeout_s: int) -> None:
    """Raises OSError if the program at the main process's address does not answer.

    A program other than torch may be listening at the address. If that program does not answer,
    torch may wait forever without handling signals. Therefore a separate thread waits for the
    answer.
    """
    answered = threading.Event()

    def ask() -> None:
        with suppress(RuntimeError):  # torch reports the problem again when the ranks connect
            dist.TCPStore(*master, is_master=False, timeout=timedelta(seconds=timeout_s))
        answered.set()

    threading.Thread(target=ask, daemon=True).start()
    if not answered.wait(timeout_s):
        raise OSError("the program that listens there does not answer")


def _gpu() -> torch.device:
    local_rank, gpus = _number("LOCAL_RANK", 0), torch.cuda.device_count()
    if local_rank >= gpus:
        raise InputError(
            f"Local rank {local_rank} has no GPU, because this machine has only "
            f"{count(gpus, 'GPU')}. Start one process per GPU."
        )
    torch.cuda.set_device(local_rank)
    avoid_cudnn()
    # Otherwise weight gradients, which are sums over tokens, would be accumulated in bf16.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    return torch.device("cuda", local_rank)


def _is_lost_connection(error: Exception) -> bool:
    """Returns whether an error means that another rank is unreachable.

    gloo has no error class of its own, so its errors are recognized by their messages.
    """
    is_gloo = isinstance(error, RuntimeError) and "/gloo/" in str(error)
    return is_gloo or isinstance(error, dist.DistError)
