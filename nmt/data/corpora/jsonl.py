"""Keys of JSON objects, one a line."""

import json
from pathlib import Path
from typing import Any

from nmt.config import ColumnsFile, Data
from nmt.data.corpora.kind import Kind, Pairs
from nmt.errors import InputError
from nmt.storage.opening import read_lines


class Jsonl(Kind):
    """JSON lines; what a line lacks is found when it is read."""

    def pairs(self, settings: ColumnsFile, data: Data, split: str) -> Pairs:
        path = Path(settings.path)
        for number, line in enumerate(read_lines(path), 1):
            where = f"{path}:{number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"not JSON ({error}), {where}, write one JSON object a line"
                ) from None
            yield (
                _text(row, settings.source_column, where),
                _text(row, settings.target_column, where),
            )


def _text(row: Any, dotted: str, where: str) -> str:
    """The text under a key; a dot reaches into an inner object, unless the key itself has it."""
    value = row
    for key in [dotted] if isinstance(row, dict) and dotted in row else dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            raise InputError(f"no key {dotted}, {where}, correct the line or the column's name")
        value = value[key]
    if not isinstance(value, str | None):
        raise InputError(f"{dotted} is not text, {where}, correct the line or the column's name")
    return value or ""  # null: an empty side, which cleaning drops and counts
