"""Calls the functions of the microscope, in the model process."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.translator import Translator


def microscope(translator: "Translator", name: str, arguments: dict[str, Any]) -> bytes:
    """Calls the microscope function with the given name and returns its result as JSON."""
    from nmt.serving.microscope import inspect, search_tree  # imports torch
    from nmt.serving.steps import steps

    functions: dict[str, Callable[..., Any]] = {
        "inspect": inspect,
        "search_tree": search_tree,
        "steps": steps,
    }
    return json_bytes(functions[name](translator, **arguments))


def json_bytes(content: Any) -> bytes:
    """Encodes `content` as JSON in UTF-8, without escape sequences for non-ASCII characters."""
    written = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return written.encode(errors="replace")
