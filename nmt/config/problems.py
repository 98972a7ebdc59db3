"""Describes each problem of a configuration in one line that names the file, line and key."""

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
    """Returns a message for each problem that pydantic found, but only one message per corpus.

    Args:
        origins: maps each key to the file and line that set it.
        name: name of the configuration, which messages about missing settings use.
    """
    chosen: dict[KeyPath | int, ErrorDetails] = {}
    for number, problem in enumerate(error.errors()):
        if problem["type"] == "too_short" and problem["input"]:
            continue  # pydantic also reports a list as too short if all its entries are invalid
        loc = problem["loc"]
        place = loc[:3] if len(loc) > 2 and isinstance(loc[2], int) else number
        # A misspelled key of a corpus is also reported as missing.
        is_unknown = problem["type"] == "extra_forbidden"
        if place not in chosen or (is_unknown and chosen[place]["type"] != "extra_forbidden"):
            chosen[place] = problem
    return list(dict.fromkeys(_describe(problem, origins, name) for problem in chosen.values()))


def _describe(problem: ErrorDetails, origins: Mapping[KeyPath, str], name: str) -> str:
    path, section = _place(problem["loc"])
    key = ".".join(map(str, path))
    where = next((origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origins), name)
    try:
        found = json.dumps(problem["input"], ensure_ascii=False, default=str)
    except RecursionError:
        found = "a deeply nested value"
    found = found if len(found) <= 60 else found[:57] + "..."
    match problem["type"]:
        case "extra_forbidden":
            known = list(section.model_fields) if section else []
            word, colon, value = str(path[-1]).partition(":")
            if colon and word in known:
                return f'{where}: Write "{word}: {value}", with a space after the colon.'
            near = _nearest(path, known)
            hint = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(known)}."
            return f"{where}: Unknown key {key}. {hint}"
        case "value_error":  # incompatible settings, which the text names
            text = str(problem["ctx"]["error"])
            keys = (tuple(word.split(".")) for word in re.findall(r"\b[a-z]+\.[a-z_]+", text))
            places = dict.fromkeys(origins[key] for key in keys if key in origins)
            return f"{' and '.join(places) or where}: {text}."
        case "union_tag_not_found":
            kinds = ", ".join(CORPUS_KINDS)
            return f"{where}: {key} is {found}, but must have exactly one of the keys {kinds}."
        case "string_unicode" if not path:
            key = problem["input"]
            return f"{origins.get((key,), name)}: The key {key!a} is not valid Unicode. Remove it."
        case "missing":
            return f"{where}: {key} is missing."
    name = next(part for part in reversed(path) if isinstance(part, str))
    wanted = allowed(section, name) if section else _allowed({})
    return f"{where}: {key} must be {wanted}, not {found}."


def _nearest(path: KeyPath, known: list[str]) -> list[str]:
    """Returns a list with the known key most similar to the last key of `path`, or []."""
    last, is_top = str(path[-1]), len(path) == 1
    below = {
        key: f"{name}.{key}"
        for name in Config.model_fields
        if is_top and (section := Config.below(name))
        for key in section.model_fields
    }
    if last in below:  # only the section is missing
        return [below[last]]
    if near := difflib.get_close_matches(last, known, n=1, cutoff=0.5):
        has_section = len(path) > 1 and all(isinstance(part, str) for part in path)
        return [".".join([*map(str, path[:-1]), near[0]] if has_section else near)]
    return [below[key] for key in difflib.get_close_matches(last, below, n=1, cutoff=0.7)]


def _place(loc: tuple[str | int, ...]) -> tuple[KeyPath, type[Section] | None]:
    """Converts the location in a pydantic error to a configuration key and the key's section.

    In a pydantic error location, the kind of a corpus precedes the keys of the corpus. If a setting
    accepts several types, its error location ends with the type whose validation failed.
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
    """Describes the valid values of a setting, such as "a whole number from 1 to 10 or auto"."""
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
        return "a list of strings"
    return _KINDS[schema.get("type", "object")]


_KINDS = {
    "string": "a non-empty string without NUL characters",
    "boolean": "true or false",
    "array": "a list of corpora",
    "object": "a mapping of settings",
    "null": "null",
}
