"""Provides functions with which all routes parse and check requests and create responses.

To reject a request, a function raises HTTPException, which is converted to a JSON response with the
key `error`.
"""

import asyncio
import difflib
import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs

from fastapi import HTTPException, Request
from fastapi.responses import Response
from pydantic import BaseModel, ValidationError

from nmt.errors import count
from nmt.serving.batcher import Batcher
from nmt.serving.inside import json_bytes
from nmt.serving.limits import Limits

_LOOK_S = 0.5  # seconds between checks whether a waiting client is still connected
_FORM_FIELDS = 300
_CLOSE = {"Connection": "close"}
_JSON = "application/json"
_WITH_CURL = f"With curl, add -H 'Content-Type: {_JSON}'."
_EXPECTED = {  # by pydantic's error type
    "string_type": "a string",
    "list_type": "a list",
    "dict_type": "an object",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "literal_error": "{expected}",
}
_CLOSED = 499  # nginx's status for a disconnected client, which does not receive it

Model = TypeVar("Model", bound=BaseModel)


def limits_of(request: Request) -> Limits:
    """Returns this server's limits on requests."""
    return request.app.state.limits


def batcher_of(request: Request) -> Batcher:
    """Returns the batcher if it accepts requests.

    Raises:
        HTTPException: the batcher does not accept requests (status 503).
    """
    batcher = living_batcher_of(request)
    if not batcher.is_ready:
        message = "The model is loading." if batcher.model is None else "The server is stopping."
        raise HTTPException(503, f"{message} Try again later.", {"Retry-After": "1"})
    return batcher


def living_batcher_of(request: Request) -> Batcher:
    """Returns the batcher, even while the model is still loading.

    Raises:
        HTTPException: all model processes have exited (status 503).
    """
    batcher: Batcher = request.app.state.batcher
    if batcher.has_died:
        problem = batcher.problem or "The model processes have ended. Restart the server."
        raise HTTPException(503, problem, {"Retry-After": "5"})
    return batcher


