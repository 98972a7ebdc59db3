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


class Connection(H11Protocol):
    """A client's connection; `of` makes the class for given limits."""

    limits: ClassVar[Limits]

    @classmethod
    def of(cls, limits: Limits) -> "type[Connection]":
        """Such connections with these limits."""
        return type("Connection", (cls,), {"limits": limits})

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._relax()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):  # the request is not whole
            self._expect()
        else:
            self._relax()

    def on_response_complete(self) -> None:
        """See H11Protocol: waits for the next request from now on."""
        super().on_response_complete()
        self._expect()

    def send_400_response(self, msg: str) -> None:
        """See H11Protocol; as all our errors, this one is JSON."""
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        body = json.dumps({"error": msg}).encode()
        for event in (
            h11.Response(status_code=400, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _expect(self) -> None:
        """A whole request within the bound, from now unless one is expected already."""
        if self._deadline is None:
            # later than the refusal that the application sends, 408
            self._deadline = self.loop.call_later(self.limits.arrival_s + 2, self._give_up)

    def _relax(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.abort()
