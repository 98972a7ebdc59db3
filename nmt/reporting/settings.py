"""Describes all settings and reads the shipped configurations for `nmt config`.

The shipped configurations are in `nmt/configs`. In a checkout, `nmt/configs` is a symbolic link to
`configs`. In an installed package, `nmt/configs` is a directory.
"""

import difflib
import json
import textwrap
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from nmt.config import CORPUS_KINDS, Config, Section, allowed, read_merged, strict_yaml
from nmt.errors import ArgumentError

_WIDTH, _COLUMN = 96, 36


def settings_text() -> str:
    """Returns a text that describes all settings and lists the shipped configurations."""
    blocks = ["Settings of a configuration file: name, default, allowed values, meaning."]
    for name, field in Config.model_fields.items():
        section = Config.below(name)
        assert section
        blocks.append("\n".join([f"{name}: {field.description}", *_lines_of(section)]))
        if name == "data":
            blocks += [
                "Each entry of train, validation and test has one of these kinds:",
                *(
                    "\n".join([f"- {kind}: {section.__doc__}", *_lines_of(section)])
                    for kind, section in CORPUS_KINDS.items()
                ),
            ]
    blocks.append(
        "base: FILE includes the settings of another file; the path is relative to this file. "
        "Settings in\nthis file override the included settings."
    )
    names = textwrap.fill(", ".join(shipped()), _WIDTH, break_on_hyphens=False)
    blocks.append(f"Shipped configurations (`nmt config NAME > FILE.yaml` writes one):\n{names}")
    return "\n\n".join(blocks)


def shipped() -> list[str]:
    """Returns the names of the shipped configurations, such as demo and table3/base."""
    folder = _folder()
    paths = [*folder.glob("*.yaml"), *folder.glob("*/*.yaml")]
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in paths)


def shipped_text(name: str) -> str:
    """Returns a shipped configuration as YAML, including the settings in its `base:` file.

    Raises:
        ArgumentError: there is no shipped configuration with this name. The error message suggests
            the most similar name.
    """
    names = shipped()
    if name not in names:
        near = difflib.get_close_matches(name.removesuffix(".yaml"), names, n=1)
        hint = f"Did you mean {near[0]}?" if near else 'Run "nmt config" to list all names.'
        raise ArgumentError("nmt has no configuration named {}. {}", name, hint)
    path = _folder() / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    if "base" not in (strict_yaml.read(path)[0] or {}):
        return text.rstrip("\n")
    head = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return "\n".join([*head, strict_yaml.dump(read_merged(path)).rstrip("\n")])


def _folder() -> Path:
    return Path(str(resources.files("nmt"))) / "configs"


def _lines_of(section: type[Section], prefix: str = "  ") -> list[str]:
    lines: list[str] = []
    for key, field in section.model_fields.items():
        inner = section.below(key)
        if inner:
            lines += [f"{prefix}{key}:", *_lines_of(inner, prefix + "  ")]
        else:
            value = f"{prefix}{key}: {_default(field)}"
            lines.append(f"{value:<{_COLUMN}}  {allowed(section, key)}")
            indent = prefix + "    "
            lines += textwrap.wrap(
                field.description or "", _WIDTH, initial_indent=indent, subsequent_indent=indent
            )
    return lines


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value: Any = field.default
    return value if isinstance(value, str) else json.dumps(value)
