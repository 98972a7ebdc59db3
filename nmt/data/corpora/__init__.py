"""Parallel text as streams of (source, target) pairs, unchanged.

A corpus is one entry of `data.train`, `data.validation` or `data.test`. Each kind has a file here,
a subclass of `Kind`; a new kind needs such a file, an entry in `_KINDS` and a line in
`nmt.config.settings`. Whatever cannot be read stops with file and line; nothing is left out and
nothing is cleaned here.
"""

from collections.abc import Iterator
from pathlib import Path

from nmt.config import Corpus, Data
from nmt.data.corpora.demo import Demo, DemoChunk
from nmt.data.corpora.hub import Hub, folder_files
from nmt.data.corpora.jsonl import Jsonl
from nmt.data.corpora.kind import Kind, Pairs
from nmt.data.corpora.parquet import Parquet
from nmt.data.corpora.text import Text
from nmt.data.corpora.tsv import Tsv
from nmt.errors import InputError
from nmt.storage.opening import check_regular, opened

_CHUNK_CHARACTERS = 200_000_000  # lines as long as documents make smaller chunks


_KINDS: dict[str, Kind] = {
    "hub": Hub(), "text": Text(), "tsv": Tsv(), "parquet": Parquet(), "jsonl": Jsonl(),
    "demo": Demo(),
}  # fmt: skip


def read_corpus(corpus: Corpus, data: Data, split: str) -> Pairs:
    """The pairs of a corpus in order, raw.

    Args:
        corpus: one entry of the lists in `data`.
        data: says which two languages.
        split: train, validation or test: the list that the entry is in.

    Raises:
        InputError: something cannot be read; names file and line. It is raised when that place is
            reached; `check_corpus` finds most of it in advance.
    """
    kind, settings = _KINDS[corpus.kind()], corpus.settings
    for path in kind.paths(settings):
        check_regular(Path(path))
    pair = None
    for pair in kind.pairs(settings, data, split):
        yield pair
    if pair is None:
        raise InputError(f"no sentence pairs, {describe(corpus)}, name a corpus that holds some")


def read_chunks(
    corpus: Corpus, data: Data, split: str, size: int
) -> Iterator[list[tuple[str, str]] | DemoChunk]:
    """What `read_corpus` gives, at most `size` pairs at a time, for other processes to work on.

    Files are read here. The demo grammar needs ten times as long for a pair as cleaning does, so
    its pairs are written by the process that loops over them.
    """
    kind, settings = _KINDS[corpus.kind()], corpus.settings
    if isinstance(kind, Demo):
        for first in range(0, settings.pairs, size):
            yield kind.chunk(settings, data, split, first, min(first + size, settings.pairs))
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
