"""Text columns of tables, as parquet files and datasets of the hub have them."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nmt.errors import InputError

BATCH = 10_000  # rows in memory at a time


def leaves(fields: Any, above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], pa.DataType]]:
    """Every column of a schema with its type, those inside structs included."""
    found: list[tuple[tuple[str, ...], pa.DataType]] = []
    for field in fields:
        path = (*above, field.name)
        if pa.types.is_struct(field.type):
            found += leaves([field.type.field(i) for i in range(field.type.num_fields)], path)
        else:
            found.append((path, field.type))
    return found


def resolve(schema: pa.Schema, dotted: str, where: str) -> tuple[str, ...]:
    """The path of the text column that `dotted` names; InputError, which says `where`, if none."""
    found = leaves(schema)
    matching = [(path, kind) for path, kind in found if ".".join(path) == dotted]
    if not matching:
        known = ", ".join(".".join(path) for path, _ in found)
        raise InputError(f"no column {dotted}, {where}, the columns are: {known}")
    path, kind = matching[0]
    if len(matching) > 1 or schema.names.count(path[0]) > 1:
        raise InputError(f"two columns are called {dotted}, {where}, rename one of them")
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"column {dotted} is {kind}, {where}, name a column of text")
    return path


def strings(rows: pa.Table | pa.RecordBatch, path: tuple[str, ...], where: str) -> list[str]:
    """A column's texts; `path` is as `resolve` gives it."""
    column = rows.column(path[0])
    for key in path[1:]:
        column = pc.struct_field(column, key)
    try:
        return [text or "" for text in column.to_pylist()]  # null: an empty side, dropped, counted
    except UnicodeDecodeError as error:
        raise InputError(
            f"column {'.'.join(path)} is not UTF-8 ({error.reason}), {where}, write it as UTF-8"
        ) from None
