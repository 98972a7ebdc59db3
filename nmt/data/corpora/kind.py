"""What a kind of corpus does."""

from collections.abc import Iterator
from typing import Any, Protocol

from nmt.config import Data
from nmt.data.pair import TextPair

Pairs = Iterator[TextPair]
_CHUNK_CHARACTERS = 200_000_000  # lines as long as documents make smaller chunks


class Chunk(Protocol):
    """Some pairs of a corpus."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Pairs: ...


class Kind:
    """A kind of corpus; the methods here are right for one that is a single file, at `path`.

    `settings` are what an entry of the configuration has under the kind's key.
    """

    def paths(self, settings: Any) -> list[str]:
        """The local files that the settings name; they are opened once before anything else."""
        return [settings.path]

    def describe(self, settings: Any) -> str:
        """The corpus in a few words, for messages and the manifest."""
        return " ".join(self.paths(settings))

    def check(self, settings: Any, data: Data) -> None:
        """Raises InputError for what can be found out before all is read."""

    def pairs(self, settings: Any, data: Data, split: str) -> Pairs:
        """The pairs in order, raw; InputError on the way for what cannot be read."""
        raise NotImplementedError

    def chunks(self, settings: Any, data: Data, split: str, size: int) -> Iterator[Chunk]:
        """Yields what `pairs` yields, at most `size` pairs at a time."""
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
