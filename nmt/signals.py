"""The signals that ask a process to stop, and their handlers.

Training finishes its step and saves first (`StopRequest` in `training/distributed.py`); preparing
and other commands stop at once (`stoppable`).
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from nmt.errors import Stopped

# SIGUSR1: a scheduler's early warning; SIGHUP: a connection that has dropped
STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)

_LOOK_AGAIN_S = 0.05
_LONGEST_IMPORT_S = 10

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """`handler` for each signal that asks to stop, in the block; the former ones after it.

    SIGHUP stays ignored if it is, as nohup wants it. In another thread than the main one this does
    nothing, as Python lets no other set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in STOP}
    if former[signal.SIGHUP] is signal.SIG_IGN:
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
    """Makes these signals raise Stopped with `message` in the block, at whatever line it is.

    Only what is being imported is imported first: packages in C turn an exception that comes in
    between into one of their own, or abort the process.
    """
    came: list[float] = []
    former = signal.getsignal(signal.SIGALRM)

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(time.monotonic())
        if _is_importing(frame) and came[-1] - came[0] < _LONGEST_IMPORT_S:
            signal.signal(signal.SIGALRM, lambda _, frame: stop(number, frame))
            signal.setitimer(signal.ITIMER_REAL, _LOOK_AGAIN_S)
            return
        for each in STOP:
            signal.signal(each, signal.SIG_IGN)  # ending takes a moment, and once is enough
        raise Stopped(number, message)

    with handled_by(stop):
        try:
            yield
        finally:
            if came:  # perhaps in an import with which the block ended
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, former)


def _is_importing(frame: FrameType | None) -> bool:
    while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None
