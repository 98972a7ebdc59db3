"""Monitors whether the other ranks of a run are still running, and why they exit.

A rank that exits because of an error reports the error in a separate key-value store, because the
process group fails when a rank is lost.
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

_LAST_WORDS_S = 5.0  # maximum time to wait for the other ranks' reports
_LOOK_AT_STORE_S = 1.0
_LEAVING_S = 15.0  # time for a rank to exit by itself; torchrun allows 30 s after the first exit
_ENDING = "ending"  # key that every report sets in the store, in addition to the rank's own key

Process = tuple[str, str, int]  # machine, PID namespace, PID


def own_process() -> Process | None:
    """Returns this process's identity, or None if the operating system does not provide it."""
    found = machine_and_namespace()
    return (*found, os.getpid()) if found else None


class Peers:
    """Monitors all other ranks of a run on behalf of this process's rank.

    Args:
        store: the key-value store in which ranks report why they exit.
        timeout_s: the time in seconds after which a rank that does not respond is considered lost.
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
            processes: the identities of the processes of all ranks, in rank order. All processes
                must be running.
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
        """Returns the ranks on this machine whose processes have exited."""
        with self._one_at_a_time:
            return {self._processes[descriptor] for descriptor, _ in self._poll.poll(0)}

    def is_one_ending(self) -> bool:
        """Returns whether a rank has exited or has reported that it will exit.

        The reports in the key-value store are checked at most once per second.
        """
        if self.gone():
            return True
        if time.monotonic() - self._looked < _LOOK_AT_STORE_S:
            return False
        self._looked = time.monotonic()
        return self._store.check([_ENDING])

    def report(self, status: Status, text: str) -> None:
        """Reports to the other ranks why this rank exits.

        An empty `text` means that this rank lost the connection to another rank.
        """
        self._store.set(str(self.rank), f"{int(status)}\n{text}")
        self._store.set(_ENDING, "")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Ends the process if a rank is lost and the body of the `with` statement therefore hangs.

        A GPU's queue holds about a thousand kernel launches. If the queue is full, the next launch
        blocks the host. If the GPU is also waiting for a lost rank, the blocked launch never
        returns. If the body raises an exception, the guard stays active, because cleaning up after
        the exception may also hang.
        """
        if not self._guard:
            self._guard = threading.Thread(target=self._end_if_held, name="guard", daemon=True)
            self._guard.start()
        self._guarded_since = time.monotonic()
        yield
        self._guarded_since = math.inf

    def _end_if_held(self) -> None:
        """Ends the process if guarded code runs too long; checks this once per second."""
        lost_since = math.inf
        while True:
            time.sleep(1.0)
            now, since = time.monotonic(), self._guarded_since
            lost_since = min(lost_since, now) if self.gone() else math.inf
            limit = min(since + self.timeout_s, max(since, lost_since)) + _LEAVING_S
            if now > limit:
                with self._ending:
                    if math.isinf(self._guarded_since):  # the main thread has left guarded code
                        continue
                    error = self.agreed(None)
                    if not isinstance(error, ReportedElsewhereError):
                        print(f"nmt: error: {error}", file=sys.stderr, flush=True)
                    os._exit(error.status)

    def agreed(self, error: InputError | None) -> InputError:
        """Returns the error that this rank should raise, given the reports of the other ranks.

        If this rank has an error of its own, it waits only for the reports of lower ranks: if
        several ranks have the same error, only the lowest of them reports it. Ranks that are
        waiting for this rank lose their connection when it exits. If this rank has lost a
        connection but has no error of its own, it waits for the reports of all ranks that may still
        be running. Ranks that do not report are considered lost.

        Args:
            error: the error of this rank, or None if this rank has merely lost a connection.
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
        """Returns the exit status and the text of each report that arrives within 5 s, by rank."""
        deadline = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < deadline:
            if self._store.check([str(rank) for rank in awaited - self.gone()]):
                break
            time.sleep(0.05)
        # Ranks that have exited may have reported before.
        present = [rank for rank in range(self._world_size) if self._store.check([str(rank)])]
        parts = {rank: self._store.get(str(rank)).decode().split("\n", 1) for rank in present}
        return {rank: (Status(int(status)), text) for rank, (status, text) in parts.items()}
