"""Reads parallel corpora as streams of sentence pairs, without changing the text.

A corpus is an entry in `data.train`, `data.validation` or `data.test`. Each kind of corpus is
implemented by a subclass of `Kind` in a separate module of this package. A new kind of corpus needs
a module, an entry in `_KINDS` and a line in `nmt.config.settings`. A setting with a name of the
form NAME_column specifies the table column or JSON key whose values become the column NAME of the
pairs. If the input cannot be read, the error message names the file and the line. The readers
neither skip lines nor clean the text.
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
    """Yields the pairs of a corpus in corpus order, without normalizing them.

    Args:
        corpus: an entry in `data.train`, `data.validation` or `data.test`.
        data: the section `data` of the configuration, which specifies the two languages.
        split: name of the list in `data` that contains `corpus`: train, validation or test.

    Raises:
        InputError: the corpus cannot be read. The message names the file and the line. The error is
            raised when the iteration reaches the faulty line, but `check_corpus` finds most
            problems in advance.
    """
    return _nonempty(corpus, _KINDS[corpus.kind()].pairs(corpus.settings, data, split))


def read_chunks(corpus: Corpus, data: Data, split: str, size: int) -> Iterator[Chunk]:
    """Yields chunks of at most `size` pairs of a corpus, which can be sent to other processes.

    Raises:
        InputError: see `read_corpus`.
    """
    return _nonempty(corpus, _KINDS[corpus.kind()].chunks(corpus.settings, data, split, size))


def _nonempty(corpus: Corpus, items: Iterator[T]) -> Iterator[T]:
    """Yields the items of a corpus; raises InputError if the corpus is empty."""
    item = None
    for item in items:
        yield item
    if item is None:
        raise InputError(f"Corpus {describe(corpus)} has no sentence pairs. Choose another corpus.")


def with_prefix(prefix: str | None, source: str) -> str:
    """Prepends the `source_prefix` of a corpus to a source, unless the source is empty."""
    return f"{prefix} {source}" if prefix is not None and source.strip() else source


def without_prefix(prefix: str | None, source: str) -> str:
    """Removes the prefix that `with_prefix` prepended to a source."""
    return source if prefix is None else source.removeprefix(f"{prefix} ")


def describe(corpus: Corpus) -> str:
    """Returns a short description of a corpus for messages and the manifest."""
    return f"{corpus.kind()} {_KINDS[corpus.kind()].describe(corpus.settings)}"


def input_files(corpus: Corpus) -> list[Path]:
    """Returns the local files of a corpus; a demo corpus or a dataset on the Hub has none.

    Raises:
        InputError: a file does not exist, or it is a pipe or a device.
    """
    if corpus.kind() == "hub":
        return folder_files(corpus.settings)
    files = [Path(path) for path in _KINDS[corpus.kind()].paths(corpus.settings)]
    for file in files:
        check_regular(file)
        with opened(file):
            pass
    return files


def check_corpus(corpus: Corpus, data: Data) -> None:
    """Checks a corpus before `nmt prepare` writes any files; a corpus on the Hub is downloaded.

    The function `input_files` must have been called before, because it rejects pipes.

    Raises:
        InputError: a dataset or a column is missing, a text file is empty, or the two text
            files have different numbers of lines.
    """
    _KINDS[corpus.kind()].check(corpus.settings, data)
