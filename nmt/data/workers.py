"""Calls spread over several processes, each doing one at a time; they share nothing but files.

The processes are spawned, since forking a process with threads, as Arrow and torch start them, can
hang. All of them are ended when a call fails, when one is killed or when a signal stops this
process; if this process is killed, they end by themselves. So a call may end anywhere and be made
again: it writes aside and renames.
"""

import contextlib
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from typing import Any, NoReturn

from nmt import signals
from nmt.errors import InputError
from nmt.processes import cores, end_with_parent, start_deaf

# One process reads for all others, some eight times as fast as each of them cleans. The bound is
# memory: 110 to 200 MB each, more for longer sentences; together they stay below 1.5 GB.
_DEFAULT_MOST = 6


def default_processes() -> int:
    """The CPU cores that this process may use, up to six."""
    return min(cores(), _DEFAULT_MOST)


def run(function: Callable[..., None], tasks: Iterable[tuple[Any, ...]], processes: int) -> None:
    """Calls `function(*task)` for each task, in no particular order.

    Tasks are drawn one by one as processes become free, so that at most two wait here. A single
    task, or all tasks if `processes` is 1, are done in this process.

    Args:
        function: of a module, so that other processes can import it.
        tasks: its arguments; they are pickled.
        processes: at most so many at once.

    Raises:
        InputError: a process was killed (status 2).
        Exception: whatever `function` raised first.
    """
    if processes == 1:
        for task in tasks:
            function(*task)
        return
    held: tuple[Any, ...] | None = None
    with contextlib.ExitStack() as stack:
        team: list[_Worker] = []
        for task in tasks:
            if held is not None:
                _free(team, processes, stack).give(function, held)
            held = task
        if team and held is not None:
            _free(team, processes, stack).give(function, held)
        elif held is not None:
            function(*held)
        for _ in team:  # whichever ends next, so that a killed one is noticed at once
            _free(team, len(team), stack)


def run_apart(function: Callable[..., None], *arguments: Any) -> None:
    """Calls a function in a process of its own: its memory is freed, and a signal ends it.

    Raises: as `run` does.
    """
    with contextlib.ExitStack() as stack:
        worker = _free([], 1, stack)
        worker.give(function, arguments)
        worker.finish()


@contextlib.contextmanager
def _no_stop() -> Iterator[None]:
    """Holds back signals until the block has ended.

    A mask would not do: it is the main thread's alone, and another thread would get the signal.
    """
    came: list[int] = []
    with signals.handled_by(lambda number, _: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


class _Worker:
    """A process and the connection to it: calls go out, None or an exception comes back."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, self._theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._theirs,), daemon=True)

    def start(self) -> None:
        """Starts the process, with signals blocked."""
        with _no_stop():  # interrupted while it starts, the process would print a traceback
            start_deaf(self._process)
        self._theirs.close()  # so that reading ends when the process does

    def give(self, function: Callable[..., None], task: tuple[Any, ...]) -> None:
        """Begins a call; `finish` must be called before the next one."""
        try:
            self.connection.send((function, task))
        except (BrokenPipeError, ConnectionResetError):
            self._lost()

    def finish(self) -> None:
        """Waits until the call has ended; raises what it raised."""
        try:
            error = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._lost()
        if error is not None:
            raise error

    def _lost(self) -> NoReturn:
        self._process.join()
        status = self._process.exitcode or 0
        if status >= 0:
            raise RuntimeError(f"a worker process ended with exit status {status}")
        raise InputError(
            f"a worker process was ended from outside ({signal.strsignal(-status)}), process "
            f"{self._process.pid}, start again; if memory was short, with fewer processes"
        )

    def end(self) -> None:
        """Ends the process at once."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self.connection.close()


def _free(team: list[_Worker], processes: int, stack: contextlib.ExitStack) -> _Worker:
    """A worker with nothing to do: a new one, while there may be more, or the first to finish."""
    if len(team) < processes:
        worker = _Worker()
        stack.callback(worker.end)  # before its start, which a signal may interrupt
        worker.start()
        team.append(worker)
        return worker
    ready = connection.wait([worker.connection for worker in team])
    worker = next(worker for worker in team if worker.connection in ready)
    worker.finish()
    return worker


def _serve(calls: connection.Connection) -> None:
    """The loop of a worker process: one call after the other, until it is ended."""
    end_with_parent()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the parent has gone
        while True:
            calls.send(_outcome(calls))


def _outcome(calls: connection.Connection) -> Exception | None:
    try:
        function, task = calls.recv()
        function(*task)
    except Exception as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return error
    return None
