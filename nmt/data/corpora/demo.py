"""Sentences that the demo's grammar writes."""

from dataclasses import dataclass

from nmt.config import Data, DemoPairs
from nmt.data.corpora.kind import Kind, Pairs
from nmt.errors import InputError


class Demo(Kind):
    """The embedded grammar, which needs no file."""

    def paths(self, settings: DemoPairs) -> list[str]:
        return []

    def describe(self, settings: DemoPairs) -> str:
        return f"{settings.pairs} pairs, seed {settings.seed}"

    def check(self, settings: DemoPairs, data: Data) -> None:
        languages = (data.source_language, data.target_language)
        if languages not in (("en", "de"), ("de", "en")):
            raise InputError(
                f"the demo grammar knows en and de, not {languages[0]} and {languages[1]}, "
                "data.source_language and data.target_language, set them to en and de"
            )

    def pairs(self, settings: DemoPairs, data: Data, split: str) -> Pairs:
        return iter(self.chunk(settings, data, split, 0, settings.pairs))

    def chunk(
        self, settings: DemoPairs, data: Data, split: str, first: int, last: int
    ) -> "DemoChunk":
        """The pairs `first`, ..., `last` - 1, not yet written."""
        self.check(settings, data)
        return DemoChunk(settings.seed, split, data.source_language == "en", first, last)


@dataclass(frozen=True)
class DemoChunk:
    """The pairs `first`, ..., `last` - 1 of a demo corpus; each loop over it writes them anew."""

    seed: int
    split: str
    english_first: bool
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def __iter__(self) -> Pairs:
        from nmt.demo_language import OutOfSentences, demo_pairs  # its lexicon is loaded here only

        try:
            for pair in demo_pairs(self.last, self.seed, self.split, self.first):
                english, german = pair.source, pair.target
                yield (english, german) if self.english_first else (german, english)
        except OutOfSentences as error:
            where = f"data.{self.split}, demo, seed {self.seed}"
            raise InputError(f"{error}, {where}, ask for fewer pairs") from None
