"""Two text files, line i of one the translation of line i of the other."""

from itertools import zip_longest
from pathlib import Path

from nmt.config import Data, Text
from nmt.data.corpora.pairs import Pairs, empty
from nmt.errors import InputError
from nmt.storage.opening import count_lines, read_lines


def describe(corpus: Text) -> str:
    return f"text {corpus.text.source} {corpus.text.target}"


def files(corpus: Text) -> list[Path]:
    return [Path(corpus.text.source), Path(corpus.text.target)]


def check(corpus: Text, data: Data) -> None:
    counts = []
    for path in files(corpus):
        counts.append(count_lines(path))
        if counts[-1] == 0:
            raise empty(path)
    if counts[0] != counts[1]:
        raise InputError(
            f"{counts[0]:,} lines and {counts[1]:,} lines, "
            f"{corpus.text.source} and {corpus.text.target}, "
            "line i of one must translate line i of the other"
        )


def pairs(corpus: Text, data: Data, split: str) -> Pairs:
    for source, target in zip_longest(*map(read_lines, files(corpus))):
        if source is None or target is None:
            check(corpus, data)
        yield source, target
