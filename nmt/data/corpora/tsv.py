"""Columns of one tab-separated file."""

from pathlib import Path

from nmt.config import Data, Tsv
from nmt.data.corpora.pairs import Pairs
from nmt.errors import InputError
from nmt.storage.opening import read_lines


def describe(corpus: Tsv) -> str:
    return f"tsv {corpus.tsv.path}"


def files(corpus: Tsv) -> list[Path]:
    return [Path(corpus.tsv.path)]


def check(corpus: Tsv, data: Data) -> None:
    """Nothing: what a line lacks is found when it is read."""


def pairs(corpus: Tsv, data: Data, split: str) -> Pairs:
    file, path = corpus.tsv, Path(corpus.tsv.path)
    columns = (file.source_column, file.target_column)
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        if max(columns) >= len(fields):
            raise InputError(
                f"no column {max(columns)} (columns count from 0; this line has {len(fields)}), "
                f"{path}:{number}, correct the line or the column number"
            )
        yield fields[columns[0]], fields[columns[1]]
