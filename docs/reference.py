"""Generates docs/reference.md, which documents the public Python interface and every setting.

    python docs/reference.py > docs/reference.md

Signatures, comments and docstrings are copied from the source without changes.
"""

import ast
import inspect
import re
import textwrap
from pathlib import Path

import nmt
from nmt.reporting.settings import settings_text

_HEAD = """\
# Reference

This page is generated from the source by `python docs/reference.py`. It documents every setting and
the public Python interface, which consists of the names that the package `nmt` exports. All other
names ([the code](code.md)) may change without notice. `nmt COMMAND --help` lists the options of a
command.
"""
_SETTINGS = """\
## Settings

`nmt config` prints this list. [Your data](data.md) shows example configurations.
"""


def page() -> str:
    """Returns the content of docs/reference.md."""
    names = [name for name in nmt.__all__ if not name.startswith("_")]
    parts = [_HEAD, *map(_section, sorted(names, key=_rank)), _SETTINGS, _fenced(settings_text())]
    return "\n".join(parts)


def _rank(name: str) -> tuple[bool, bool, str]:
    """Returns the sort key of a name: the Translator comes first, and errors come last."""
    return name.endswith("Error"), name != "Translator", name


def _section(name: str) -> str:
    thing = getattr(nmt, name)
    source = Path(inspect.getsourcefile(thing) or "").read_text(encoding="utf-8")
    node = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == thing.__name__
    )
    heading = f"## {name}\n\n<!-- not run: stubs -->\n"
    import_line = f"from nmt import {name}\n\n\n"
    stub = _stub(node, source.splitlines())
    if name != thing.__name__:  # a longer name needs lines of its own
        stub = re.sub(r"def \w+\((.+)\) -> (.+):", rf"def {name}(\n    \1\n) -> \2:", stub, count=1)
    stub = re.sub(r" *# type: ignore\S*", "", stub)
    return f"{heading}\n{_fenced(import_line + stub, 'python')}"


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def _stub(node: ast.ClassDef | ast.FunctionDef, lines: list[str]) -> str:
    """Returns the signature and docstring of a function, or of a class with its public members."""
    first = node.body[0]
    begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    is_one_line = lines[first.lineno - 1].endswith(": ...")
    head = lines[begin - 1 : first.lineno - (not is_one_line)]
    if not ast.get_docstring(node):  # an overload, or an __init__ that the class documents
        return textwrap.dedent("\n".join(head)).removesuffix(" ...") + " ..."
    parts = [textwrap.dedent("\n".join([*head, *lines[first.lineno - 1 : first.end_lineno]]))]
    members = node.body[1:] if isinstance(node, ast.ClassDef) else []
    fields = [each for each in members if isinstance(each, ast.AnnAssign)]
    if fields:
        parts.append("\n".join(lines[fields[0].lineno - 1 : fields[-1].end_lineno]))
    for each in members:
        if isinstance(each, ast.FunctionDef) and (each.name == "__init__" or each.name[0] != "_"):
            parts.append(textwrap.indent(_stub(each, lines), "    "))
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
