"""Prints the message and place of each error that nmt and its recipes report on one line.

    python tests/error_messages.py

An expression in braces stands for the value that a message contains.
"""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import nmt.errors

REPORTED = {name for name in vars(nmt.errors) if name.endswith("Error")}
REPORTED |= {"HTTPException", "ArgumentTypeError", "_refusal"}


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each reported error that a file creates."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in REPORTED:
                for i, argument in enumerate(node.args):
                    if " " in (text := _text(argument)):
                        for value in node.args[i + 1 :]:
                            text = text.replace("{}", f"{{{ast.unparse(value)}}}", 1)
                        yield node.lineno, text


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case ast.JoinedStr(values=values):
            return "".join(map(_text, values)).replace("{{", "{").replace("}}", "}")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
        case _:
            return ""


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    for path in sorted([*Path("nmt").rglob("*.py"), *Path("recipes").rglob("*.py")]):
        for line, text in sorted(messages(path)):
            print(f"{text}  ({path}:{line})")
