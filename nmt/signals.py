"""Handles the signals that ask a process to stop.

After such a signal, `nmt train` finishes the current training step and saves a checkpoint before it
exits (see `StopRequest` in `training/distributed.py`). All other commands stop immediately (see
`stoppable`).
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from nmt.errors import Stopped

# SIGUSR1: a job scheduler's early warning; SIGHUP: the terminal was closed or disconnected
STOP = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")
    if hasattr(signal, name)  # Windows lacks two signals, but `nmt` cannot run there anyway
)

_RETRY_S = 0.05
_LONGEST_IMPORT_S = 10

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled_by(handler: Handler, signals: Sequence[signal.Signals] = STOP) -> Iterator[None]:
    """Installs a handler for `signals` while the body of the `with` statement runs.

    Afterwards, the previous handlers are restored. If the process ignores SIGHUP because it was
    started with nohup, it continues to ignore SIGHUP. In threads other than the main thread, this
    function does nothing, because Python can install handlers only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in signals}
    if former.get(signal.SIGHUP) is signal.SIG_IGN:
        del former[signal.SIGHUP]
    for number in former:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler_before in former.items():
            signal.signal(number, handler_before)


@contextmanager
def stoppable(message: str) -> Iterator[None]:
    """Makes stop signals raise Stopped while the body of the `with` statement runs.

    If a signal arrives during an import, the exception is raised after the import. Otherwise, some
    packages that are written in C would replace the exception or abort the process.
    """
    came: list[float] = []
    former = signal.getsignal(signal.SIGALRM)

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(time.monotonic())
        if _is_importing(frame) and came[-1] - came[0] < _LONGEST_IMPORT_S:
            signal.signal(signal.SIGALRM, lambda _, frame: stop(number, frame))
            signal.setitimer(signal.ITIMER_REAL, _RETRY_S)
            return
        for each in STOP:
            signal.signal(each, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
        raise Stopped(number, message)

    with handled_by(stop):
        try:
            yield
        finally:
            if came:  # the timer may still be running if the block ended during an import
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, former)


def _is_importing(frame: FrameType | None) -> bool:
    while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None
