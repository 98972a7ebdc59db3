"""Prepared data: the directory that `nmt prepare` has made, opened, checked and listed.

Training reads its data through this module. It checks that they are what a configuration asks for
and that their bytes are those that were prepared, and it knows which runs rely on them.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    """Prepared data whose manifest fits itself.

    Keys of the manifest beside those of every manifest: `data_sha256` (over the hashes of all Arrow
    files), `tokenizer_sha256`, `target_symbols` (those of `tokenizer.symbols` that training targets
    hold), `shards` (split -> list of file, pairs, source_tokens, target_tokens, weight),
    `corpora` (with counts by cleaning rule), `warnings` (if there are any), `settings`, `inputs`,
    `origin_sha256`.
    """

    directory: Path
    manifest: dict[str, Any]

    @staticmethod
    def is_in(directory: Path) -> bool:
        """Whether prepared data are there, whole or not: those without a manifest do not count."""
        return (directory / manifest.NAME).exists()

    @classmethod
    def open(cls, directory: Path) -> Self:
        """The data in a directory.

        Raises:
            InputError: nothing is prepared there, or the manifest is damaged.
        """
        if not cls.is_in(directory):
            raise InputError(f"no prepared data, {directory}, run nmt prepare")
        try:
            return cls(directory, manifest.read(directory, "data"))
        except NoModelError as error:
            what = error.problems[0].split(",")[0]
            raise InputError(f"{what}, {directory}, run nmt prepare again") from None

    @classmethod
    def of(cls, config: Config) -> Self:
        """The data of a configuration.

        Raises:
            InputError: as `open` does, or they were prepared with other settings; names them.
        """
        data, settings = cls.open(Path(config.data.directory)), settings_of(config)
        if data.manifest["settings"] != settings:
            changed = changes(data.manifest["settings"], settings)
            runs = [run for run, _ in _users(data.directory)]
            remedy = "run nmt prepare, or name another data.directory"
            if runs:  # prepare would refuse
                remedy = f"name another data.directory: {runs[0]} was trained on these data"
            raise InputError(
                f"prepared with other settings ({changed}), {data.directory}, {remedy}"
            )
        return data

    def verify_all(self) -> None:
        """Checks each file by its hash; InputError (NoModelError) names the first that differs."""
        manifest.verify(self.directory, self.manifest)

    @property
    def manifest_file(self) -> bytes:
        """The content of the manifest's file."""
        return (self.directory / manifest.NAME).read_bytes()

    def tokenizer(self) -> Tokenizer:
        """Returns the tokenizer; NoModelError if it is missing or damaged (status 3)."""
        manifest.verify(self.directory, self.manifest, [TOKENIZER])
        return Tokenizer.load(self.directory / TOKENIZER)

    def shortlist_file(self) -> bytes | None:
        """The content of the shortlist's file; None if the data were prepared without.

        Raises:
            NoModelError: missing or damaged (status 3).
        """
        if SHORTLIST not in self.manifest["files"]:
            return None
        manifest.verify(self.directory, self.manifest, [SHORTLIST])
        return (self.directory / SHORTLIST).read_bytes()

    def shards(self, split: str) -> list[Shard]:
        """The shards of train or validation, memory-mapped; `verify` checks their bytes.

        Raises:
            InputError: a shard is missing, or is no Arrow file.
        """
        found: list[Shard] = []
        first = 0
        for entry in self.manifest["shards"][split]:
            path = self.directory / entry["file"]
            found.append(read_shard(path, entry["weight"], first))
            first += len(found[-1])
        return found

    def verify(self, shard: Shard) -> None:
        """Checks the bytes of a shard, before its first pair is used.

        Raises:
            InputError: the file differs (status 2).
        """
        name = shard.path.relative_to(self.directory).as_posix()
        expected = self.manifest["files"][name]["sha256"]
        found = manifest.file_hash(shard.path)
        if found != expected:
            raise InputError(
                f"damaged file (sha256 {found[:12]}…, {expected[:12]}… in the manifest), "
                f"{shard.path}, run nmt prepare again"
            )

    def mark_used(self, run: Path) -> None:
        """Notes that a run was trained on this data, which `prepare` then refuses to replace.

        The note counts as long as the run's directory exists.
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
            # A directory that cannot be written to cannot be prepared again either.


def refuse_if_used(directory: Path, origin: Mapping[str, Any]) -> None:
    """Raises InputError if a run was trained on data there that are not of `origin`.

    Args:
        origin: what data depend on; its hash is the manifest's `origin_sha256`.
    """
    wanted = manifest.value_hash(origin)
    for run, used in _users(directory):
        if used == wanted:
            continue
        try:
            former = PreparedData.open(directory).manifest["settings"]
            changed = changes(former, origin["settings"])
        except InputError:
            changed = "their manifest is lost"
        raise InputError(
            f"a run was trained on these data, which would change ({changed}), "
            f"{run} on {directory}, name another data.directory or remove the run"
        )


def _users(directory: Path) -> Iterator[tuple[Path, str]]:
    """The runs that were trained on data there, and the `origin_sha256` of each one's data.

    Raises:
        InputError: the note of a run is damaged.
    """
    for path in entries(directory / USED_BY):
        if path.suffix != ".json":
            continue
        try:
            note = json.loads(small_file(path, _MAX_NOTE_BYTES))
            run, used = Path(note["run"]), note["origin_sha256"]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"damaged note of a run that was trained on these data, {path}, "
                "name another data.directory, or remove the note if that run is gone"
            ) from None
        if run.is_dir():
            yield run, used


def settings_of(config: Config) -> dict[str, Any]:
    """The settings that prepared data depend on, as their manifest has them."""
    data = config.data.model_dump(mode="json", exclude={"directory"})
    return {"data": data, "tokenizer": config.tokenizer.model_dump(mode="json", exclude_none=True)}


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What differs between two data's settings, each with its values, for a message."""
    found = []
    for section in new:
        was, now = old.get(section, {}), new[section]
        for key in dict.fromkeys([*now, *was]):
            if was.get(key) != now.get(key):
                values = [json.dumps(v.get(key), ensure_ascii=False) for v in (was, now)]
                short = len("".join(values)) <= 80
                found.append(
                    f"{section}.{key}" + (f" was {values[0]}, is {values[1]}" if short else "")
                )
    return "; ".join(found) or "other input files, or an earlier nmt"
