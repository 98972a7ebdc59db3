"""Starts worker processes that ignore stop signals and exit when their parent exits."""

import multiprocessing
import os
import signal
import tempfile
import threading
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

from nmt import signals
from nmt.errors import ArgumentError, InputError


def cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def need_no_temporary_directory() -> None:
    """Makes packages importable even if no temporary directory is writable, as in some containers.

    For example, torch imports dill. When dill is imported, it looks for a temporary directory,
    although it does not write to it.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = "/tmp"


def need_current_directory() -> None:
    """Raises InputError if the current directory was removed.

    Importing torch and spawning a process both require that the current directory exists.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        raise InputError(
            "The current directory no longer exists. Change to another directory."
        ) from None


def refuse_forked(pid: int) -> None:
    """Raises ArgumentError if this process was forked from the process with the ID `pid`.

    A forked process lacks the compute threads of its parent. A forked process would also hang on
    locks that other threads of the parent held at the time of the fork.
    """
    if os.getpid() != pid:
        raise ArgumentError(
            "A Translator cannot be used in a forked process. Load it in the new process, or "
            'start processes with multiprocessing.get_context("spawn").'
        )


def start_deaf(process: BaseProcess) -> None:
    """Starts a process that ignores stop signals from the beginning.

    Ctrl-C sends SIGINT to all foreground processes of a terminal. However, a worker should be
    stopped only by its parent.
    """
    resource_tracker.ensure_running()  # starting the tracker later would unblock the signals
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signals.STOP)  # the child inherits the mask
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def end_with_parent() -> None:
    """Makes this process exit as soon as its parent has exited, even during a computation."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def end() -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
