"""Keys of JSON objects, one a line."""

import json
from pathlib import Path
from typing import Any

from nmt.config import Data, JsonLines
from nmt.data.corpora.pairs import Pairs
from nmt.errors import InputError
from nmt.storage.opening import read_lines


def describe(corpus: JsonLines) -> str:
    return f"jsonl {corpus.jsonl.path}"


def files(corpus: JsonLines) -> list[Path]:
    return [Path(corpus.jsonl.path)]


def check(corpus: JsonLines, data: Data) -> None:
    """Nothing: what a line lacks is found when it is read."""


def pairs(corpus: JsonLines, data: Data, split: str) -> Pairs:
    file, path = corpus.jsonl, Path(corpus.jsonl.path)
    for number, line in enumerate(read_lines(path), 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"not JSON ({error}), {path}:{number}, one JSON object a line was expected"
            ) from None
        where = f"{path}:{number}"
        yield _text(row, file.source_column, where), _text(row, file.target_column, where)


def _text(row: Any, dotted: str, where: str) -> str:
    value = row
    for key in [dotted] if isinstance(row, dict) and dotted in row else dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            raise InputError(f"no key {dotted}, {where}, correct the line or the column's name")
        value = value[key]
    if not isinstance(value, str | None):
        raise InputError(f"{dotted} is not text, {where}, correct the line or the column's name")
    return value or ""  # null: an empty side, which cleaning drops and counts
