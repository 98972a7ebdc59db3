"""Columns of one tab-separated file."""

from pathlib import Path

from nmt.config import Data, TsvFile
from nmt.data.corpora.kind import Kind, Pairs
from nmt.errors import InputError
from nmt.storage.opening import read_lines


class Tsv(Kind):
    """Tab-separated values; what a line lacks is found when it is read."""

    def pairs(self, settings: TsvFile, data: Data, split: str) -> Pairs:
        columns = (settings.source_column, settings.target_column)
        for number, line in enumerate(read_lines(Path(settings.path)), 1):
            fields = line.split("\t")
            if max(columns) >= len(fields):
                raise InputError(
                    f"no column {max(columns)} (columns count from 0; this line has "
                    f"{len(fields)}), {Path(settings.path)}:{number}, "
                    "correct the line or the column number"
                )
            yield fields[columns[0]], fields[columns[1]]
