"""Joins JavaScript modules into one script, so that a page needs no request per module."""

import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function) (\w+))", re.MULTILINE)


def joined(modules: Mapping[str, str], entry: str, done: set[str]) -> str:
    """Returns a script of a module and of everything that it imports.

    Each module becomes a global constant, `$name`, with its exports as properties. Dynamic imports
    stay as they are.

    Args:
        modules: the source of each module by its name. Imports name their bindings in braces, and
            exports are constants and functions.
        entry: the module that imports the others.
        done: modules that an earlier script of the page contains; the new ones are added.

    Raises:
        KeyError: a module is missing.
    """
    done.add(entry)
    source, parts = modules[entry], []
    for _, name in _IMPORT.findall(source):
        if name not in done:
            parts.append(joined(modules, name, done))
    body = _EXPORT.sub("", _IMPORT.sub(r"const \1 = $\2;\n", source))
    parts.append(f"const ${entry} = (() => {{\n{body}\nreturn {exports(source)};\n}})();\n")
    return "".join(parts)


def exports(source: str) -> str:
    """Returns what a module exports as an object literal or a pattern: `{ find, element }`."""
    return f"{{ {', '.join(_EXPORT.findall(source))} }}"
