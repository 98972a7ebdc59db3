"""Named columns of a parquet file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nmt.config import Data, Parquet
from nmt.data.corpora.columns import BATCH, resolve, strings
from nmt.data.corpora.pairs import Pairs
from nmt.errors import InputError
from nmt.storage.opening import opened


def describe(corpus: Parquet) -> str:
    return f"parquet {corpus.parquet.path}"


def files(corpus: Parquet) -> list[Path]:
    return [Path(corpus.parquet.path)]


def check(corpus: Parquet, data: Data) -> None:
    with _opened(Path(corpus.parquet.path)) as file:
        _columns(file, corpus)


def pairs(corpus: Parquet, data: Data, split: str) -> Pairs:
    with _opened(Path(corpus.parquet.path)) as file:
        columns = _columns(file, corpus)
        for batch in file.iter_batches(BATCH, columns=sorted({path[0] for path in columns})):
            sides = (strings(batch, path, corpus.parquet.path) for path in columns)
            yield from zip(*sides, strict=True)


def _columns(file: pq.ParquetFile, corpus: Parquet) -> list[tuple[str, ...]]:
    names = (corpus.parquet.source_column, corpus.parquet.target_column)
    return [resolve(file.schema_arrow, name, corpus.parquet.path) for name in names]


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
