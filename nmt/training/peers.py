"""Monitors the other ranks of a run: whether they are still running, and how they ended.

The ranks communicate through a separate key-value store, because the process group fails when a
rank is lost.
"""

import math
import os
import select
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch.distributed as dist

from nmt.errors import InputError, LostRankError, ReportedElsewhereError, Status
from nmt.system import machine_and_namespace, process_descriptor

_LAST_WORDS_S = 5.0  # maximum wait for the other ranks' reports of how they ended
_LOOK_AT_STORE_S = 1.0
_LEAVING_S = 15.0  # time for a rank to end by itself; torchrun allows 30 s after the first end
_ENDING = "ending"  # key that every report sets in the store, in addition to the rank's own key

Process = tuple[str, str, int]  # machine, PID namespace, PID


def own_process() -> Process | None:
    """Returns the identity of this process; None if the operating system does not provide it."""
    found = machine_and_namespace()
    return (*found, os.getpid()) if found else None


class Peers:
    """Monitors the other ranks on behalf of one rank.

    Args:
        store: key-value store for the ranks' reports of how they ended.
        timeout_s: time in seconds after which a rank that does not answer counts as lost.
    """

    def __init__(self, rank: int, world_size: int, store: dist.Store, timeout_s: float):
        self.rank, self.timeout_s = rank, timeout_s
        self._world_size, self._store, self._looked = world_size, store, time.monotonic()
        self._poll, self._processes = select.poll(), dict[int, int]()
        self._one_at_a_time = threading.Lock()  # because two threads poll
        self._guard: threading.Thread | None = None
        self._ending = threading.RLock()  # held by the thread that ends this rank
        self._guarded_since = math.inf

    def watch(self, processes: Sequence[Process | None]) -> None:
        """Starts monitoring the other ranks on this machine.

        Args:
            processes: the processes of all ranks, in rank order; all of them must be running.
        """
        own = processes[self.rank]
        for rank, process in enumerate(processes):
            if process and own and process[:2] == own[:2] and rank != self.rank:
                descriptor = process_descriptor(process[2])
                if descriptor is None:
                    return
                self._processes[descriptor] = rank
                self._poll.register(descriptor, select.POLLIN)

    def gone(self) -> set[int]:
        """Returns the ranks on this machine whose processes have ended."""
        with self._one_at_a_time:
            return {self._processes[descriptor] for descriptor, _ in self._poll.poll(0)}

    def is_one_ending(self) -> bool:
        """Returns whether a rank has ended or reported its end; reports are noticed within 1 s."""
        if self.gone():
            return True
        if time.monotonic() - self._looked < _LOOK_AT_STORE_S:
            return False
        self._looked = time.monotonic()
        return self._store.check([_ENDING])

    def report(self, status: Status, text: str) -> None:
        """Tells the other ranks how this rank ends; an empty `text` means a lost connection."""
        self._store.set(str(self.rank), f"{int(status)}\n{text}")
        self._store.set(_ENDING, "")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Ends the process if a rank is lost and the main thread cannot leave the block.

        A GPU's queue holds about a thousand kernel launches; when the queue is full, the next
        launch blocks the host. If the GPU is waiting for a lost rank, this launch never returns.
        After an exception, the guard stays active, because the cleanup may block in the same way.
        """
        if not self._guard:
            self._guard = threading.Thread(target=self._end_if_held, name="guard", daemon=True)
            self._guard.start()
        self._guarded_since = time.monotonic()
        yield
        self._guarded_since = math.inf

    def _end_if_held(self) -> None:
        """Checks every second whether the block has run too long; if so, ends the process."""
        lost_since = math.inf
        while True:
            time.sleep(1.0)
            now, since = time.monotonic(), self._guarded_since
            lost_since = min(lost_since, now) if self.gone() else math.inf
            limit = min(since + self.timeout_s, max(since, lost_since)) + _LEAVING_S
            if now > limit:
                with self._ending:
                    if math.isinf(self._guarded_since):  # the main thread has left the block
                        continue
                    error = self.agreed(None)
                    if not isinstance(error, ReportedElsewhereError):
                        print(f"nmt: error: {error}", file=sys.stderr, flush=True)
                    os._exit(error.status)

    def agreed(self, error: InputError | None) -> InputError:
        """Returns the error that this rank should raise, given how the other ranks have ended.

        A rank with an error of its own waits only for the reports of lower ranks, which may have
        the same error. When the rank then exits, the ranks that wait for it lose their connection.
        A rank that only lost a connection waits for the reports of all ranks that may still be
        running. Ranks without a report count as lost.

        Args:
            error: this rank's own error; None if the rank only lost a connection.
        """
        with self._ending:
            self._guarded_since = math.inf
            return self._agreed(error)

    def _agreed(self, error: InputError | None) -> InputError:
        own = "\n".join(error.problems) if error else ""
        status = Status(error.status) if error else Status.INPUT
        awaited = set(range(self.rank if error else self._world_size))
        try:
            self.report(status, own)
            words = self._last_words(awaited)
        except RuntimeError:  # the machine that runs the store is lost
            words = {}
        if error:
            is_said = own in [text for rank, (_, text) in words.items() if rank < self.rank]
            return ReportedElsewhereError(status) if is_said else error
        causes = [status for status, text in words.values() if text]
        if causes or min(words, default=self.rank) != self.rank:
            return ReportedElsewhereError(max(causes, default=Status.INPUT))
        silent = set(range(self._world_size)) - {*words, self.rank}
        lost = sorted(
            silent & self.gone() or silent
        )  # the other silent ranks may be waiting for a rank that is gone
        *others, last = map(str, lost or [self.rank])
        names = f"ranks {', '.join(others)} and {last}" if others else f"rank {last}"
        problem = (
            f"The run has lost {names} of {self._world_size} (killed, stopped or unreachable)."
            if lost
            else "The connection between the ranks was lost."
        )
        return LostRankError(
            f"{problem} Start the run again: it resumes from its newest checkpoint."
        )

    def _last_words(self, awaited: set[int]) -> dict[int, tuple[Status, str]]:
        """Returns the status and text of each rank that reports within 5 s, including this rank."""
        deadline = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < deadline:
            if self._store.check([str(rank) for rank in awaited - self.gone()]):
                break
            time.sleep(0.05)
        # Ranks that are gone may have reported before they ended.
        present = [rank for rank in range(self._world_size) if self._store.check([str(rank)])]
        parts = {rank: self._store.get(str(rank)).decode().split("\n", 1) for rank in present}
        return {rank: (Status(int(status)), text) for rank, (status, text) in parts.items()}
