"""Reads and writes configuration files in a strict subset of YAML.

In YAML 1.1, which PyYAML implements, `no` is a boolean and `1e-9` is a string. In configuration
files, only `true` and `false` are booleans, and floats follow the YAML 1.2 core schema. Duplicate
keys, anchors, aliases and tags are rejected.
"""

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from nmt.errors import InputError
from nmt.storage.opening import small_file

MAX_BYTES = 1_000_000

KeyPath = tuple[str | int, ...]

_NUMBER = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_FLOAT = rf"{_NUMBER}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"


class _Loader(yaml.SafeLoader):
    """A SafeLoader that uses the YAML 1.2 core schema and rejects anchors and tags."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if getattr(event, "anchor", None):
            problem = "anchors and aliases are not supported"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        if getattr(event, "tag", None):
            problem = f"the tag {event.tag.replace(_TAG, '!!')} is not supported"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        return super().compose_node(parent, index)


_TAG = "tag:yaml.org,2002:"
_SCALARS = {  # for each type: the pattern of its scalars, and their possible first characters
    "null": (re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    "int": (re.compile(r"^(?:[-+]?[0-9]+)$"), list("-+0123456789")),
    "float": (re.compile(rf"^(?:{_FLOAT})$"), list("-+.0123456789")),
}
_Loader.yaml_implicit_resolvers = {}
for _kind, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _kind, _pattern, _first)


def _decimal(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(str(loader.construct_scalar(node)))  # PyYAML reads 010 as 8


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int | float:
    """Converts 1e5 to an integer, which all numeric settings accept; 100000.0 remains a float."""
    value = float(loader.construct_yaml_float(node))
    is_count = "e" in str(node.value).lower() and value.is_integer() and abs(value) < 2**53
    return int(value) if is_count else value


_Loader.add_constructor(f"{_TAG}int", _decimal)
_Loader.add_constructor(f"{_TAG}float", _number)


_COLON = ' Write "key: value", with a space after the colon.'
_REMEDIES = (  # for parts of PyYAML's messages
    ("could not find expected ':'", _COLON),
    (
        "mapping values are not allowed",
        ' Check the indentation, that the previous line has the form "key: value", and that a '
        'value with ": " is in quotes.',
    ),
    ("found character '\\t'", " Indent with spaces, not with tabs."),
    (
        "expected <block end>",
        " Check this line and the lines above it: each colon must be followed by a space, and keys "
        "of the same section must have the same indentation.",
    ),
    ("expected ',' or", " Close the bracket or brace that was opened above."),
)


def parse(text: str, name: str) -> tuple[Any, dict[KeyPath, int]]:
    """Returns the parsed value of a YAML text and the line number of each key.

    Args:
        text: a single YAML document.
        name: name of the text in error messages, such as a file name.

    Returns:
        The parsed value, which is None for an empty text, and a mapping from each key path to its
        line number, counted from 1.

    Raises:
        InputError: the text is not valid YAML, is nested too deeply, has duplicate keys, or
            contains anchors, aliases or tags.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            lines: dict[KeyPath, int] = {}
            problems: list[str] = []
            if node is not None:
                _collect_lines(node, (), lines, name, problems)
            if problems:
                raise InputError(*problems)
            return (None if node is None else loader.construct_document(node)), lines
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        remedy = next((text for part, text in _REMEDIES if part in str(error.problem)), "")
        # PyYAML reports a missing colon on the next line; the context is the key without a colon.
        mark = error.context_mark if remedy == _COLON else error.problem_mark
        line = f":{(mark or error.problem_mark).line + 1}" if error.problem_mark else ""
        raise InputError(f"{name}{line}: Invalid YAML ({error.problem}).{remedy}") from None
    except ReaderError as error:
        line = f":{text.count(chr(10), 0, error.position) + 1}"
        raise InputError(
            f"{name}{line}: Invalid YAML (the character U+{error.character:04X} is not allowed)."
        ) from None
    except RecursionError:
        raise InputError(f"{name}: The YAML is nested too deeply.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{name}: Invalid YAML ({error}).") from None


class _Dumper(yaml.SafeDumper):
    """A SafeDumper that quotes strings if `parse` would otherwise read them as another type."""


_Dumper.yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def dump(content: Any) -> str:
    """Converts a value to YAML in the order of its keys, so that `parse` returns an equal value."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def inline(value: Any) -> str:
    """Returns a value as one line of YAML, such as `null` or `{hub: x}`, for use in a message."""
    text = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=float("inf")
    )
    return text.removesuffix("...\n").strip()


def read(path: Path) -> tuple[Any, dict[KeyPath, int]]:
    """Parses a YAML file; raises InputError if the file is missing, too large or not UTF-8."""
    try:
        data = small_file(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # NUL or surrogate in path
        raise InputError(f"{path} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a directory. Specify a YAML file.") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: The line is not UTF-8. Save the file as UTF-8.") from None
    return parse(text, str(path))


def _collect_lines(
    node: yaml.Node, at: KeyPath, lines: dict[KeyPath, int], name: str, problems: list[str]
) -> None:
    """Adds each key's line number to `lines`, and a message per duplicate key to `problems`."""
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _collect_lines(child, (*at, index), lines, name, problems)
    elif isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag != f"{_TAG}str":
                raise InputError(f"{name}:{line}: A key is not a string. Enclose it in quotes.")
            path = (*at, key.value)
            if path in lines:
                dotted = ".".join(map(str, path))
                problems.append(
                    f"{name}:{line}: Duplicate key {dotted}, first on line {lines[path]}. Remove "
                    "one of them."
                )
                continue
            _collect_lines(child, path, lines, name, problems)
            lines[path] = line
