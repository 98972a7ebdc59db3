"""Extends uvicorn's HTTP protocol with limits on time, size and the number of connections.

By itself, uvicorn limits only how long a connection may be idle between requests. This module also
limits the time until a request is complete, the size of a request's headers, the time that a client
may take to read a response, and the number of open connections.
"""

import asyncio
import json
import re
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nmt.serving.limits import Limits

_HEAD_BYTES = 65_536
_AHEAD = 64  # maximum number of unanswered pipelined requests
_DROPPED = 16  # a connection is aborted after this multiple of the maximum body size
_LATER = 1.5  # time limits, as a multiple of the application's time limits
_UPGRADE = re.compile(rb"^upgrade:", re.IGNORECASE | re.MULTILINE)


class Connection(HttpToolsProtocol):
    """A connection to a client, with limits on time and size."""

    limits: ClassVar[Limits]

    @classmethod
    def of(cls, limits: Limits) -> "type[Connection]":
        """Returns a subclass of this class that enforces the given limits."""
        return type("Connection", (cls,), {"limits": limits})

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._size = 0  # bytes of the current request so far
        self._has_head = self._is_whole = False
        if len(self.connections) > self.limits.connections:
            transport.abort()
        self._expect("request")

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        for what in list(self._deadlines):
            self._relax(what)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol.

        After the application has rejected a request, the rest of the request is received and
        discarded, so that the client can read the response. If the rest of the request exceeds a
        maximum size, the connection is aborted.
        """
        self._size += len(data)
        if self._size > self.limits.body_bytes * _DROPPED:
            self.transport.abort()
            return
        is_head = self._is_whole or not self._has_head
        super().data_received(_without_upgrade(data) if is_head else data)
        if not self._has_head and self._size > _HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The headers exceed {_HEAD_BYTES:,} bytes.")
        elif not self._is_whole or self.cycle.response_complete:
            self._expect("request")  # uvicorn restarts its own idle timer with every chunk

    def on_message_begin(self) -> None:
        """See HttpToolsProtocol."""
        super().on_message_begin()
        self._size = 0  # earlier bytes belong to the previous request
        self._has_head = self._is_whole = False
        self._relax("request")  # cancels the deadline for the first byte

    def on_header(self, name: bytes, value: bytes) -> None:
        """See HttpToolsProtocol. Ignores trailers, which uvicorn would store without a limit."""
        if not self._has_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """See HttpToolsProtocol."""
        self._has_head = True
        if len(self.pipeline) < _AHEAD:
            super().on_headers_complete()
        else:
            self.transport.abort()

    def on_message_complete(self) -> None:
        """See HttpToolsProtocol."""
        self._is_whole = True
        self._size = 0
        self._relax("request")
        super().on_message_complete()

    def pause_writing(self) -> None:
        """See asyncio.Protocol. Called when the client reads its response too slowly."""
        super().pause_writing()
        self._expect("reading")

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        super().resume_writing()
        self._relax("reading")

    def on_response_complete(self) -> None:
        """See HttpToolsProtocol."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._expect("end")

    def timeout_keep_alive_handler(self) -> None:
        """See HttpToolsProtocol."""
        super().timeout_keep_alive_handler()
        self._expect("end")

    def send_400_response(self, msg: str) -> None:
        """See HttpToolsProtocol. The response body is JSON, as in all other error responses."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = json.dumps({"error": msg}).encode()
            head = (
                "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()
        self._expect("end")

    def _expect(self, what: str) -> None:
        """Aborts the connection unless the event `what` happens before a deadline.

        An existing deadline for the event remains unchanged. The application's own time limit is
        shorter: when it is exceeded, the application rejects the request with status 408.
        """
        if what not in self._deadlines:
            self._deadlines[what] = self.loop.call_later(
                self.limits.arrival_s * _LATER, self.transport.abort
            )

    def _relax(self, what: str) -> None:
        if deadline := self._deadlines.pop(what, None):
            deadline.cancel()


def _without_upgrade(data: bytes) -> bytes:
    """Renames an Upgrade header, because httptools does not read the body of an upgrade request.

    For example, Java's HttpClient sends an Upgrade header in its first request to offer HTTP/2.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"x-upgrade:", head) + end + rest
