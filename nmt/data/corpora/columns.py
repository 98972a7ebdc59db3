"""Reads pairs from table columns and from the values of JSON objects."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nmt.config import Section
from nmt.data.pair import Pair, TextPair
from nmt.errors import InputError

BATCH = 10_000  # number of table rows in memory at a time
_SUFFIX = "_column"  # suffix of the settings that name columns
_SENTENCES = ("source", "target")


def columns_of(settings: Section) -> dict[str, Any]:
    """Maps NAME to the value of NAME_column, for each such setting that is not null."""
    return {
        key.removesuffix(_SUFFIX): name
        for key, name in settings
        if key.endswith(_SUFFIX) and name is not None
    }


def pair_of(row: Mapping[str, Any], where: str) -> TextPair:
    """Extracts a sentence pair from a table row or a JSON object.

    Args:
        row: maps the name of each column of the pair to its value.
        where: the file name and the line or row number, for error messages.

    Raises:
        InputError: the source or the target is not text, or the value of another column is not a
            finite, non-negative number.
    """
    columns = {column: _number(row, column, where) for column in row if column not in _SENTENCES}
    return Pair(_text(row, "source", where), _text(row, "target", where), columns)


def _text(row: Mapping[str, Any], column: str, where: str) -> str:
    value = row[column]
    if value is not None and not isinstance(value, str):
        raise InputError(
            f"The {column} in {where} is not text. Correct it, or choose another {column}{_SUFFIX}."
        )
    return value or ""  # null becomes an empty side, which cleaning drops and counts


def _number(row: Mapping[str, Any], column: str, where: str) -> float:
    """Returns the number in a column, rounded to fp32 because the loss is computed in fp32."""
    value = row[column]
    try:
        is_odd = isinstance(value, bool) or re.search(r"[^ -^`-~]", str(value))  # such as 1_0
        number = math.nan if is_odd else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= float(np.finfo(np.float32).max):
        raise InputError(
            f"The {column} in {where} must be a finite, non-negative number, not {value!r:.60}. "
            f"Correct it, or choose another {column}{_SUFFIX}."
        )
    return float(np.float32(number))


def leaves(fields: Any, above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], pa.DataType]]:
    """Returns the path and type of every column of a schema, including columns inside structs."""
    found: list[tuple[tuple[str, ...], pa.DataType]] = []
    for field in fields:
        path = (*above, field.name)
        if pa.types.is_struct(field.type):
            found += leaves([field.type.field(i) for i in range(field.type.num_fields)], path)
        else:
            found.append((path, field.type))
    return found


def resolve(schema: pa.Schema, columns: Mapping[str, str], where: str) -> dict[str, Sequence[str]]:
    """Maps each column of the pairs to its path in a schema.

    Args:
        columns: the result of `columns_of`, whose values are dotted paths in the schema.
        where: name of the file, for error messages.

    Raises:
        InputError: a column is missing or ambiguous, or the type of the source or target column is
            not text.
    """
    found, paths = leaves(schema), dict[str, Sequence[str]]()
    for column, dotted in columns.items():
        matching = [(path, kind) for path, kind in found if ".".join(path) == dotted]
        if not matching:
            known = ", ".join(".".join(path) for path, _ in found)
            raise InputError(f"{where} has no column {dotted}. Choose one of its columns: {known}.")
        path, kind = matching[0]
        if len(matching) > 1 or schema.names.count(path[0]) > 1:
            raise InputError(f"{where} has two columns named {dotted}. Rename one of them.")
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if column in _SENTENCES and not is_text:
            raise InputError(f"Column {dotted} of {where} has type {kind}. Specify a text column.")
        paths[column] = path
    return paths


def pairs_of_table(
    batches: Iterator[pa.Table | pa.RecordBatch], paths: Mapping[str, Sequence[str]], where: str
) -> Iterator[TextPair]:
    """Yields one sentence pair per table row, read from the columns at `paths` (see `resolve`)."""
    number = 0  # number of the row
    for batch in batches:
        values = [_values(batch, path, where) for path in paths.values()]
        for number, row in enumerate(zip(*values, strict=True), number + 1):  # noqa: B020
            yield pair_of(dict(zip(paths, row, strict=True)), f"{where}, row {number}")


def _values(rows: pa.Table | pa.RecordBatch, path: Sequence[str], where: str) -> list[Any]:
    column = rows.column(path[0])
    for key in path[1:]:
        column = pc.struct_field(column, key)
    try:
        return column.to_pylist()
    except UnicodeDecodeError as error:
        raise InputError(
            f"Column {'.'.join(path)} of {where} is not UTF-8 ({error.reason}). Convert it "
            "to UTF-8."
        ) from None
