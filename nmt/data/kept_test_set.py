"""The text of `data.test`, kept with the prepared data and with every run that is trained on them.

A model's configuration names files, and a model may come from anywhere. So evaluation and reports
read the text that was kept, and never the files that the configuration names.
"""

import shutil
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
_ORIGINS = {name: f"{TEST_SET}/{name}" for name in (SOURCE, TARGET)}  # in prepared data
_KIND = "test set"


def write(folder: Path, data: Data) -> None:
    """Writes the raw text of `data.test`, a pair a line; nothing if there is none.

    Sources have the prefix of their corpus, as a model is given them. Line ends inside a sentence
    become spaces.

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
        for corpus in data.test:
            for source, target in read_corpus(corpus, data, "test"):
                pair = with_prefix(corpus.source_prefix, source), target
                for file, text in zip((sources, targets), pair, strict=True):
                    file.write(text.replace("\n", " ").encode(errors="replace") + b"\n")


def keep(prepared: PreparedData, place: Path, data: Data) -> None:
    """Copies the text, if there is any, of prepared data into a run trained on them.

    Args:
        place: a folder of the run.

    Raises:
        NoModelError: it is damaged.
        InputError: `place` holds something that nmt train has not made.
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
            raise InputError(f"not made by nmt train, {place}, move it away") from None
    manifest.verify(prepared.directory, prepared.manifest, _ORIGINS.values())
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
    """Sources and references kept in `folder`; None if there are none, or those of other settings.

    Args:
        prepared: the manifest of the data that the run was trained on; None: it has kept none.

    Raises:
        NoModelError: they are damaged, or those of another run.
    """
    if not folder.is_dir():
        return None
    content = manifest.read(folder, _KIND)
    if content["corpora"] != _corpora(data):
        return None
    if prepared is not None and content["files"] != _recorded(prepared):
        raise NoModelError(
            f"not the test set that this run was trained with, {folder}, restore it from a copy"
        )
    manifest.verify(folder, content, (SOURCE, TARGET))
    sources, references = (list(read_lines(folder / name)) for name in (SOURCE, TARGET))
    if len(sources) != len(references):
        found = f"{count(len(sources), 'source line')} but {count(len(references), 'reference')}"
        raise InputError(f"{found}, {folder}, restore it from a copy")
    return sources, references


def _recorded(prepared: dict[str, Any]) -> dict[str, Any] | None:
    """Size and hash of both files of the test set of prepared data; None if these have none."""
    listed = prepared["files"]
    files = {name: listed.get(origin) for name, origin in _ORIGINS.items()}
    return files if all(files.values()) else None


def _corpora(data: Data) -> list[dict[str, Any]]:
    return [corpus.model_dump(mode="json") for corpus in data.test]