async def parsed(request: Request, model: type[Model], *, form: bool = False) -> Model:
    """Parses and validates the body of a request.

    Args:
        model: the Pydantic class that the body is converted to.
        form: whether an HTML form is accepted in addition to JSON. The form fields may be in the
            body or, as some LibreTranslate clients send it, in the query string.

    Raises:
        HTTPException: the body is invalid (status 400), incomplete after the time limit (408), too
            large (413) or of an unsupported type (415).
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    query = request.scope["query_string"] if form else b""
    is_form = form and (kind == "application/x-www-form-urlencoded" or (query and not kind))
    if kind != _JSON and not is_form:
        or_form = " or application/x-www-form-urlencoded" if form else ""
        raise HTTPException(415, f"Content-Type must be {_JSON}{or_form}. {_WITH_CURL}")
    body = await _body(request)
    content = _form(query, body) if is_form else _json(body)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise HTTPException(400, _problems(error, list(model.model_fields))) from None


async def _body(request: Request) -> bytes:
    """Reads the request body, and enforces the limits on its size and its transfer time."""
    limits, chunks, size = limits_of(request), [], 0
    too_large = HTTPException(
        413, f"The request body exceeds {limits.body_bytes:,} bytes. Send less text."
    )
    if int(request.headers.get("content-length", 0)) > limits.body_bytes:
        raise too_large
    try:
        async with asyncio.timeout(limits.arrival_s):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise HTTPException(_CLOSED, "The client disconnected.")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > limits.body_bytes:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(chunks)
    except TimeoutError:
        what = f"The request was incomplete after {limits.arrival_s:g} s."
        raise HTTPException(408, what, _CLOSE) from None


def _json(body: bytes) -> Any:
    if not body.strip():
        raise HTTPException(400, "The request body is empty. Send a JSON object.")
    try:
        return json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8: byte {error.start} is invalid"
    except json.JSONDecodeError as error:
        problem = f"is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError):  # a number with too many digits, or too many brackets
        problem = "is not valid JSON"
    raise HTTPException(400, f"The request body {problem}.")


def _form(query: bytes, body: bytes) -> dict[str, Any]:
    if body.lstrip().startswith(b"{"):  # curl sends every body as a form by default
        raise HTTPException(
            415, f"The request body is JSON, but Content-Type is not {_JSON}. {_WITH_CURL}"
        )
    try:
        return _fields(query) | _fields(body)
    except ValueError:
        raise HTTPException(
            400, "The request body is not a valid form. Percent-encode its fields in UTF-8."
        ) from None


def _fields(body: bytes) -> dict[str, Any]:
    """Parses an HTML form into a dictionary. The values of a repeated field become a list."""
    found = parse_qs(
        body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FORM_FIELDS
    )
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _problems(error: ValidationError, fields: list[str]) -> str:
    """Describes up to three validation errors in one line, without quoting any field's value.

    Args:
        fields: the names of the fields that the API call supports.
    """
    errors = error.errors(include_input=False, include_url=False)
    return " ".join([*dict.fromkeys(_problem(each, fields) for each in errors)][:3])


def _problem(error: Any, fields: list[str]) -> str:
    """Returns a one-sentence description of a validation error."""
    kind, where = error["type"], [f"{part!s:.40}" for part in error["loc"]]
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(where[0], fields, n=1)
        known = f"Supported fields: {', '.join(fields)}."
        return f"Unknown field {where[0]!a}. " + (f"Did you mean {near[0]}?" if near else known)
    if kind == "model_type":
        return "The request body must be a JSON object."
    if kind == "missing":
        return f"{where[0]} is missing."
    if len(where) > 1 and where[1] in ("str", "list[str]"):
        return f"{where[0]} must be a string or a list of strings."
    if expected := _EXPECTED.get(kind):
        return f"{'.'.join(where)} must be {expected.format_map(error.get('ctx', {}))}."
    message = error["msg"].removeprefix("Value error, ")
    return ": ".join(filter(None, (".".join(where), f"{message}.")))


def check_texts(request: Request, *texts: str, number: int | None = None) -> None:
    """Raises HTTPException with status 400 if there are too many texts or too many characters.

    Args:
        texts: all texts in the request.
        number: the number of texts to translate, or None if all texts are to be translated.
    """
    limits = limits_of(request)
    if (number or len(texts)) > limits.texts:
        raise HTTPException(400, f"A request may contain at most {count(limits.texts, 'text')}.")
    if sum(map(len, texts)) > limits.characters:
        raise HTTPException(400, f"A request may contain at most {limits.characters:,} characters.")


async def answer(request: Request, future: "asyncio.Future[Any]") -> Any:
    """Waits for the result of a future. Cancels the future if this function raises an exception.

    Raises:
        HTTPException: there is no result after `answer_s` seconds (status 503), or the client has
            disconnected (499).
    """
    limits, loop = limits_of(request), asyncio.get_running_loop()
    deadline = loop.time() + limits.answer_s
    try:
        while not (await asyncio.wait({future}, timeout=_LOOK_S))[0]:
            if await request.is_disconnected():
                raise HTTPException(_CLOSED, "The client disconnected.")
            if loop.time() > deadline:
                message = f"No result within {limits.answer_s:g} s. Try again, or send less text."
                raise HTTPException(503, message, {"Retry-After": "5"})
        return future.result()
    finally:
        future.cancel()


async def aside(request: Request, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a slow function in a thread, so that the function does not block the event loop.

    Raises:
        HTTPException: see `answer`.
    """
    work = asyncio.to_thread(function, *arguments)
    return await answer(request, asyncio.ensure_future(work))


def json_response(content: Any, status: int = 200, headers: Any = None) -> Response:
    """Returns a JSON response in UTF-8."""
    return Response(json_bytes(content), status, headers, "application/json")


def described(model: type[BaseModel], *, form: bool = False) -> dict[str, Any]:
    """Returns the OpenAPI description of a request body that `parsed` accepts."""
    kinds = ["application/json", *(["application/x-www-form-urlencoded"] if form else [])]
    schema = {"schema": model.model_json_schema()}
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, schema)}}
