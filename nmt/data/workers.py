"""Calls functions in worker processes; the functions return None and write files.

Each worker runs one call at a time. Workers are spawned instead of forked, because Arrow and torch
start threads, and a process that is forked from a process with threads can hang. All workers are
killed if a call fails, if a worker is killed, or if a signal stops this process. If the parent
process is killed, the workers exit by themselves. Because a worker can be killed at any point,
functions must write to temporary files and rename these files, so that no incomplete file remains.
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
from nmt.processes import cores, end_with_parent, need_current_directory, start_deaf

# This maximum limits the memory: a worker needs 110 to 200 MB (more if sentences are longer), and
# six workers need less than 1.5 GB. The parent process reads the corpora about eight times as fast
# as one worker cleans them.
_DEFAULT_MAXIMUM = 6


def default_processes() -> int:
    """Returns the number of CPU cores that this process may use, at most six."""
    return min(cores(), _DEFAULT_MAXIMUM)


def run(function: Callable[..., None], tasks: Iterable[tuple[Any, ...]], processes: int) -> None:
    """Calls `function(*task)` for each task, in no particular order.

    A task is taken from `tasks` only when a worker process becomes free, so that at most two tasks
    wait in memory. If there is only one task or `processes` is 1, no worker process is started.

    Args:
        function: a function at the top level of a module, so that other processes can import it.
        tasks: tuples with the arguments of each call, which must be picklable.
        processes: maximum number of worker processes.

    Raises:
        InputError: a worker process was killed, or the current directory was removed (exit status
            2).
        Exception: the first exception that `function` raises.
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
        for _ in team:  # in the order in which they finish, to detect a killed worker at once
            _free(team, len(team), stack)


def run_apart(function: Callable[..., None], *arguments: Any) -> None:
    """Calls a function in a separate process, which frees its memory on exit and can be killed.

    Raises the same exceptions as `run`.
    """
    with contextlib.ExitStack() as stack:
        worker = _free([], 1, stack)
        worker.give(function, arguments)
        worker.finish()


@contextlib.contextmanager
def _no_stop() -> Iterator[None]:
    """Delays stop signals until the body of the `with` statement has finished.

    A signal mask would not suffice: it would apply only to the main thread, and another thread
    would receive the signal.
    """
    came: list[int] = []
    with signals.handled_by(lambda number, _: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


class _Worker:
    """A worker process and the connection over which it receives calls and returns their outcomes.

    For each call, the worker process returns the exception that the function raised, or None.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, self._theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._theirs,), daemon=True)

    def start(self) -> None:
        """Starts the worker process, which ignores stop signals."""
        need_current_directory()  # a spawned process changes to it
        with _no_stop():  # a process that is interrupted while it starts prints a traceback
            start_deaf(self._process)
        self._theirs.close()  # so that `recv` raises EOFError when the process exits

    def give(self, function: Callable[..., None], task: tuple[Any, ...]) -> None:
        """Starts a job; call `finish` before you start another job."""
        try:
            self.connection.send((function, task))
        except (BrokenPipeError, ConnectionResetError):
            self._lost()

    def finish(self) -> None:
        """Waits until the current call has finished, and re-raises its exception, if any."""
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
            raise InputError(
                f"Worker process {self._process.pid} exited unexpectedly with status {status}. Run "
                "the command again."
            )
        raise InputError(
            f"Worker process {self._process.pid} was terminated by a signal "
            f"({signal.strsignal(-status)}). If memory ran out, lower the number of processes; "
            "then run the command again."
        )

    def end(self) -> None:
        """Kills the process."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self.connection.close()


def _free(team: list[_Worker], processes: int, stack: contextlib.ExitStack) -> _Worker:
    """Starts and returns a worker if `team` is not full; otherwise returns the next idle worker."""
    if len(team) < processes:
        worker = _Worker()
        stack.callback(worker.end)  # before the start, because a signal may interrupt it
        worker.start()
        team.append(worker)
        return worker
    ready = connection.wait([worker.connection for worker in team])
    worker = next(worker for worker in team if worker.connection in ready)
    worker.finish()
    return worker


def _serve(calls: connection.Connection) -> None:
    """Runs one call after another in a worker process, until the process is killed."""
    end_with_parent()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the parent has exited
        while True:
            calls.send(_outcome(calls))


def _outcome(calls: connection.Connection) -> Exception | None:
    """Runs the next call; returns None or the exception that `finish` re-raises in the parent."""
    try:
        function, task = calls.recv()
        function(*task)
    except Exception as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return error
    return None
