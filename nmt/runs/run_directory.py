"""Defines the layout of run directories, and checks that a run keeps its settings and data."""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nmt import config as configuration
from nmt.config import MAY_CHANGE, Config
from nmt.errors import ArgumentError, InputError, NoModelError, Note
from nmt.storage import atomic, manifest, names
from nmt.storage.opening import entries, refuse_not_utf8, small_file

_PLACES = {  # data paths, which may change because checkpoints contain the data's hash
    "data.directory", "data.train", "data.validation", "data.test",
}  # fmt: skip
_MAX_CONFIG_BYTES = 1_000_000
_STEP = re.compile(r"step-([0-9]{8,16})")


def owner(path: Path) -> Path | None:
    """Returns the run, model or data directory to which a file belongs, or None if there is none.

    Args:
        path: the path of the file, which need not exist, with symbolic links resolved.
    """
    for folder in path.parents:
        is_run = (folder / names.CONFIG).is_file() and any(
            (folder / name).exists() for name in (atomic.LOCK, names.CHECKPOINTS, names.MODEL)
        )
        is_described = (folder / manifest.NAME).is_file() and not manifest.is_foreign(folder)
        own = (names.IN_RUN if is_run else set()) | (names.DESCRIBED if is_described else set())
        if path.relative_to(folder).parts[0] in own:
            return folder
    return None


def refuse_output(path: Path) -> None:
    """Raises InputError if a model must not be written to `path`.

    A model may be written to a path that does not exist or is an empty directory (see
    `refuse_existing`). The path must not be inside a run, a model or prepared data, except in
    directories that nmt does not manage (see `owner`).
    """
    atomic.refuse_existing(path)
    if own := owner(Path(os.path.realpath(path))):
        raise ArgumentError(
            "{output} {} is inside {}, which nmt manages. Choose a directory outside it.", path, own
        )


@dataclass(frozen=True)
class RunDirectory:
    """The paths of the files in a run directory, whether or not the files exist."""

    path: Path

    def __post_init__(self) -> None:
        refuse_not_utf8(self.path)

    @classmethod
    def around(cls, folder: Path) -> "RunDirectory":
        """Returns the run directory that contains a model or checkpoint."""
        above = folder.parent
        is_checkpoint = above.name == names.CHECKPOINTS and folder.name != names.MODEL
        return cls(above.parent if is_checkpoint else above)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def config(self) -> Path:
        """The path of the run's resolved configuration."""
        return self.path / names.CONFIG

    @property
    def tokenizer(self) -> Path:
        """The path of the run's copy of the prepared data's tokenizer."""
        return self.path / names.TOKENIZER

    @property
    def log(self) -> Path:
        """The path of log.jsonl, which contains one JSON object for each logged step or event."""
        return self.path / names.LOG

    @property
    def tensorboard(self) -> Path:
        """The directory that contains the event files for TensorBoard."""
        return self.path / names.TENSORBOARD

    @property
    def model(self) -> Path:
        """The directory that contains the finished model."""
        return self.path / names.MODEL

    @property
    def test_scores(self) -> Path:
        """The path of the file in which `nmt report` stores the finished model's test results."""
        return self.path / names.EVALUATION / names.TEST_SCORES

    @property
    def examples(self) -> Path:
        """The path of the example sentences file for `nmt serve` (see `nmt.serving.examples`)."""
        return self.path / names.EVALUATION / names.EXAMPLES

    @property
    def test_set(self) -> Path:
        """The path of the run's copy of `data.test` (see `nmt.data.kept_test_set`)."""
        return self.path / names.TEST_SET

    @property
    def data_manifest(self) -> Path:
        """The path of the run's copy of the manifest of its prepared data."""
        return self.path / names.DATA_MANIFEST

    @property
    def checkpoints(self) -> Path:
        """The directory that contains the run's checkpoints."""
        return self.path / names.CHECKPOINTS

    def checkpoint(self, step: int) -> Path:
        """Returns the path of the directory for the checkpoint of `step`."""
        return self.checkpoints / f"step-{step:08d}"

    def by_step(self) -> list[tuple[int, Path]]:
        """Returns the step and path of each directory named like a checkpoint, newest first."""
        found = []
        for path in entries(self.checkpoints):
            digits = _STEP.fullmatch(path.name)
            if digits and path == self.checkpoint(step := int(digits[1])):
                found.append((step, path))
        return sorted(found, reverse=True)

    def models(self) -> list[Path]:
        """Returns the paths of the finished model and of all checkpoints, valid or damaged."""
        finished = [self.model] if os.path.lexists(self.model) else []
        return finished + [folder for _, folder in self.by_step()]

    @property
    def may_hold_models(self) -> bool:
        """Returns whether the run has a `checkpoints` or `model` directory, which may be empty."""
        return self.checkpoints.is_dir() or self.model.is_dir()

    @property
    def is_run(self) -> bool:
        """Returns whether this directory is a run directory, and not a model or checkpoint."""
        return self.config.is_file() and not (self.path / manifest.NAME).exists()

    def settings(self) -> Config:
        """Returns the settings of the run's last start; raises InputError if they are not valid."""
        return configuration.load_resolved(self.config)

    def locked(self) -> AbstractContextManager[None]:
        """Creates and locks the directory for one training process (see `atomic.lock`)."""
        return atomic.lock(self.path, "nmt train")

    def remove_leftovers(self) -> None:
        """Removes unfinished files in the run directory that were left by killed processes."""
        for folder in (self.path, self.checkpoints, *(folder for _, folder in self.by_step())):
            atomic.remove_leftovers(folder)

    def identity(self) -> "RunIdentity":
        """Reads the settings and the data manifest that the models of the run must match."""
        settings, data = b"", None
        with suppress(InputError, OSError):
            settings = small_file(self.config, _MAX_CONFIG_BYTES)
        with suppress(InputError):
            data = manifest.read(self.path, "data", names.DATA_MANIFEST)
        return RunIdentity(self, settings, data)

    def refuse_what_is_not_ours(self) -> None:
        """Raises InputError if the run would overwrite files that nmt train did not create.

        Also raises InputError if the directory is a model, or if the run's settings are not valid.
        """
        if self.models():
            return
        foreign = [self.log, self.tokenizer, self.data_manifest, self.test_set]
        if self.config.exists():
            # A configuration with comments, or without all settings, was written by the user.
            content = small_file(self.config, _MAX_CONFIG_BYTES)
            foreign = [] if content == self.settings().to_yaml().encode() else [self.config]
        if manifest.is_foreign(self.path):
            foreign.append(self.path / manifest.NAME)
        elif os.path.lexists(self.path / manifest.NAME):  # a run has no manifest, see `is_run`
            raise InputError(
                f"{self.path} contains a model or data, not a run. Choose another "
                "training.run_directory."
            )
        for path in foreign:
            if os.path.lexists(path):
                raise InputError(
                    f"{path} was not created by nmt train, so it will not be overwritten. Move it "
                    "elsewhere, or choose another training.run_directory."
                )

    def refuse_changes(self, config: Config, note: Note) -> None:
        """Raises InputError if `config` changes a setting that must stay the same during a run.

        If the run has not begun (see `has_begun`), all settings may change: the run starts over,
        and `note` is called with a message for each changed setting that would otherwise cause an
        error.
        """
        if not self.config.exists():
            return
        inline = configuration.inline
        changed = [
            (key, f"{key} is {inline(new)}, but run {self} was started with {inline(old)}.")
            for key, (old, new) in configuration.differences(self.settings(), config).items()
        ]
        problems = [text for key, text in changed if key not in MAY_CHANGE]
        if problems and self.has_begun():
            remedy = "Restore the setting, or choose another training.run_directory."
            raise InputError(*(f"{problem} {remedy}" for problem in problems))
        for problem in problems:
            note(f"{problem} The run has no checkpoint and starts over.")

    def has_begun(self) -> bool:
        """Returns whether the run has a finished model or a checkpoint, even a damaged one."""
        return os.path.lexists(self.model) or any(
            not path.name.startswith(".") for path in entries(self.checkpoints)
        )

    def refuse_other_data(self, hashes: Mapping[str, str]) -> None:
        """Raises NoModelError if the run was trained on other data than the current prepared data.

        `hashes` is compared with the data manifest in the run directory.
        """
        try:
            former = manifest.read(self.path, "data", names.DATA_MANIFEST)
        except InputError:  # each checkpoint is compared when it is opened
            return
        for key, value in hashes.items() if self.models() else ():
            if former[key] != value:
                raise NoModelError(
                    f"The prepared data is not the data that the run was trained on: it has {key} "
                    f"{value}, but {self.data_manifest} has {former[key]}. Restore the data, or "
                    "choose another training.run_directory."
                )

    def set_up(self, config: Config, tokenizer: bytes, data: dict[str, Any]) -> None:
        """Writes the tokenizer, the data manifest and, if the run is new, the settings of a run.

        Args:
            tokenizer: the content of the tokenizer file.
        """
        if not (self.config.exists() and self.has_begun()):
            self.record(config)
        atomic.write_if_changed(self.tokenizer, tokenizer)
        atomic.write_if_changed(self.data_manifest, manifest.file_of(data))

    def record(self, config: Config) -> None:
        """Writes the run's current settings to its configuration file."""
        atomic.write_if_changed(self.config, config.to_yaml().encode())


