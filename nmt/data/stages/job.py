"""Defines the input and the intermediate files of `nmt prepare`."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from nmt.config import Corpus, Data, Tokenizer
from nmt.storage import atomic, manifest
from nmt.storage.names import SHORTLIST, WORK

RECIPE = 2  # increased when a code change gives different files for the same input and settings


@dataclass(frozen=True)
class CorpusEntry:
    """A corpus with its position in the configuration."""

    split: str  # train, validation or test
    number: int  # index in the list of its split
    corpus: Corpus

    @property
    def title(self) -> str:
        """The name of the corpus in messages, such as "train 1"."""
        return f"{self.split} {self.number + 1}"

    def shard(self, folder: Path, index: int) -> Path:
        """Returns the path in `folder` of the corpus's shard number `index`."""
        return folder / f"{self.split}-{self.number:03}-{index:05}.arrow"

    def marker(self, folder: Path) -> Path:
        """Returns the path of the marker file, which is written after all shards of the corpus."""
        return folder / f"{self.split}-{self.number:03}.json"


@dataclass(frozen=True)
class FinishedShard:
    """A shard of text or of token ids that a stage has finished."""

    entry: CorpusEntry
    path: Path  # the file may be missing if the shard is empty
    counts: Mapping[str, int]

    @classmethod
    def read(cls, entry: CorpusEntry, path: Path) -> Self:
        """Returns the shard at `path` with the counts that were passed to `finish`."""
        return cls(entry, path, load(path.with_suffix(".json"))["counts"])


Shards = Sequence[FinishedShard]  # in the order of the corpora
Splits = Mapping[str, Shards]


@dataclass(frozen=True)
class Job:
    """The input of `nmt prepare`, and the paths of its intermediate files."""

    data: Data
    tokenizer_settings: Tokenizer
    directory: Path
    entries: tuple[CorpusEntry, ...]
    origin: dict[str, Any]  # settings and hashes of input files, which determine the result
    given_tokenizer: Path | None = None  # a tokenizer to use instead of training one
    processes: int = 1  # maximum number of processes; does not affect the result

    def of(self, split: str) -> list[CorpusEntry]:
        """Returns the corpora of a split in their configured order."""
        return [entry for entry in self.entries if entry.split == split]

    @property
    def work(self) -> Path:
        """The folder that contains all intermediate files."""
        return self.directory / WORK

    @cached_property
    def origin_sha256(self) -> str:
        """The hash of `origin`."""
        return manifest.value_hash(self.origin)

    @cached_property
    def text(self) -> Path:
        """The folder that contains the shards of cleaned text."""
        recipe, inputs = self.origin["recipe"], self.origin["inputs"]
        data = {k: v for k, v in self.origin["settings"]["data"].items() if k != "max_length"}
        return self.work / f"text-{short_hash([recipe, data, inputs])}"

    @cached_property
    def tokenizer(self) -> Path:
        """The path of the tokenizer file."""
        given, settings = self.origin.get("given_tokenizer"), self.origin["settings"]["tokenizer"]
        return self.work / f"tokenizer-{short_hash([self.text.name, settings, given])}.model"

    @property
    def tokens(self) -> Path:
        """The folder that contains the shards of token ids."""
        return self.work / f"tokens-{self.origin_sha256[:12]}"

    @property
    def shortlist(self) -> Path:
        """The path of the shortlist file."""
        return self.tokens / SHORTLIST

    @property
    def final(self) -> Path:
        """The folder from which `publish` moves the final files to the data directory."""
        return self.tokens / "final"

    def remove_leftovers(self) -> None:
        """Removes temporary files of processes that have exited, and empty folders in `work`."""
        atomic.remove_leftovers(self.directory)
        for folder in sorted([self.work, *self.work.rglob("*/")], reverse=True):  # deepest first
            atomic.remove_leftovers(folder)
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def short_hash(value: Any) -> str:
    """Returns the first 12 hexadecimal digits of the hash of a JSON value."""
    return manifest.value_hash(value)[:12]


def finish(path: Path, counts: Mapping[str, int] | None = None) -> None:
    """Writes NAME.json beside a file to record that the file is finished.

    Args:
        path: path of the finished file, which may be missing if its shard is empty.
        counts: maps names such as "pairs" and "source_tokens" to numbers of pairs or tokens.
    """
    save(path.with_suffix(".json"), {"sha256": _hash(path), "counts": counts or {}})


def is_finished(path: Path) -> bool:
    """Returns whether `finish` was called for a file and the file has not changed since then."""
    note = load(path.with_suffix(".json"))
    return "sha256" in note and note["sha256"] == _hash(path)


def _hash(path: Path) -> str | None:
    return manifest.file_hash(path) if path.exists() else None


def load(path: Path) -> dict[str, Any]:
    """Returns the JSON object that `save` wrote, or {} if the file is missing or damaged."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}


def save(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON object to a file atomically."""
    atomic.write_file(path, json.dumps(value) + "\n")
