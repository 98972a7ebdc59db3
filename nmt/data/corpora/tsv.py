"""Reads pairs from the columns of a tab-separated file."""

from pathlib import Path

from nmt.config import Data, TsvFile
from nmt.data.corpora.columns import columns_of, pair_of
from nmt.data.corpora.kind import Kind, Pairs
from nmt.errors import InputError, count
from nmt.storage.opening import read_lines


class Tsv(Kind):
    """A corpus in a TSV file; a line that lacks a column raises an error when it is read."""

    def pairs(self, settings: TsvFile, data: Data, split: str) -> Pairs:
        path, columns = Path(settings.path), columns_of(settings)
        last = max(columns.values())
        for number, line in enumerate(read_lines(path), 1):
            fields, where = line.split("\t"), f"{path}:{number}"
            if last >= len(fields):
                raise InputError(
                    f"{where} has no column {last}: it contains {count(len(fields) - 1, 'tab')}, "
                    f"so its last column is {len(fields) - 1} (columns are numbered from 0). "
                    "Correct the line, or the column number in the configuration."
                )
            yield pair_of({name: fields[column] for name, column in columns.items()}, where)
