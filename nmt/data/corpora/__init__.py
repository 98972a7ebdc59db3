"""Parallel text as streams of pairs, unchanged.

A corpus is one entry of `data.train`, `data.validation` or `data.test`. Each kind has a file here,
a subclass of `Kind`; a new kind needs such a file, an entry in `_KINDS` and a line in
`nmt.config.settings`. A setting NAME_column of a kind names a column of its table or key of its
objects, which is read into the column NAME of each pair. Whatever cannot be read stops with file
and line; nothing is left out and nothing is cleaned here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from nmt.config import Corpus, Data
from nmt.data.corpora.demo import Demo
from nmt.data.corpora.hub import Hub, folder_files
from nmt.data.corpora.jsonl import Jsonl
from nmt.data.corpora.kind import Chunk, Kind, Pairs
from nmt.data.corpora.parquet import Parquet
from nmt.data.corpora.text import Text
from nmt.data.corpora.tsv import Tsv
from nmt.errors import InputError
from nmt.storage.opening import check_regular, opened

T = TypeVar("T")
_KINDS: dict[str, Kind] = {
    "hub": Hub(), "text": Text(), "tsv": Tsv(), "parquet": Parquet(), "jsonl": Jsonl(),
    "demo": Demo(),
}  # fmt: skip


def read_corpus(corpus: Corpus, data: Data, split: str) -> Pairs:
    """Yields the pairs of a corpus in order, raw.

    Args:
        corpus: one entry of the lists in `data`.
        data: says which two languages.
        split: train, validation or test: the list that the entry is in.

    Raises:
        InputError: something cannot be read; names file and line. It is raised when that place is
            reached; `check_corpus` finds most of it in advance.
    """
    return _nonempty(corpus, _KINDS[corpus.kind()].pairs(corpus.settings, data, split))


def read_chunks(corpus: Corpus, data: Data, split: str, size: int) -> Iterator[Chunk]:
    """Yields the pairs of a corpus, at most `size` at a time, for other processes to work on.

    Raises:
        InputError: see `read_corpus`.
    """
    return _nonempty(corpus, _KINDS[corpus.kind()].chunks(corpus.settings, data, split, size))


def _nonempty(corpus: Corpus, items: Iterator[T]) -> Iterator[T]:
    """Yields what is read of a corpus; raises InputError if that is nothing."""
    for path in _KINDS[corpus.kind()].paths(corpus.settings):
        check_regular(Path(path))
    item = None
    for item in items:
        yield item
    if item is None:
        raise InputError(f"no sentence pairs, {describe(corpus)}, name a corpus that holds some")


def with_prefix(prefix: str | None, source: str) -> str:
    """A source as the model is given it, with the `source_prefix` of its corpus; a blank stays."""
    return f"{prefix} {source}" if prefix is not None and source.strip() else source


def without_prefix(prefix: str | None, source: str) -> str:
    """What `with_prefix` was given."""
    return source if prefix is None else source.removeprefix(f"{prefix} ")


def describe(corpus: Corpus) -> str:
    """A corpus in a few words, for messages and the manifest."""
    return f"{corpus.kind()} {_KINDS[corpus.kind()].describe(corpus.settings)}"


def input_files(corpus: Corpus) -> list[Path]:
    """The local files that a corpus is read from; none for the hub itself and for the demo.

    Raises:
        InputError: a file does not exist, or is a pipe or device.
    """
    return folder_files(corpus.settings) if corpus.kind() == "hub" else _named_files(corpus)


def check_corpus(corpus: Corpus, data: Data) -> None:
    """Checks what can be checked before anything is written; a dataset of the hub is fetched.

    Raises:
        InputError: a file, a dataset or a column is missing, or the two text files are empty or
            differ in their number of lines.
    """
    _named_files(corpus)
    _KINDS[corpus.kind()].check(corpus.settings, data)


def _named_files(corpus: Corpus) -> list[Path]:
    files = [Path(path) for path in _KINDS[corpus.kind()].paths(corpus.settings)]
    for file in files:
        check_regular(file)
        with opened(file):
            pass
    return files
