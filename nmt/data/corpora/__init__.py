"""Parallel text as streams of (source, target) pairs, exactly as it stands in its place.

A corpus is one entry of `data.train`, `data.validation` or `data.test`. Each kind has a file here
that does what `Kind` says; a new one is a further file, an entry of `_KINDS`, and its settings in
`nmt.config`. Whatever cannot be read stops with file and line; nothing is left out and nothing is
cleaned here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from nmt import config
from nmt.config import Corpus, Data
from nmt.data.corpora import demo, hub, jsonl, parquet, text, tsv
from nmt.data.corpora.demo import DemoChunk
from nmt.data.corpora.pairs import Pairs, empty
from nmt.errors import InputError
from nmt.storage.opening import check_regular, opened

_CHUNK_CHARACTERS = 200_000_000  # lines as long as documents make smaller chunks


class Kind(Protocol):
    """What a kind of corpus does; each of its files is one. `corpus` is of the kind's settings."""

    def describe(self, corpus: Any) -> str:
        """The corpus in a few words, for messages and the manifest."""

    def files(self, corpus: Any) -> list[Path]:
        """The local files that its settings name; they are opened once before anything else."""

    def check(self, corpus: Any, data: Data) -> None:
        """Raises InputError for what can be found out before all is read."""

    def pairs(self, corpus: Any, data: Data, split: str) -> Pairs:
        """The pairs in order, raw; InputError on the way for what cannot be read."""


_KINDS: dict[type, Kind] = {
    config.Hub: hub,
    config.Text: text,
    config.Tsv: tsv,
    config.Parquet: parquet,
    config.JsonLines: jsonl,
    config.Demo: demo,
}


def _kind(corpus: Corpus) -> Kind:
    return _KINDS[type(corpus)]


def read_corpus(corpus: Corpus, data: Data, split: str) -> Pairs:
    """The pairs of a corpus in order, raw.

    Args:
        corpus: one entry of the lists in `data`.
        data: tells the two languages.
        split: train, validation or test: the list that the entry stands in.

    Raises:
        InputError: something cannot be read; names file and line. Raised on the way, so a caller
            that must not act on half a corpus calls `check_corpus` first.
    """
    for file in _kind(corpus).files(corpus):
        check_regular(file)
    is_empty = True
    for pair in _kind(corpus).pairs(corpus, data, split):
        is_empty = False
        yield pair
    if is_empty:
        raise InputError(f"no sentence pairs, {describe(corpus)}, name a corpus that holds some")


def read_chunks(
    corpus: Corpus, data: Data, split: str, size: int
) -> Iterator[list[tuple[str, str]] | DemoChunk]:
    """What `read_corpus` gives, at most `size` pairs at a time, for other processes to work on.

    Files are read here. The demo grammar needs ten times as long for a pair as cleaning does, so
    its chunks are written by whoever loops over them.
    """
    if isinstance(corpus, config.Demo):
        for first in range(0, corpus.demo.pairs, size):
            last = min(first + size, corpus.demo.pairs)
            yield demo.chunk(corpus, data, split, first, last)
        return
    chunk: list[tuple[str, str]] = []
    characters = 0
    for pair in read_corpus(corpus, data, split):
        chunk.append(pair)
        characters += len(pair[0]) + len(pair[1])
        if len(chunk) == size or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def describe(corpus: Corpus) -> str:
    """A corpus in a few words, for messages and the manifest."""
    return _kind(corpus).describe(corpus)


def input_files(corpus: Corpus) -> list[Path]:
    """The local files that a corpus is read from; none for the hub itself and for the demo.

    Raises:
        InputError: a file does not exist, or is a pipe or device.
    """
    return hub.folder_files(corpus) if isinstance(corpus, config.Hub) else _named_files(corpus)


def check_corpus(corpus: Corpus, data: Data) -> None:
    """Checks what can be checked before anything is written; a dataset of the hub is fetched.

    Raises:
        InputError: a file is missing, damaged or empty, a dataset or a column is missing, or the
            two text files differ in their number of lines.
    """
    for file in _named_files(corpus):  # an empty one among those of a dataset means nothing
        if file.stat().st_size == 0:
            raise empty(file)
    _kind(corpus).check(corpus, data)


def _named_files(corpus: Corpus) -> list[Path]:
    files = _kind(corpus).files(corpus)
    for file in files:
        check_regular(file)
        with opened(file):
            pass
    return files
