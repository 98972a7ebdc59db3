"""Shards on disk: Arrow files of text pairs (while preparing) and of token ids (for training).

A split of prepared data is a folder that `datasets.load_from_disk` reads: Arrow stream files with
the columns `source` and `target`, lists of int32 that end with EOS and have no BOS. Every file is
one record batch, so that its ids lie in two flat arrays and are used as numpy arrays straight
from the memory map.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nmt.errors import InputError, naming, of_system
from nmt.storage import atomic
from nmt.storage.opening import check_regular

_TOKENS = pa.schema([("source", pa.list_(pa.int32())), ("target", pa.list_(pa.int32()))])
_TEXT = pa.schema([("source", pa.string()), ("target", pa.string()), ("hash", pa.uint64())])
_FEATURE = {"feature": {"dtype": "int32", "_type": "Value"}, "_type": "List"}


@dataclass(frozen=True)
class Side:
    """The token ids of one side of a shard; `side[i]` are those of its pair i, EOS last."""

    values: np.ndarray  # (tokens,) int32, memory-mapped
    offsets: np.ndarray  # (pairs + 1,) int32: pair i is values[offsets[i]:offsets[i + 1]]

    def __getitem__(self, i: int) -> np.ndarray:
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """(pairs,) int32, tokens of each pair, EOS included."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Shard:
    """Some pairs of one corpus, in that corpus's order."""

    path: Path
    source: Side
    target: Side
    weight: float  # how often each pair is seen in an epoch
    first: int  # index of its first pair within the split

    def __len__(self) -> int:
        return len(self.source.offsets) - 1


def pairs_of(shards: Sequence[Shard], indices: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns source and target token ids of pairs, given by their index in the split."""
    firsts = np.asarray([shard.first for shard in shards])
    owners = np.searchsorted(firsts, indices, side="right") - 1
    return [
        (shards[owner].source[index - firsts[owner]], shards[owner].target[index - firsts[owner]])
        for owner, index in zip(owners, indices, strict=True)
    ]


def write_shard(
    path: Path, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
) -> None:
    """Writes token ids as an Arrow stream file of one record batch, whole or not at all.

    Args:
        source: for each pair its ids, EOS included; lists or int32 arrays.
        target: as many.
    """
    columns = [_lists(source), _lists(target)]
    _write(path, pa.record_batch(columns, schema=_TOKENS))


def _lists(ids: Sequence[Sequence[int]]) -> pa.Array:
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise ValueError(
            f"{offsets[-1]} tokens on one side of a shard, more than an Arrow list holds"
        )
    values = np.concatenate([np.empty(0, np.int32), *(np.asarray(i, np.int32) for i in ids)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, pa.int32()))


def write_text(path: Path, pairs: Sequence[tuple[str, str]], hashes: Sequence[int]) -> None:
    """Writes normalized pairs and the hash of each, whole or not at all."""
    columns = [[source for source, _ in pairs], [target for _, target in pairs], hashes]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _TEXT, strict=True)]
    _write(path, pa.record_batch(arrays, schema=_TEXT))


def read_text(path: Path) -> pa.RecordBatch:
    """The pairs that `write_text` wrote, memory-mapped: columns source, target, hash."""
    return _read(path, _TEXT)


def read_shard(path: Path) -> tuple[Side, Side]:
    """Source and target of what `write_shard` wrote, memory-mapped; InputError if it is damaged."""
    batch = _read(path, _TOKENS)
    return _side(batch.column("source"), path), _side(batch.column("target"), path)


def _side(column: pa.ListArray, path: Path) -> Side:
    values, offsets = column.values, column.offsets
    if column.null_count or values.null_count or column.offset:
        raise InputError(f"damaged file (missing values), {path}, run nmt prepare again")
    return Side(np.from_dlpack(values), np.from_dlpack(offsets))  # to_numpy() imports pandas


def _write(path: Path, batch: pa.RecordBatch) -> None:
    with (
        atomic.new_file(path) as aside,
        pa.OSFile(str(aside), "wb") as file,
        pa.ipc.new_stream(file, batch.schema) as writer,
    ):
        writer.write_batch(batch)


def _read(path: Path, schema: pa.Schema) -> pa.RecordBatch:
    """The one record batch of a file, memory-mapped, its structure checked."""
    check_regular(path)
    try:
        with (
            naming(str(path)),
            pa.memory_map(str(path)) as file,
            pa.ipc.open_stream(file) as reader,
        ):
            if not reader.schema.equals(schema):
                raise pa.ArrowInvalid("unexpected columns")
            batches = list(reader)
            if len(batches) != 1:
                raise pa.ArrowInvalid(f"{len(batches)} record batches")
            batches[0].validate()
            return batches[0]
    except FileNotFoundError:
        raise InputError(f"missing file, {path}, run nmt prepare again") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # the system's, not of what the file holds
            raise of_system(error) from None
        reason = str(error).split("\n")[0]
        raise InputError(f"damaged file ({reason}), {path}, run nmt prepare again") from None


def write_split_description(folder: Path, files: Sequence[str], fingerprint: str) -> None:
    """Writes the two small files by which `datasets.load_from_disk` knows a folder.

    Args:
        files: names of the Arrow files in `folder`, in order.
        fingerprint: names this content in the library's caches.
    """
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
        "features": {"source": _FEATURE, "target": _FEATURE}
    }
    atomic.write_file(folder / "state.json", json.dumps(state, indent=2) + "\n")
    atomic.write_file(folder / "dataset_info.json", json.dumps(info, indent=2) + "\n")
