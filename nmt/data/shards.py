"""Writes and reads shards, which are Arrow files with sentence pairs as text or as token ids.

A split of prepared data is a folder that `datasets.load_from_disk` can read. The Arrow stream files
of a split have the columns `source` and `target` and the additional columns of the pairs (see
`Pair`). Each source and each target is a list of int32 token ids, with EOS and without BOS. Every
file has a single record batch, so that the ids of each side form one flat array that NumPy can read
directly from the memory-mapped file.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nmt.data.pair import Pair, TextPair, TokenPair
from nmt.errors import InputError, naming, of_system
from nmt.storage import atomic
from nmt.storage.opening import check_regular

_TOKENS = pa.schema([("source", pa.list_(pa.int32())), ("target", pa.list_(pa.int32()))])
_TEXT = pa.schema([("source", pa.string()), ("target", pa.string()), ("hash", pa.uint64())])


@dataclass(frozen=True)
class Side:
    """The token ids of one side of a shard; indexing with i returns the ids of pair i, with EOS.

    An additional column with one number per target token is also stored as a `Side`.
    """

    values: np.ndarray  # (tokens,) memory-mapped; ids are int32
    offsets: np.ndarray  # (pairs + 1,) int32: pair i is values[offsets[i]:offsets[i + 1]]

    def __getitem__(self, i: int) -> np.ndarray:
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Returns the number of tokens of each sentence, including EOS: (pairs,) int32."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Shard:
    """A part of a corpus, with the pairs stored as token ids in corpus order."""

    path: Path
    source: Side
    target: Side
    weight: float  # average number of times that each pair occurs in an epoch
    first: int  # index of the shard's first pair within the split
    columns: Mapping[str, np.ndarray | Side] = field(default_factory=dict)  # (pairs,), see `Pair`

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    def __getitem__(self, i: int) -> TokenPair:
        columns = {name: column[i] for name, column in self.columns.items()}
        return Pair(self.source[i], self.target[i], columns)


def pairs_of(shards: Sequence[Shard], indices: np.ndarray) -> list[TokenPair]:
    """Returns the pairs at the given indices of a split."""
    firsts = np.asarray([shard.first for shard in shards])
    owners = np.searchsorted(firsts, indices, side="right") - 1
    return [
        shards[owner][index - firsts[owner]] for owner, index in zip(owners, indices, strict=True)
    ]


def write_shard(path: Path, pairs: Sequence[TokenPair]) -> None:
    """Writes token ids atomically to an Arrow stream file with a single record batch."""
    sides = [_lists([pair.source for pair in pairs]), _lists([pair.target for pair in pairs])]
    _write(path, _TOKENS, sides, pairs)


def _lists(ids: Sequence[np.ndarray]) -> pa.Array:
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = np.concatenate([np.empty(0, np.int32), *ids])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, pa.int32()))


def write_text(path: Path, pairs: Sequence[TextPair], hashes: Sequence[int]) -> None:
    """Writes normalized pairs and their hashes atomically to an Arrow stream file."""
    columns = [pair.source for pair in pairs], [pair.target for pair in pairs], hashes
    required = [pa.array(column, field.type) for column, field in zip(columns, _TEXT, strict=True)]
    _write(path, _TEXT, required, pairs)


def read_text(path: Path) -> pa.RecordBatch:
    """Memory-maps a file that `write_text` wrote, and returns all its columns."""
    return _read(path, _TEXT)


def text_pairs(rows: pa.RecordBatch) -> list[TextPair]:
    """Converts the rows from `read_text` into sentence pairs."""
    names = rows.schema.names[len(_TEXT) :]
    source, target, _, *extra = (column.to_pylist() for column in rows.columns)
    columns = (
        {name: values[i] for name, values in zip(names, extra, strict=True)}
        for i in range(len(rows))
    )
    return list(map(Pair, source, target, columns))


def read_shard(path: Path, weight: float = 1.0, first: int = 0) -> Shard:
    """Memory-maps a file that `write_shard` wrote, and returns the shard.

    Args:
        weight: average number of times that each pair occurs in an epoch.
        first: index of the shard's first pair within the split.

    Raises:
        InputError: the file is missing or damaged.
    """
    batch = _read(path, _TOKENS)
    source, target, *extra = (_values(column, path) for column in batch.columns)
    columns = dict(zip(batch.schema.names[len(_TOKENS) :], extra, strict=True))
    return Shard(path, source, target, weight, first, columns)  # type: ignore[arg-type]


def _values(column: pa.Array, path: Path) -> np.ndarray | Side:
    is_list = pa.types.is_list(column.type)
    values = column.values if is_list else column
    if column.null_count or values.null_count or column.offset:
        raise InputError(f"{path} is damaged (it contains too few values). Run nmt prepare again.")
    numbers = np.from_dlpack(values)  # to_numpy() imports pandas
    return Side(numbers, np.from_dlpack(column.offsets)) if is_list else numbers


def _write(
    path: Path,
    schema: pa.Schema,
    required: Sequence[pa.Array],
    pairs: Sequence[Pair[Any]],
) -> None:
    """Writes the columns of `schema`, followed by the additional columns of the pairs."""
    names = [*pairs[0].columns] if pairs else []
    extra = [pa.array([pair.columns[name] for pair in pairs]) for name in names]
    batch = pa.record_batch([*required, *extra], names=[*schema.names, *names])
    with (
        atomic.new_file(path) as aside,
        pa.OSFile(str(aside), "wb") as file,
        pa.ipc.new_stream(file, batch.schema) as writer,
    ):
        writer.write_batch(batch)


def _read(path: Path, schema: pa.Schema) -> pa.RecordBatch:
    """Memory-maps a file, checks its structure, and returns its only record batch.

    Args:
        schema: the schema that the file's first columns must have.
    """
    check_regular(path)
    try:
        with (
            naming(str(path)),
            pa.memory_map(str(path)) as file,
            pa.ipc.open_stream(file) as reader,
        ):
            if not pa.schema([*reader.schema][: len(schema)]).equals(schema):
                raise pa.ArrowInvalid("unexpected columns")
            batches = list(reader)
            if len(batches) != 1:
                raise pa.ArrowInvalid(f"{len(batches)} record batches")
            batches[0].validate()
            return batches[0]
    except FileNotFoundError:
        raise InputError(f"{path} is missing. Run nmt prepare again.") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # a system error, not damaged content
            raise of_system(error) from None
        reason = str(error).split("\n")[0]
        raise InputError(f"{path} is damaged ({reason}). Run nmt prepare again.") from None


def write_split_description(folder: Path, files: Sequence[str], fingerprint: str) -> None:
    """Writes the two metadata files that `datasets.load_from_disk` expects in a folder.

    If an Arrow file lacks a column that other files have, `datasets` fills the column with nulls.

    Args:
        files: names of the Arrow files in `folder`, in the order of the pairs.
        fingerprint: a string that identifies the content in the caches of `datasets`.
    """
    features: dict[str, Any] = {}
    for name in files:
        with pa.memory_map(str(folder / name)) as file, pa.ipc.open_stream(file) as reader:
            features |= {field.name: _feature(field.type) for field in reader.schema}
    state: dict[str, Any] = {
        "_data_files": [{"filename": name} for name in files],
        "_fingerprint": fingerprint,
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": folder.name,
    }
    info = {"description": "", "citation": "", "homepage": "", "license": ""} | {
        "features": features
    }
    atomic.write_file(folder / "state.json", json.dumps(state, indent=2) + "\n")
    atomic.write_file(folder / "dataset_info.json", json.dumps(info, indent=2) + "\n")


def _feature(kind: pa.DataType) -> dict[str, Any]:
    """Converts an Arrow type to the notation of `datasets`, which uses NumPy's type names."""
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    return {"dtype": str(np.dtype(kind.to_pandas_dtype())), "_type": "Value"}
