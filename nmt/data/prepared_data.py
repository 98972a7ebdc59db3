"""Opens and checks prepared data, which is the directory that `nmt prepare` writes.

This module checks that prepared data is undamaged and matches the configuration, and records which
runs were trained on the data.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from nmt.config import Config
from nmt.data.shards import Shard, read_shard
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, NoModelError
from nmt.storage import atomic, manifest
from nmt.storage.names import SHORTLIST, TOKENIZER, USED_BY
from nmt.storage.opening import entries, small_file

_MAX_NOTE_BYTES = 100_000


@dataclass(frozen=True)
class PreparedData:
    """Prepared data with a valid manifest.

    In addition to the keys of every manifest, the manifest of prepared data has these keys:

    * `data_sha256` is a hash of the hashes of all Arrow files.
    * `tokenizer_sha256` is the hash of the tokenizer file.
    * `target_symbols` lists the symbols that occur in training targets.
    * `shards` contains, for each split, a list of objects with the keys `file`, `pairs`,
      `source_tokens`, `target_tokens` and `weight`.
    * `corpora` contains the number of pairs that each cleaning rule dropped from each corpus.
    * `warnings` lists the warnings about the language codes and the first pairs of the corpora.
    * `settings` and `inputs` describe the settings and input files that determine the data.
    * `origin_sha256` is a hash of everything that determines the data.
    """

    directory: Path
    manifest: dict[str, Any]
    _verified: set[Path] = field(default_factory=set)  # shards that `verify` has checked

    @staticmethod
    def is_in(directory: Path) -> bool:
        """Returns whether `directory` contains a manifest, without checking any other files."""
        return (directory / manifest.NAME).exists()

    @classmethod
    def open(cls, directory: Path, remedy: str = "Run nmt prepare.") -> Self:
        """Opens the prepared data in a directory.

        Args:
            remedy: last sentence of the error message that is raised if there is no prepared data.

        Raises:
            InputError: there is no prepared data, or the manifest is damaged.
        """
        if not cls.is_in(directory):
            raise InputError(f"No prepared data in {directory}. {remedy}")
        with _prepare_again():
            return cls(directory, manifest.read(directory, "data"))

    @classmethod
    def of(cls, config: Config, remedy: str = "Run nmt prepare.") -> Self:
        """Opens the prepared data of a configuration.

        Raises:
            InputError: there is no prepared data, its manifest is damaged, or it was prepared with
                other settings. If the settings differ, the message names each setting that differs.
        """
        data, settings = cls.open(Path(config.data.directory), remedy), settings_of(config)
        if data.manifest["settings"] != settings:
            changed = changes(data.manifest["settings"], settings)
            runs = [run for run, _ in _users(data.directory)]
            problem = f"{data.directory} was prepared with other settings ({changed})"
            if runs:  # nmt prepare would reject the change
                raise InputError(
                    f"{problem}, and {runs[0]} was trained on this data. Choose another "
                    "data.directory."
                )
            raise InputError(f"{problem}. Run nmt prepare, or choose another data.directory.")
        return data

    def verify_files(self, names: Iterable[str] | None = None) -> None:
        """Verifies the hashes of files; raises InputError for the first file whose hash differs.

        Args:
            names: names of the files to check, or None to check all files.
        """
        with _prepare_again():
            manifest.verify(self.directory, self.manifest, names)

    def tokenizer(self) -> Tokenizer:
        """Returns the tokenizer; raises InputError if it is missing or damaged."""
        self.verify_files([TOKENIZER])
        with _prepare_again():
            return Tokenizer.load(self.directory / TOKENIZER)

    def shortlist_file(self) -> bytes | None:
        """Returns the content of the shortlist file, or None if the data has no shortlist.

        Raises:
            InputError: the shortlist file is missing or damaged.
        """
        if SHORTLIST not in self.manifest["files"]:
            return None
        self.verify_files([SHORTLIST])
        return (self.directory / SHORTLIST).read_bytes()

    def shards(self, split: str) -> list[Shard]:
        """Memory-maps the shards of a split, without verifying their hashes.

        Args:
            split: `train` or `validation`.

        Raises:
            InputError: a shard is missing or is not a valid Arrow file.
        """
        found: list[Shard] = []
        first = 0
        for entry in self.manifest["shards"][split]:
            path = self.directory / entry["file"]
            found.append(read_shard(path, entry["weight"], first))
            first += len(found[-1])
        return found

    def verify(self, shard: Shard) -> None:
        """Verifies the hash of a shard, unless it has been verified before.

        This method must be called before the first pair of the shard is used.

        Raises:
            InputError: the content of the shard's file has changed.
        """
        if shard.path in self._verified:
            return
        self.verify_files([shard.path.relative_to(self.directory).as_posix()])
        self._verified.add(shard.path)

    def changed_input(self) -> str | None:
        """Returns the first local input file that has changed since the data was prepared, or None.

        If the size of a file has changed, the file counts as changed, and is not read. A file of
        unchanged size is read and hashed only if it was modified after the data was prepared.
        """
        prepared_at = (self.directory / manifest.NAME).stat().st_mtime
        for name, facts in self.manifest["inputs"].items():
            file = Path(name)
            if not file.is_file():  # the user may have removed text that is no longer needed
                continue
            status = file.stat()
            if status.st_size != facts["size"]:
                return name
            if status.st_mtime > prepared_at and manifest.file_hash(file) != facts["sha256"]:
                return name
        return None

    def mark_used(self, run: Path) -> None:
        """Records that a run was trained on this data, so that `prepare` does not replace the data.

        The record has an effect only as long as the run's directory exists.
        """
        note = {"run": str(run.resolve()), "origin_sha256": self.manifest["origin_sha256"]}
        name = hashlib.sha256(note["run"].encode()).hexdigest()[:16] + ".json"
        path = self.directory / USED_BY / name
        try:
            path.parent.mkdir(exist_ok=True)
            atomic.write_if_changed(path, (json.dumps(note) + "\n").encode())
        except OSError:
            if os.access(self.directory, os.W_OK):
                raise
            # No record is needed: nmt prepare cannot replace data in a read-only directory.


@contextmanager
def _prepare_again() -> Iterator[None]:
    """Converts a NoModelError about prepared data to an InputError with a suitable remedy."""
    try:
        yield
    except NoModelError as error:
        problem = error.problems[0].partition(". ")[0]  # without the remedy
        remedy = "Run nmt prepare again, or restore the data from a copy."
        if isinstance(error, manifest.OtherKindError):  # nmt prepare would reject the directory
            remedy = "Choose another data.directory."
        raise InputError(f"{problem}. {remedy}") from None


def refuse_if_used(directory: Path, origin_sha256: str, settings: Mapping[str, Any]) -> None:
    """Raises InputError if preparing data would change data on which a run was trained.

    Args:
        directory: the data directory.
        origin_sha256: the value of `origin_sha256` in the manifest of the new data.
        settings: the result of `settings_of` for the new data. The error message names the settings
            that differ.
    """
    for run, used in _users(directory):
        if used == origin_sha256:
            continue
        try:
            changed = changes(PreparedData.open(directory).manifest["settings"], settings)
        except InputError:
            changed = "the former settings are unknown, because the manifest cannot be read"
        raise InputError(
            f"nmt prepare would change the data in {directory} ({changed}), but {run} was trained "
            "on this data. Choose another data.directory, or remove the run."
        )


def _users(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yields each run that was trained on data in `directory`, with the data's `origin_sha256`.

    Raises:
        InputError: the record of a run is damaged.
    """
    for path in entries(directory / USED_BY):
        if path.suffix != ".json":
            continue
        try:
            note = json.loads(small_file(path, _MAX_NOTE_BYTES))
            run, used = Path(note["run"]), note["origin_sha256"]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{path}, the record of a run that was trained on this data, is damaged. Choose "
                "another data.directory, or remove the record if the run no longer exists."
            ) from None
        if run.is_dir():
            yield run, used


def settings_of(config: Config) -> dict[str, Any]:
    """Returns the settings that determine prepared data, in the form that the manifest contains.

    Settings with default values are omitted, so that a setting added in a later version of nmt does
    not change the result.
    """
    sections = {"data": config.data, "tokenizer": config.tokenizer}
    return {
        name: section.model_dump(mode="json", exclude={"directory"}, exclude_defaults=True)
        for name, section in sections.items()
    }


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describes the settings that differ, with their old and new values, for a message."""
    found = []
    for section in new:
        fields = Config.model_fields[section].annotation.model_fields  # type: ignore[union-attr]
        defaults = {key: field.default for key, field in fields.items()}
        was, now = defaults | old.get(section, {}), defaults | new[section]
        for key in dict.fromkeys([*now, *was]):
            if was.get(key) != now.get(key):
                values = [json.dumps(v.get(key), ensure_ascii=False) for v in (was, now)]
                short = len("".join(values)) <= 80
                found.append(
                    f"{section}.{key}" + (f" was {values[0]}, is {values[1]}" if short else "")
                )
    return "; ".join(found) or "other input files, or an earlier version of nmt"
