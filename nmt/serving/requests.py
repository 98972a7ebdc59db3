"""What comes in with a request and what goes out as its answer: checked here, once for all calls.

Every refusal is an HTTPException, which the application turns into {"error": ...}.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs

from fastapi import HTTPException, Request
from fastapi.responses import Response
from pydantic import BaseModel, ValidationError

from nmt.serving.batcher import Batcher
from nmt.serving.inside import json_bytes
from nmt.serving.limits import Limits

_LOOK_S = 0.5  # how often a request that waits looks whether its client is still there
_FORM_FIELDS = 300
_CLOSE = {"Connection": "close"}
_KINDS = {
    "string_type": "a text",
    "list_type": "a list",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
}
_CLOSED = 499  # nobody reads it; as nginx counts clients that have gone

Model = TypeVar("Model", bound=BaseModel)


def limits_of(request: Request) -> Limits:
    """The bounds of this server."""
    return request.app.state.limits


def batcher_of(request: Request) -> Batcher:
    """The queue before the model; HTTPException 503 until that is loaded, and when it is gone."""
    batcher = living_batcher_of(request)
    if not batcher.is_ready:
        message = "the model is being loaded" if batcher.model is None else "the server ends"
        raise HTTPException(503, f"{message}, try again", {"Retry-After": "1"})
    return batcher


def living_batcher_of(request: Request) -> Batcher:
    """The queue, loaded or not; HTTPException 503 if only a new start helps."""
    batcher: Batcher = request.app.state.batcher
    if batcher.has_died:
        raise HTTPException(503, "the model's processes have ended, start the server again")
    return batcher


async def parsed(request: Request, model: type[Model], *, form: bool = False) -> Model:
    """The body of a request as a `model`.

    Args:
        form: whether an HTML form's encoding will do, too, in the body or behind the path's
            question mark, where some clients of LibreTranslate write it.

    Raises:
        HTTPException: 400, 408, 413 or 415.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    query = request.scope["query_string"] if form else b""
    is_form = form and (kind == "application/x-www-form-urlencoded" or (query and not kind))
    if kind != "application/json" and not is_form:
        or_form = " or application/x-www-form-urlencoded" if form else ""
        raise HTTPException(415, f"Content-Type must be application/json{or_form}")
    body = await _body(request)
    try:
        content = _fields(query) | _fields(body) if is_form else json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not what its Content-Type says") from None
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise HTTPException(400, _problems(error)) from None


async def _body(request: Request) -> bytes:
    """All of it, within the bounds of size and time, whatever its headers promise."""
    limits, chunks, size = limits_of(request), [], 0
    too_large = HTTPException(413, f"more than {limits.body_bytes:,} bytes")
    if int(request.headers.get("content-length", 0)) > limits.body_bytes:
        raise too_large
    try:
        async with asyncio.timeout(limits.arrival_s):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise HTTPException(_CLOSED, "the client has gone")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > limits.body_bytes:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(chunks)
    except TimeoutError:
        raise HTTPException(408, f"no whole request in {limits.arrival_s:g} s", _CLOSE) from None


def _fields(body: bytes) -> dict[str, Any]:
    """A form's fields: of several of one name a list."""
    found = parse_qs(
        body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FORM_FIELDS
    )
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _problems(error: ValidationError) -> str:
    """What is wrong, in one line that quotes nothing of the text."""
    errors = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join([*dict.fromkeys(_problem(each) for each in errors)][:3])


def _problem(error: Any) -> str:
    """One thing that is wrong, in plain words."""
    where = [str(part) for part in error["loc"]]
    name = where[0] if where else "the body"
    if error["type"] == "extra_forbidden":
        return f"unknown field {name!a:.40}"
    if error["type"] == "missing":
        return f"{name}: is missing"
    if len(where) > 1 and where[1] in ("str", "list[str]"):
        return f"{name}: must be a text or a list of texts"
    kind = _KINDS.get(error["type"])
    if where and kind:
        return f"{'.'.join(where)}: must be {kind}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(where)}: {message}" if where else message


def check_texts(request: Request, *texts: str, number: int | None = None) -> None:
    """HTTPException 400 if there are too many texts, or too long ones taken together.

    Args:
        number: of texts to translate, where some of `texts` are none.
    """
    limits = limits_of(request)
    if (number or len(texts)) > limits.texts:
        raise HTTPException(400, f"more than {limits.texts:,} texts in one request")
    if sum(map(len, texts)) > limits.characters:
        raise HTTPException(400, f"more than {limits.characters:,} characters in one request")


async def answer(request: Request, future: "asyncio.Future[Any]") -> Any:
    """What the model gives; its work is dropped if the client goes or time is up.

    Raises:
        HTTPException: 503 after `answer_s`.
    """
    limits, loop = limits_of(request), asyncio.get_running_loop()
    deadline = loop.time() + limits.answer_s
    try:
        while not (await asyncio.wait({future}, timeout=_LOOK_S))[0]:
            if await request.is_disconnected():
                raise HTTPException(_CLOSED, "the client has gone")
            if loop.time() > deadline:
                message = f"no answer within {limits.answer_s:g} s, try again or with less text"
                raise HTTPException(503, message, {"Retry-After": "5"})
        return future.result()
    finally:
        future.cancel()


async def aside(request: Request, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives that may take long and needs no model: the event loop goes on.

    Raises:
        HTTPException: 503 after `answer_s`.
    """
    work = asyncio.to_thread(function, *arguments)
    return await answer(request, asyncio.ensure_future(work))


def json_response(content: Any, status: int = 200, headers: Any = None) -> Response:
    """An answer; text is written as it is, in UTF-8."""
    return Response(json_bytes(content), status, headers, "application/json")


def described(model: type[BaseModel], *, form: bool = False) -> dict[str, Any]:
    """What a route says of its body in openapi.json, as `parsed` reads it."""
    kinds = ["application/json", *(["application/x-www-form-urlencoded"] if form else [])]
    schema = {"schema": model.model_json_schema()}
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, schema)}}
