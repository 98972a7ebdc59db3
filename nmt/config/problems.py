"""What is wrong with a configuration, in words: a line a problem, with file, line and key."""

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nmt.config.settings import CORPUS_KINDS, Config, Section
from nmt.config.strict_yaml import KeyPath


def described(error: ValidationError, origins: Mapping[KeyPath, str], name: str) -> list[str]:
    """A line for each of pydantic's findings, for each corpus the one that says most.

    Args:
        origins: for each key where it was written.
        name: of the configuration, for what was written nowhere.
    """
    chosen: dict[KeyPath | int, ErrorDetails] = {}
    for number, problem in enumerate(error.errors()):
        if problem["type"] == "too_short" and problem["input"]:
            continue  # a list is called too short as well if all its entries are wrong
        loc = problem["loc"]
        place = loc[:3] if len(loc) > 2 and isinstance(loc[2], int) else number
        is_unknown = problem["type"] == "extra_forbidden"  # if misspelt, it is missing as well
        if place not in chosen or (is_unknown and chosen[place]["type"] != "extra_forbidden"):
            chosen[place] = problem
    return list(dict.fromkeys(_describe(problem, origins, name) for problem in chosen.values()))


def _describe(problem: ErrorDetails, origins: Mapping[KeyPath, str], name: str) -> str:
    path, section = _place(problem["loc"])
    key = ".".join(map(str, path))
    where = next((origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origins), name)
    match problem["type"]:
        case "extra_forbidden":
            known = list(section.model_fields) if section else []
            near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.5)
            near = _sections_with(key) or near
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
            return f"unknown key {key}, {where}, {hint}"
        case "value_error":  # of settings that do not go together, which it names
            text = str(problem["ctx"]["error"])
            keys = (tuple(word.split(".")) for word in re.findall(r"\b[a-z]+\.[a-z_]+", text))
            places = dict.fromkeys(origins[key] for key in keys if key in origins)
            return f"{text}, {' and '.join(places) or where}, correct it"
        case "union_tag_not_found":
            kinds = ", ".join(CORPUS_KINDS)
            return f"{key} must name exactly one of {kinds}, {where}, correct it"
        case "missing":
            return f"missing key {key}, {where}, add it"
        case "too_short":
            return f"{key} must not be empty, {where}, name a corpus"
    found = json.dumps(problem["input"], ensure_ascii=False, default=str)
    found = found if len(found) <= 60 else found[:57] + "..."
    name = next(part for part in reversed(path) if isinstance(part, str))
    wanted = allowed(section, name) if section else _allowed({})
    return f"{key} must be {wanted}, found {found}, {where}, correct it"


def _sections_with(key: str) -> list[str]:
    """A key of one section alone, with it: ["training.max_steps"] for max_steps; else nothing."""
    below = ((name, Config.below(name)) for name in Config.model_fields)
    found = [f"{name}.{key}" for name, section in below if section and key in section.model_fields]
    return found if len(found) == 1 else []


def _place(loc: tuple[str | int, ...]) -> tuple[KeyPath, type[Section] | None]:
    """The key as it is written, and the section that it is in, from pydantic's location.

    The location has further parts: a corpus's kind before its own keys, and the failing part of a
    union.
    """
    path: KeyPath = ()
    section: type[Section] | None = None
    here: type[Section] | None = Config
    for part in loc:
        if isinstance(part, int):
            path = (*path, part)
        elif here is not None:
            path = (*path, part)
            section, here = here, here.below(part)
        elif isinstance(path[-1], int):
            here = CORPUS_KINDS[part]
    return path, section


def allowed(section: type[Section], key: str) -> str:
    """What a setting may be: "a whole number from 1 to 1,000 or auto"."""
    return _allowed(section.model_json_schema()["properties"][key])


def _allowed(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_allowed(part) for part in schema["anyOf"])
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if schema.get("type") in ("integer", "number"):
        kind = "a whole number" if schema["type"] == "integer" else "a number"
        low = f"from {schema['minimum']:,}" if "minimum" in schema else "above 0"
        high = schema.get("maximum", schema.get("exclusiveMaximum", 0) - 1)
        return f"{kind} {low} to {high:,}".replace(".0 ", " ").removesuffix(".0")
    if schema.get("items", {}).get("type") == "string":
        return "a list of texts"
    return _KINDS[schema.get("type", "object")]


_KINDS = {
    "string": "text, not empty, without a NUL character",
    "boolean": "true or false",
    "array": "a list of corpora",
    "object": "a mapping of settings",
    "null": "null",
}
