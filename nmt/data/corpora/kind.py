"""What a kind of corpus does."""

from collections.abc import Iterator
from typing import Any

from nmt.config import Data

Pairs = Iterator[tuple[str, str]]


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
