"""uvicorn's connections, with an end to those that take their time.

uvicorn bounds how long a connection may be idle between requests. Here are the others: one that
never completes a request, one whose head has no end, one that does not read its answer, and one too
many.
"""

import asyncio
import json
import re
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nmt.serving.limits import Limits

_HEAD_BYTES = 65_536
_AHEAD = 64  # requests that a client may send before it has got an answer
_DROPPED = 16  # times the bytes that a body may have
_LATER = 1.5  # than the application gives up
_UPGRADE = re.compile(rb"^upgrade:", re.IGNORECASE | re.MULTILINE)


class Connection(HttpToolsProtocol):
    """A client's connection; `of` makes the class for given limits."""

    limits: ClassVar[Limits]

    @classmethod
    def of(cls, limits: Limits) -> "type[Connection]":
        """Such connections with these limits."""
        return type("Connection", (cls,), {"limits": limits})

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._size = 0  # bytes of the request so far
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

        What comes after the application has refused a request is read and dropped, or its client
        would not see the answer: but not for ever.
        """
        self._size += len(data)
        if self._size > self.limits.body_bytes * _DROPPED:
            self.transport.abort()
            return
        is_head = self._is_whole or not self._has_head
        super().data_received(_without_upgrade(data) if is_head else data)
        if not self._has_head and self._size > _HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"more than {_HEAD_BYTES:,} bytes of headers")
        elif not self._is_whole or self.cycle.response_complete:
            self._expect("request")  # uvicorn has forgotten how long the connection is idle

    def on_message_begin(self) -> None:
        """See HttpToolsProtocol."""
        super().on_message_begin()
        self._size = 0  # so much at least was of the request before
        self._has_head = self._is_whole = False
        self._relax("request")  # until now its first byte was waited for

    def on_header(self, name: bytes, value: bytes) -> None:
        """See HttpToolsProtocol; what comes after the body is no header, whatever it says."""
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
        """See asyncio.Protocol: the client does not read what it is sent."""
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
        """See HttpToolsProtocol; as all our errors, this one is JSON."""
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
        """Ends the connection unless this happens in time, from now or from when it was expected.

        The application refuses a slow request a little earlier, with status 408.
        """
        if what not in self._deadlines:
            self._deadlines[what] = self.loop.call_later(
                self.limits.arrival_s * _LATER, self.transport.abort
            )

    def _relax(self, what: str) -> None:
        if deadline := self._deadlines.pop(what, None):
            deadline.cancel()


def _without_upgrade(data: bytes) -> bytes:
    """The same request without the wish for another protocol, which httptools takes for a change.

    It would then read no body. Java's HttpClient offers HTTP/2 in this way at its first request.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"x-upgrade:", head) + end + rest
