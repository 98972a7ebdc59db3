"""`nmt serve`: a socket, uvicorn on it, and an end that lets the requests in hand finish."""

import gc
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from nmt.errors import ArgumentError, Note, Stopped, count
from nmt.serving.app import create_app
from nmt.serving.batcher import Batcher
from nmt.serving.hosts import Hosts
from nmt.serving.limits import Limits
from nmt.serving.model_process import Load, ModelProcess
from nmt.serving.protocol import Connection
from nmt.signals import handled_by

_BACKLOG = 2048


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which know two signals only."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """See uvicorn; the signals are handled by `run_serve`."""
        return nullcontext()


def run_serve(
    loads: Sequence[Load],
    *,
    host: str,
    port: int,
    limits: Limits,
    note: Note,
    allow_host: Sequence[str] = (),
) -> None:
    """Serves until a signal comes, then finishes the requests in hand.

    Args:
        loads: what each of the model's processes loads, once the server listens.
        port: 0: any that is free, which `note` is told.
        note: is told what a person should read, a line at a time.
        allow_host: names under which it answers, see `Hosts.of`.

    Raises:
        ArgumentError: no such address, or it is in use.
        InputError: as loading does.
        Stopped: a signal has come.
    """
    listener = _listener(host, port)
    stopped: list[int] = []

    def loaded(batcher: Batcher) -> None:
        if batcher.failure:
            server.should_exit = True
        elif batcher.is_ready:  # else it was stopped in the meantime
            gc.freeze()  # what lives as long as the server is not looked through again and again
            note("nmt: ready")

    hosts = Hosts.of(listener.getsockname()[0], allow_host)
    processes = [partial(ModelProcess, load) for load in loads]
    app = create_app(processes, limits, note=note, loaded=loaded, hosts=hosts)
    server = Server(configuration(app, limits))

    def stop(number: int, _: FrameType | None) -> None:
        if stopped:  # the second time; the model's processes end by themselves
            os._exit(130 if number == signal.SIGINT else 143)
        server.should_exit = True
        stopped.append(number)

    shown = f"[{host}]" if ":" in host else host
    note(f"nmt: serving on http://{shown}:{listener.getsockname()[1]}, loading the model")
    with handled_by(stop):
        server.run(sockets=[listener])
    if failure := app.state.batcher.failure:
        raise failure
    if stopped:
        cut_off = app.state.metrics.cut_off
        how = f"{count(cut_off, 'request')} cut off" if cut_off else "after the requests in hand"
        raise Stopped(stopped[0], f"stopped{', ' if cut_off else ' '}{how}")


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens; ArgumentError if there is none to be had."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        reason = reason.partition(" (")[0]  # asyncio and socket add the address, which we name
        raise ArgumentError("{}, {host} {} {port} {}, choose another", reason, host, port) from None


def configuration(app: FastAPI, limits: Limits) -> uvicorn.Config:
    """How uvicorn runs the application: it logs nothing and adds nothing."""
    return uvicorn.Config(
        app,
        http=Connection.of(limits),
        ws="none",
        lifespan="on",
        log_config=None,  # it would log what clients ask for
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=round(limits.shutdown_s),
    )
