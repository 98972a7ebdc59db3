"""Reads pairs from named columns of a Parquet file."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nmt.config import ColumnsFile, Data
from nmt.data.corpora.columns import BATCH, columns_of, pairs_of_table, resolve
from nmt.data.corpora.kind import Kind, Pairs
from nmt.errors import InputError
from nmt.storage.opening import opened


class Parquet(Kind):
    """A corpus in a Parquet file, which is read batch by batch."""

    def check(self, settings: ColumnsFile, data: Data) -> None:
        with _opened(Path(settings.path)) as file:
            _paths(file, settings)

    def pairs(self, settings: ColumnsFile, data: Data, split: str) -> Pairs:
        with _opened(Path(settings.path)) as file:
            paths = _paths(file, settings)
            names = sorted({path[0] for path in paths.values()})
            yield from pairs_of_table(file.iter_batches(BATCH, columns=names), paths, settings.path)


def _paths(file: pq.ParquetFile, settings: ColumnsFile) -> dict[str, Sequence[str]]:
    return resolve(file.schema_arrow, columns_of(settings), settings.path)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    with opened(path):  # raises clearer errors than pyarrow if the file cannot be opened
        pass
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(
            f"{path} is not a valid Parquet file ({reason}). Check that it is the right file, "
            "or download it again."
        ) from None
