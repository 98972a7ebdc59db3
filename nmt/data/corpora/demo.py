"""Generates sentence pairs with the built-in demo grammar."""

from collections.abc import Iterator
from dataclasses import dataclass

from nmt.config import Data, DemoPairs
from nmt.data.corpora.kind import Chunk, Kind, Pairs
from nmt.data.pair import Pair
from nmt.errors import InputError


class Demo(Kind):
    """A corpus that the built-in demo grammar generates without any input files."""

    def paths(self, settings: DemoPairs) -> list[str]:
        return []

    def describe(self, settings: DemoPairs) -> str:
        return f"{settings.pairs} pairs, seed {settings.seed}"

    def check(self, settings: DemoPairs, data: Data) -> None:
        languages = (data.source_language, data.target_language)
        if languages not in (("en", "de"), ("de", "en")):
            raise InputError(
                f"data.source_language is {languages[0]} and data.target_language is "
                f"{languages[1]}, but the demo corpus is available only in en and de. Set one "
                "of them to en and the other to de."
            )

    def pairs(self, settings: DemoPairs, data: Data, split: str) -> Pairs:
        for chunk in self.chunks(settings, data, split, settings.pairs):
            yield from chunk

    def chunks(self, settings: DemoPairs, data: Data, split: str, size: int) -> Iterator[Chunk]:
        """Yields chunks that generate their pairs during iteration.

        Each chunk is generated in the process that cleans it, because generating a pair takes ten
        times as long as cleaning it.
        """
        self.check(settings, data)
        is_english_first = data.source_language == "en"
        for first in range(0, settings.pairs, size):
            last = min(first + size, settings.pairs)
            yield _Chunk(settings.seed, split, is_english_first, first, last)


@dataclass(frozen=True)
class _Chunk:
    """The pairs `first` to `last` - 1 of a demo corpus; each iteration generates them again."""

    seed: int
    split: str
    is_english_first: bool
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def __iter__(self) -> Pairs:
        from nmt.demo_language import OutOfSentences, demo_pairs  # late: it loads the lexicon

        try:
            for pair in demo_pairs(self.last, self.seed, self.split, self.first):
                english, german = pair.source, pair.target
                yield Pair(english, german) if self.is_english_first else Pair(german, english)
        except OutOfSentences as error:
            raise InputError(
                f"{error} (data.{self.split}, seed {self.seed}). Lower demo.pairs."
            ) from None
