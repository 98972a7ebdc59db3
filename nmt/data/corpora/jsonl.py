"""Keys of JSON objects, one a line."""

import json
from pathlib import Path
from typing import Any

from nmt.config import ColumnsFile, Data
from nmt.data.corpora.columns import columns_of, pair_of
from nmt.data.corpora.kind import Kind, Pairs
from nmt.errors import InputError
from nmt.storage.opening import read_lines


class Jsonl(Kind):
    """JSON lines; what a line lacks is found when it is read."""

    def pairs(self, settings: ColumnsFile, data: Data, split: str) -> Pairs:
        path, columns = Path(settings.path), columns_of(settings)
        for number, line in enumerate(read_lines(path), 1):
            where = f"{path}:{number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"not JSON ({error}), {where}, write one JSON object a line"
                ) from None
            values = {name: _value(row, dotted, where) for name, dotted in columns.items()}
            yield pair_of(values, where)


def _value(row: Any, dotted: str, where: str) -> Any:
    """Returns the value under a key; a dot reaches into an object, unless the key contains it."""
    value = row
    for key in [dotted] if isinstance(row, dict) and dotted in row else dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            raise InputError(f"no key {dotted}, {where}, correct the line or the column's name")
        value = value[key]
    return value