@dataclass(frozen=True)
class RunIdentity:
    """The settings and the data manifest that the models and checkpoints of a run must match."""

    directory: RunDirectory
    settings: bytes  # the content of config.yaml; empty if it cannot be read
    data: dict[str, Any] | None  # the manifest of the prepared data; None if it cannot be read

    def refuse_foreign(self, folder: Path, content: dict[str, Any]) -> None:
        """Raises NoModelError if a model or checkpoint does not match the run's data and settings.

        Settings in `MAY_CHANGE` and the paths of data files may differ. If the run's own settings
        are missing or damaged, only the data is compared.

        Args:
            content: the content of the manifest in `folder`.
        """
        self.data_of(folder, content)
        recorded = content["files"].get(names.CONFIG, {}).get("sha256")
        if recorded == hashlib.sha256(self.settings).hexdigest():
            return
        if self._config is None:
            return
        its_config = configuration.load_resolved(folder / names.CONFIG)
        found = configuration.differences(its_config, self._config)
        for key in sorted(found.keys() - MAY_CHANGE - _PLACES):
            its, ours = map(configuration.inline, found[key])
            raise NoModelError(
                f"{folder} belongs to another run: its {key} is {its}, but this run's is {ours}. "
                f"Move {folder} out of the run directory."
            )

    @cached_property
    def _config(self) -> Config | None:
        with suppress(InputError, OSError):
            return self.directory.settings()
        return None

    def data_of(self, folder: Path, content: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the manifest of the data that a checkpoint or model was trained on.

        Returns None if the run directory contains no valid data manifest.

        Args:
            content: the content of the manifest in `folder`.

        Raises:
            NoModelError: the checkpoint or model was trained on other data than the run.
        """
        found = content["data_sha256"]
        recorded = self.data["data_sha256"] if self.data else found
        if found != recorded:
            raise NoModelError(
                f"{folder} was not trained on the data of this run: it has data_sha256 {found}, "
                f"but {self.directory.data_manifest} has {recorded}. Move {folder} out of the run "
                f"directory, or restore {names.DATA_MANIFEST} from a copy."
            )
        return self.data
