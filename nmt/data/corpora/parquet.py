"""Named columns of a parquet file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nmt.config import ColumnsFile, Data
from nmt.data.corpora.columns import BATCH, resolve, strings
from nmt.data.corpora.kind import Kind, Pairs
from nmt.errors import InputError
from nmt.storage.opening import opened


class Parquet(Kind):
    """A parquet file, read batch by batch."""

    def check(self, settings: ColumnsFile, data: Data) -> None:
        with _opened(Path(settings.path)) as file:
            _columns(file, settings)

    def pairs(self, settings: ColumnsFile, data: Data, split: str) -> Pairs:
        with _opened(Path(settings.path)) as file:
            columns = _columns(file, settings)
            for batch in file.iter_batches(BATCH, columns=sorted({path[0] for path in columns})):
                sides = (strings(batch, path, settings.path) for path in columns)
                yield from zip(*sides, strict=True)


def _columns(file: pq.ParquetFile, settings: ColumnsFile) -> list[tuple[str, ...]]:
    """The paths of the two columns."""
    names = (settings.source_column, settings.target_column)
    return [resolve(file.schema_arrow, name, settings.path) for name in names]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    with opened(path):  # for its messages
        pass
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(f"damaged parquet ({reason}), {path}, copy it again") from None
