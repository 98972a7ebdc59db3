"""Bundles JavaScript modules into one script, so that a page does not request many files."""

import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function) (\w+))", re.MULTILINE)


def joined(modules: Mapping[str, str], entry: str, done: set[str]) -> str:
    """Returns a script that contains the module `entry` and all modules that it imports.

    Each module becomes a global constant, `$name`, whose properties are the exports of the module.
    Dynamic imports are not changed.

    Args:
        modules: maps the name of each module to its source. A module must list imported
            names in braces, and must not export anything other than constants and functions.
        entry: name of the module that imports the other modules.
        done: names of the modules that earlier scripts of the page contain. The new script does not
            contain these modules. The names of the modules in the new script are added to `done`.

    Raises:
        KeyError: an imported module is missing from `modules`.
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
    """Returns the names that a module exports as an object literal such as `{ find, element }`."""
    return f"{{ {', '.join(_EXPORT.findall(source))} }}"
