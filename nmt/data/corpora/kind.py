"""Defines the base class of all kinds of corpora."""

from collections.abc import Iterator
from typing import Any, Protocol

from nmt.config import Data
from nmt.data.pair import TextPair

Pairs = Iterator[TextPair]
_CHUNK_CHARACTERS = 200_000_000  # limits the number of pairs per chunk if lines are very long


class Chunk(Protocol):
    """A sequence of consecutive pairs of a corpus."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Pairs: ...


class Kind:
    """A kind of corpus; by default, a corpus consists of a single file at `settings.path`.

    The argument `settings` of each method is the property `settings` of a corpus entry (see
    `nmt.config.Corpus`).
    """

    def paths(self, settings: Any) -> list[str]:
        """Returns the paths of the local files that the settings name."""
        return [settings.path]

    def describe(self, settings: Any) -> str:
        """Returns a short description of the corpus for messages and the manifest."""
        return " ".join(self.paths(settings))

    def check(self, settings: Any, data: Data) -> None:
        """Raises InputError for problems that can be found without reading the whole corpus."""

    def pairs(self, settings: Any, data: Data, split: str) -> Pairs:
        """Yields the pairs unchanged and in order; raises InputError if a line cannot be read."""
        raise NotImplementedError

    def chunks(self, settings: Any, data: Data, split: str, size: int) -> Iterator[Chunk]:
        """Yields the pairs of a corpus in chunks of at most `size` pairs."""
        chunk: list[TextPair] = []
        characters = 0
        for pair in self.pairs(settings, data, split):
            chunk.append(pair)
            characters += sum(map(len, pair))
            if len(chunk) == size or characters >= _CHUNK_CHARACTERS:
                yield chunk
                chunk, characters = [], 0
        if chunk:
            yield chunk
