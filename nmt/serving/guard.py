"""Stands before all routes: what is counted, refused at the door, or has failed.

Nothing that happens behind it leaves as anything but an answer in JSON, and nothing that a client
wrote is logged.
"""

import asyncio
import time
from typing import Any

from nmt.errors import Note, where
from nmt.serving.metrics import Metrics
from nmt.serving.model_process import FailedError
from nmt.serving.requests import json_response

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: Any, metrics: Metrics, note: Note):
        self.app, self.metrics, self.note = app, metrics, note

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            if _is_encoded(scope):
                refusal = json_response({"error": "Content-Encoding is not supported"}, 415)
                await refusal(scope, receive, sent)
            else:
                await self.app(scope, receive, sent)
        except asyncio.CancelledError:  # the server ends, and its patience with requests in hand
            self.metrics.cut_off += 1
            if not status:
                refusal = json_response({"error": "the server ends"}, 503, {"Retry-After": "1"})
                await refusal(scope, receive, sent)
        except Exception as error:
            place = str(error) if isinstance(error, FailedError) else where(error)
            self.note(f"nmt: internal error: {place}")
            if not status:
                await json_response({"error": "internal error"}, 500)(scope, receive, sent)
        path = getattr(scope.get("route"), "path", "other")
        self.metrics.count(path, status, time.perf_counter() - began)


def _is_encoded(scope: Any) -> bool:
    """Whether the body is compressed: then its size says nothing of what it becomes."""
    return any(
        name == b"content-encoding" and value.strip().lower() not in (b"", b"identity")
        for name, value in scope["headers"]
    )
