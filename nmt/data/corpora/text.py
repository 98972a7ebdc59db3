"""Reads pairs from two text files that are aligned line by line."""

from itertools import zip_longest
from pathlib import Path

from nmt.config import Data, TextFiles
from nmt.data.corpora.kind import Kind, Pairs
from nmt.data.pair import Pair
from nmt.errors import InputError, count
from nmt.storage.opening import count_lines, read_lines


class Text(Kind):
    """A parallel corpus in two text files that are aligned line by line."""

    def paths(self, settings: TextFiles) -> list[str]:
        return [settings.source, settings.target]

    def check(self, settings: TextFiles, data: Data) -> None:
        counts = []
        for path in map(Path, self.paths(settings)):
            if next(read_lines(path), None) is None:  # refuses UTF-16, whose lines miscount
                raise InputError(f"{path} is empty. Specify a file that contains text.")
            counts.append(count_lines(path))
        if counts[0] != counts[1]:
            raise InputError(
                f"{settings.source} has {count(counts[0], 'line')}, but {settings.target} has "
                f"{counts[1]:,}. Line N of one file must be the translation of line N of the "
                "other."
            )

    def pairs(self, settings: TextFiles, data: Data, split: str) -> Pairs:
        for source, target in zip_longest(*map(read_lines, map(Path, self.paths(settings)))):
            if source is None or target is None:
                self.check(settings, data)
            yield Pair(source, target)
