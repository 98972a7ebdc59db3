"""Provides middleware that counts requests, checks headers and returns errors as JSON.

The log messages of this module never contain text from a client.
"""

import asyncio
import time
from typing import Any

from starlette.responses import Response

from nmt.errors import Note, where
from nmt.serving.hosts import Hosts
from nmt.serving.metrics import Metrics
from nmt.serving.model_process import FailedError
from nmt.serving.requests import json_response

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class Guard:
    """ASGI middleware that checks Host headers, adds response headers and counts requests.

    Args:
        hosts: the host names to accept in Host headers, or None to accept any host name.
        policy: the value of the Content-Security-Policy header in all responses.
    """

    def __init__(
        self, app: Any, metrics: Metrics, note: Note, hosts: Hosts | None, policy: str
    ) -> None:
        self.app, self.metrics, self.note, self.hosts = app, metrics, note, hosts
        self.headers = [*_HEADERS, (b"content-security-policy", policy.encode())]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Processes a request according to the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *self.headers]
            try:
                await send(message)
            except RuntimeError as error:
                # The server aborted the connection, but uvloop has not reported its loss yet.
                if "handler is closed" not in str(error):
                    raise

        try:
            if refusal := self._refusal(scope["http_version"], scope["headers"]):
                await refusal(scope, receive, sent)
            else:
                await self.app(scope, receive, sent)
        except asyncio.CancelledError:  # the server is stopping
            self.metrics.cut_off += 1
            if not status:
                body = {"error": "The server is stopping."}
                refusal = json_response(body, 503, {"Retry-After": "1"})
                await refusal(scope, receive, sent)
        except Exception as error:
            place = str(error) if isinstance(error, FailedError) else where(error)
            self.note(f"nmt: internal error: {place}")
            if not status:
                await json_response({"error": "Internal error."}, 500)(scope, receive, sent)
        path = getattr(scope.get("route"), "path", "other")
        self.metrics.count(path, status, time.perf_counter() - began)

    def _refusal(self, version: str, headers: list[tuple[bytes, bytes]]) -> Response | None:
        """Returns a response that rejects the request, or None if the headers are acceptable."""
        hosts = sum(name == b"host" for name, _ in headers)
        if hosts > 1 or (hosts == 0 and version != "1.0"):  # RFC 9112, section 3.2
            return json_response({"error": "Send exactly one Host header."}, 400)
        for name, value in headers:
            if name == b"host" and self.hosts and not self.hosts.serve(value):
                message = "This Host header is not accepted. The server's operator can allow it."
                return json_response({"error": message}, 421)
        return None
