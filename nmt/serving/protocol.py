"""uvicorn's connections, with an end to those that take their time.

uvicorn bounds how long a connection may be idle between requests. Here are the others: one that
never completes a request, one that does not read its answer, and one too many.
"""

import asyncio
import json
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmt.serving.limits import Limits

_DROPPED = 16  # times the bytes that a body may have
_LATER = 1.5  # than the application gives up


class Connection(H11Protocol):
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
        if not self._size:
            self._relax("request")  # until now its first byte was waited for
        self._size += len(data)
        if self._size > self.limits.body_bytes * _DROPPED:
            self.transport.abort()
            return
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):  # the request is not whole
            self._expect("request")
        else:
            self._size = 0
            self._relax("request")

    def pause_writing(self) -> None:
        """See asyncio.Protocol: the client does not read what it is sent."""
        super().pause_writing()
        self._expect("reading")

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        super().resume_writing()
        self._relax("reading")

    def on_response_complete(self) -> None:
        """See H11Protocol."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._expect("end")

    def timeout_keep_alive_handler(self) -> None:
        """See H11Protocol."""
        super().timeout_keep_alive_handler()
        self._expect("end")

    def send_400_response(self, msg: str) -> None:
        """See H11Protocol; as all our errors, this one is JSON."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # else the answer has begun
            body = json.dumps({"error": msg}).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            for event in (
                h11.Response(status_code=400, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
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
