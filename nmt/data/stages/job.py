"""The job of preparing: what is made from what, and the intermediate files and their notes."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Corpus, Data, Tokenizer
from nmt.data import shards
from nmt.storage import atomic, manifest
from nmt.storage.names import SHORTLIST, WORK

RECIPE = 1  # raised when the same input and settings would give other bytes


@dataclass(frozen=True)
class CorpusEntry:
    """A corpus with its place in the configuration."""

    split: str  # train, validation or test
    number: int  # in its list, from 0
    corpus: Corpus

    @property
    def title(self) -> str:
        """As messages have it: train 1."""
        return f"{self.split} {self.number + 1}"

    def shard(self, folder: Path, index: int) -> Path:
        """Where its shard `index` is, of text or of token ids."""
        return folder / f"{self.split}-{self.number:03}-{index:05}.arrow"

    def marker(self, folder: Path) -> Path:
        """Says how many text shards the corpus has, once all are written."""
        return folder / f"{self.split}-{self.number:03}.json"


@dataclass(frozen=True)
class Job:
    """What is prepared from what, and where the intermediate files are."""

    data: Data
    tokenizer_settings: Tokenizer
    directory: Path
    entries: tuple[CorpusEntry, ...]
    origin: dict[str, Any]  # settings and hashes of input files: all that the result depends on
    given_tokenizer: Path | None = None  # taken instead of learning one
    processes: int = 1  # the result does not depend on it

    def of(self, split: str) -> list[CorpusEntry]:
        """The corpora of a split, in order."""
        return [entry for entry in self.entries if entry.split == split]

    @property
    def work(self) -> Path:
        """The folder of all intermediate files."""
        return self.directory / WORK

    @property
    def text(self) -> Path:
        """The folder of cleaned text."""
        recipe, inputs = self.origin["recipe"], self.origin["inputs"]
        data = {k: v for k, v in self.origin["settings"]["data"].items() if k != "max_length"}
        return self.work / f"text-{short_hash([recipe, data, inputs])}"

    @property
    def tokenizer(self) -> Path:
        """The file of the vocabulary."""
        given, settings = self.origin.get("given_tokenizer"), self.origin["settings"]["tokenizer"]
        return self.work / f"tokenizer-{short_hash([self.text.name, settings, given])}.model"

    @property
    def tokens(self) -> Path:
        """The folder of token ids."""
        return self.work / f"tokens-{short_hash(self.origin)}"

    @property
    def shortlist(self) -> Path:
        """The file of the shortlist."""
        return self.tokens / SHORTLIST

    @property
    def final(self) -> Path:
        """The folder of what is ready to be published."""
        return self.tokens / "final"

    def text_shards(self, split: str) -> list[tuple[CorpusEntry, Path]]:
        """The files of cleaned text, in order, each with its corpus."""
        return [
            (entry, entry.shard(self.text, index))
            for entry in self.of(split)
            for index in range(load(entry.marker(self.text))["shards"])
        ]

    def token_shard(self, text: Path) -> Path:
        """The file for the token ids of a text shard."""
        return self.tokens / text.name

    def training_text(self, kept: np.ndarray) -> Iterator[tuple[Path, np.ndarray]]:
        """Each file of the training split with its own piece of `kept`, see `deduplicate`."""
        start = 0
        for _, path in self.text_shards("train"):
            end = start + len(shards.read_text(path))
            yield path, kept[start:end]
            start = end

    def remove_leftovers(self) -> None:
        """Removes half-written files of ended processes, and folders of the work without any."""
        atomic.remove_leftovers(self.directory)
        for folder in sorted([self.work, *self.work.rglob("*/")], reverse=True):  # deepest first
            atomic.remove_leftovers(folder)
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()


def short_hash(value: Any) -> str:
    """12 hexadecimal digits that name a JSON value."""
    return manifest.value_hash(value)[:12]


def finish(path: Path, counts: Mapping[str, int] | None = None) -> None:
    """Writes NAME.json beside a file, last of all: the note that it is finished.

    Args:
        path: the file, or where it would be if it had any content.
        counts: what `counts_of_file` gives.
    """
    save(path.with_suffix(".json"), {"sha256": _hash(path), "counts": counts or {}})


def is_finished(path: Path) -> bool:
    """Whether a file is as `finish` found it; one that is lost or damaged has to be made again."""
    note = load(path.with_suffix(".json"))
    return "sha256" in note and note["sha256"] == _hash(path)


def counts_of_file(path: Path) -> Mapping[str, int]:
    """What `finish` was given; nothing if the file is not finished."""
    return load(path.with_suffix(".json")).get("counts", {})


def _hash(path: Path) -> str | None:
    return manifest.file_hash(path) if path.exists() else None


def load(path: Path) -> dict[str, Any]:
    """What `save` has written; empty if it is lost or damaged."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}


def save(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON object, whole or not at all."""
    atomic.write_file(path, json.dumps(value) + "\n")
