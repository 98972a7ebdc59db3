"""Implements `nmt serve`, which runs uvicorn and answers all accepted requests before it exits."""

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
    """A uvicorn server without uvicorn's signal handlers, which handle only two signals."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Does nothing; `run_serve` handles signals."""
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
    """Serves HTTP requests until a stop signal arrives, and then finishes the accepted requests.

    Args:
        loads: functions that load the model, one per model process. The functions are called after
            the socket has been opened.
        port: the TCP port, or 0 for any free port. A message to `note` contains the actual port.
        note: called with each user-facing message.
        allow_host: additional host names to accept (see `Hosts.of`).

    Raises:
        ArgumentError: the address does not exist or is in use.
        InputError: a function in `loads` raised this error.
        Stopped: a signal stopped the server.
    """
    listener = _listener(host, port)
    stopped: list[int] = []

    def loaded(batcher: Batcher) -> None:
        if batcher.failure:
            server.should_exit = True
        elif batcher.is_ready:  # unless the server was stopped meanwhile
            gc.freeze()  # excludes permanent objects from garbage collection
            note("nmt: ready")

    hosts = Hosts.of(listener.getsockname()[0], allow_host)
    processes = [partial(ModelProcess, load) for load in loads]
    app = create_app(processes, limits, note=note, loaded=loaded, hosts=hosts)
    server = Server(configuration(app, limits))

    def stop(number: int, _: FrameType | None) -> None:
        if stopped:  # a second signal; model processes exit with their parent
            os._exit(130 if number == signal.SIGINT else 143)
        server.should_exit = True
        stopped.append(number)

    shown = f"[{host}]" if ":" in host else host
    note(f"nmt: Serving on http://{shown}:{listener.getsockname()[1]}. Loading the model.")
    with handled_by(stop):
        server.run(sockets=[listener])
    if failure := app.state.batcher.failure:
        raise failure
    if stopped:
        cut_off = app.state.metrics.cut_off
        cut = (
            f". {count(cut_off, 'request')} got no response."
            if cut_off
            else " after answering all requests."
        )
        raise Stopped(stopped[0], f"Stopped{cut}")


def _listener(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Raises ArgumentError if the address is unavailable."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        reason = reason.partition(" (")[0]  # asyncio and socket append the address
        raise ArgumentError(
            "Cannot listen on {host} {} {port} {}: {}. Choose another host or port.",
            host, port, reason,
        ) from None  # fmt: skip


def configuration(app: FastAPI, limits: Limits) -> uvicorn.Config:
    """Returns the uvicorn configuration.

    Logging, the `Server` header and the handling of proxy headers are disabled.
    """
    return uvicorn.Config(
        app,
        http=Connection.of(limits),
        ws="none",
        lifespan="on",
        log_config=None,  # uvicorn would log requests
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=round(limits.shutdown_s),
    )
