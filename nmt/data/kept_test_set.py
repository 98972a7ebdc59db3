"""Stores the text of `data.test` in the prepared data and in every run trained on that data.

Evaluation and reports read the stored text instead of the files that a model's configuration names,
because a model may come from an untrusted source.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.config import Data
from nmt.data.corpora import read_corpus, with_prefix
from nmt.data.prepared_data import PreparedData
from nmt.errors import InputError, NoModelError, count
from nmt.storage import atomic, manifest
from nmt.storage.names import TEST_SET
from nmt.storage.opening import read_lines

SOURCE, TARGET = "source.txt", "target.txt"
_ORIGINS = {name: f"{TEST_SET}/{name}" for name in (SOURCE, TARGET)}  # paths in the prepared data
_KIND = "test set"


def write(folder: Path, data: Data) -> None:
    """Writes the raw text of `data.test`, one sentence per line, if `data.test` is not empty.

    If a corpus has a `source_prefix`, each source in the corpus is written with this prefix. Line
    endings inside a sentence become spaces.

    Raises:
        InputError: a corpus cannot be read.
    """
    if not data.test:
        return
    with (
        atomic.new_directory(folder) as aside,
        (aside / SOURCE).open("wb") as sources,
        (aside / TARGET).open("wb") as targets,
    ):
        for pair in pairs(data):
            for file, text in zip((sources, targets), pair, strict=True):
                file.write(text.replace("\n", " ").encode(errors="replace") + b"\n")


def pairs(data: Data) -> Iterator[tuple[str, str]]:
    """Yields each source in `data.test`, with any `source_prefix` of its corpus, and its target."""
    for corpus in data.test:
        for source, target in read_corpus(corpus, data, "test"):
            yield with_prefix(corpus.source_prefix, source), target


def keep(prepared: PreparedData, place: Path, data: Data) -> None:
    """Copies the test set of prepared data into a run, if the prepared data has a test set.

    Args:
        prepared: the prepared data on which the run is trained.
        place: folder in the run directory into which the test set is copied.
        data: the section `data` of the run's configuration.

    Raises:
        InputError: the test set of the prepared data is damaged, or `place` contains files that nmt
            train did not write.
    """
    files = _recorded(prepared.manifest)
    if files is None:
        return
    try:
        kept = manifest.read(place, _KIND)
        manifest.verify(place, kept)
        if (kept["files"], kept["corpora"]) == (files, _corpora(data)):
            return
    except InputError:
        if place.exists() and not (place / manifest.NAME).exists():
            raise InputError(
                f"{place} was not created by nmt train, so it will not be overwritten. Move it "
                "elsewhere."
            ) from None
    prepared.verify_files(_ORIGINS.values())
    if place.exists():
        place.replace(atomic.aside(place, "former"))
    with atomic.new_directory(place) as aside:
        for name, origin in _ORIGINS.items():
            shutil.copyfile(prepared.directory / origin, aside / name)
        manifest.write(aside, _KIND, {"corpora": _corpora(data)})
    atomic.remove_leftovers(place.parent)


def read(
    folder: Path, data: Data, prepared: dict[str, Any] | None
) -> tuple[list[str], list[str]] | None:
    """Returns the sources and references of a stored test set.

    Returns None if `folder` does not exist, or if the test set in it was not made from the corpora
    in `data.test`.

    Args:
        prepared: the manifest of the data that the run was trained on, or None if it is unknown.

    Raises:
        NoModelError: the stored test set is damaged or belongs to another run.
    """
    if not folder.is_dir():
        return None
    content = manifest.read(folder, _KIND)
    if content["corpora"] != _corpora(data):
        return None
    if prepared is not None and content["files"] != _recorded(prepared):
        raise NoModelError(
            f"{folder} is not the test set that belongs to this run. Restore it from a copy."
        )
    manifest.verify(folder, content, (SOURCE, TARGET))
    sources, references = (list(read_lines(folder / name)) for name in (SOURCE, TARGET))
    if len(sources) != len(references):
        found = f"{count(len(sources), 'source line')} but {count(len(references), 'reference')}"
        raise InputError(f"{folder} has {found}. Restore it from a copy.")
    return sources, references


def _recorded(prepared: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the size and hash of each test set file, or None if a file is not listed."""
    listed = prepared["files"]
    files = {name: listed.get(origin) for name, origin in _ORIGINS.items()}
    return files if all(files.values()) else None


def _corpora(data: Data) -> list[dict[str, Any]]:
    return [corpus.model_dump(mode="json") for corpus in data.test]
