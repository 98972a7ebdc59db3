"""The middleware of the server, with a connection that the server has just aborted."""

import asyncio
from types import SimpleNamespace

import pytest

from nmt.serving.guard import Guard

CLOSED = "unable to perform operation on <TCPTransport closed=True>; the handler is closed"


@pytest.mark.parametrize(("message", "lines"), [(CLOSED, 0), ("a bug", 1)])
def test_only_an_aborted_connection_is_no_internal_error(message: str, lines: int):
    notes: list[str] = []

    async def send(_) -> None:
        raise RuntimeError(message)

    async def app(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def ask() -> None:
        metrics = SimpleNamespace(count=lambda *_: None, cut_off=0)
        guard = Guard(app, metrics, notes.append, None, "default-src 'self'")  # type: ignore
        scope = {"type": "http", "http_version": "1.1", "headers": [(b"host", b"localhost")]}
        await guard(scope, None, send)

    asyncio.run(ask())
    assert len([note for note in notes if "internal error" in note]) == lines
