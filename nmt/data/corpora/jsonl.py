"""Reads pairs from JSON Lines files, which have one JSON object per line."""

import json
from pathlib import Path
from typing import Any

from nmt.config import ColumnsFile, Data
from nmt.data.corpora.columns import columns_of, pair_of
from nmt.data.corpora.kind import Kind, Pairs
from nmt.errors import InputError
from nmt.storage.opening import read_lines


class Jsonl(Kind):
    """A corpus in a JSON Lines file; a line that lacks a key raises an error when it is read."""

    def pairs(self, settings: ColumnsFile, data: Data, split: str) -> Pairs:
        path, columns = Path(settings.path), columns_of(settings)
        for number, line in enumerate(read_lines(path), 1):
            where = f"{path}:{number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{where} is not valid JSON ({error}). Write one JSON object per line."
                ) from None
            values = {name: _value(row, dotted, where) for name, dotted in columns.items()}
            yield pair_of(values, where)


def _value(row: Any, dotted: str, where: str) -> Any:
    """Returns the value of a key in `row`.

    If `row` has no key "a.b", returns `row["a"]["b"]`.
    """
    value = row
    for key in [dotted] if isinstance(row, dict) and dotted in row else dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            raise InputError(
                f"{where} has no key {dotted}. Correct the line, or the key in the configuration."
            )
        value = value[key]
    return value
