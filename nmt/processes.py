"""Processes that compute for this one: they start without being interrupted, and end with it."""

import multiprocessing
import os
import signal
import threading
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess

from nmt import signals


def cores() -> int:
    """The CPU cores that this process may use."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def start_deaf(process: BaseProcess) -> None:
    """Starts a process that ignores signals which ask it to stop, from its first instruction.

    A Ctrl-C goes to all processes of a terminal, but it is for this one to end the others.
    """
    resource_tracker.ensure_running()  # its own start would unblock the signals
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signals.STOP)  # inherited
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def end_with_parent() -> None:
    """Makes this process end when the one that started it has, whatever it is doing."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def end() -> None:
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
