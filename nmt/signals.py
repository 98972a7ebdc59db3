"""The signals that ask a process to stop, and their handlers.

Training finishes its step and saves first (`StopRequest` in `training/distributed.py`); preparing
and other commands stop at once (`stoppable`).
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from nmt.errors import Stopped

# SIGUSR1: a scheduler's early warning; SIGHUP: a connection that has dropped
STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)

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
    """Makes these signals raise Stopped with `message` in the block, at whatever line it is."""

    def stop(number: int, _: FrameType | None) -> None:
        for each in STOP:
            signal.signal(each, signal.SIG_IGN)  # ending takes a moment, and once is enough
        raise Stopped(number, message)

    with handled_by(stop):
        yield
