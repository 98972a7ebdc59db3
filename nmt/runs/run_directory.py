"""A run's directory: where things are in it, which are its own, which settings may change."""

import os
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt import config as configuration
from nmt.config import Config
from nmt.errors import ArgumentError, InputError, NoModelError, Note
from nmt.storage import atomic, manifest, names
from nmt.storage.opening import entries, refuse_not_utf8, small_file

MAY_CHANGE = {
    "training.run_directory",  # a run may be moved
    "training.max_steps",
    "training.checkpoint_every",
    "training.keep_checkpoints",
    "training.average_last",
    "training.validate_every",
    "training.log_every",
    "training.early_stopping",
    "training.finished_model",
    "decoding.beam",
    "decoding.length_penalty",
    "decoding.max_extra_length",
}
_PLACES = {  # of data, which checkpoints know by their hash
    "data.directory", "data.train", "data.validation", "data.test",
}  # fmt: skip
_MAX_CONFIG_BYTES = 1_000_000
_STEP = re.compile(r"step-([0-9]{8,16})")


def owner(path: Path) -> Path | None:
    """The run, model or prepared data one of whose own files has this path; None if there is none.

    Args:
        path: of a file that is there or not, its links resolved.
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
    """Raises InputError if no model can be written to a folder: see `refuse_existing`.

    Nor among the files of a run or of data, where it would be read as a damaged one of theirs: then
    ArgumentError, as of `output`.
    """
    atomic.refuse_existing(path)
    if own := owner(Path(os.path.realpath(path))):
        raise ArgumentError("among nmt's own files in {}, {output} {}, name another", own, path)


@dataclass(frozen=True)
class RunDirectory:
    """Where things are in a run. None of it has to exist or be sound."""

    path: Path

    def __post_init__(self) -> None:
        refuse_not_utf8(self.path)

    @classmethod
    def around(cls, folder: Path) -> "RunDirectory":
        """The run that a model or checkpoint directory is in."""
        above = folder.parent
        is_checkpoint = above.name == names.CHECKPOINTS and folder.name != names.MODEL
        return cls(above.parent if is_checkpoint else above)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / names.CONFIG

    @property
    def tokenizer(self) -> Path:
        """The vocabulary, a copy of the data's."""
        return self.path / names.TOKENIZER

    @property
    def log(self) -> Path:
        """One JSON object for each logged step and event."""
        return self.path / names.LOG

    @property
    def tensorboard(self) -> Path:
        """TensorBoard's files."""
        return self.path / names.TENSORBOARD

    @property
    def model(self) -> Path:
        """The finished model, a mean of checkpoints."""
        return self.path / names.MODEL

    @property
    def test_scores(self) -> Path:
        """Scores and translations of the finished model, as `nmt report` keeps them."""
        return self.path / names.EVALUATION / names.TEST_SCORES

    @property
    def examples(self) -> Path:
        """Sentences that the page of `nmt serve` offers, see `nmt.serving.examples`."""
        return self.path / names.EVALUATION / names.EXAMPLES

    @property
    def test_set(self) -> Path:
        """The text of `data.test`, see `nmt.data.test_set`."""
        return self.path / names.TEST_SET

    @property
    def data_manifest(self) -> Path:
        """A copy of the manifest of the data that the run was trained on."""
        return self.path / names.DATA_MANIFEST

    @property
    def checkpoints(self) -> Path:
        """The directory of all checkpoints."""
        return self.path / names.CHECKPOINTS

    def checkpoint(self, step: int) -> Path:
        """The directory of a step's checkpoint."""
        return self.checkpoints / f"step-{step:08d}"

    def by_step(self) -> list[tuple[int, Path]]:
        """What has the name of a checkpoint, sound or not, with its step, newest first."""
        found = []
        for path in entries(self.checkpoints):
            digits = _STEP.fullmatch(path.name)
            if digits and path == self.checkpoint(step := int(digits[1])):
                found.append((step, path))
        return sorted(found, reverse=True)

    def models(self) -> list[Path]:
        """What has the name of the finished model or of a checkpoint, sound or not."""
        finished = [self.model] if os.path.lexists(self.model) else []
        return finished + [folder for _, folder in self.by_step()]

    @property
    def may_hold_models(self) -> bool:
        """Whether there is a place where models are put, sound or not."""
        return self.checkpoints.is_dir() or self.model.is_dir()

    @property
    def is_run(self) -> bool:
        """Whether this is a run's directory, not a model's or that of a checkpoint."""
        return self.config.is_file() and not (self.path / manifest.NAME).exists()

    def settings(self) -> Config:
        """The settings that the run was last started with; InputError if they cannot be read."""
        return configuration.load_resolved(self.config)

    def locked(self) -> AbstractContextManager[atomic.Lock]:
        """Makes the directory and holds it for one trainer, see `atomic.lock`."""
        return atomic.lock(self.path, "nmt train")

    def remove_leftovers(self) -> None:
        """Removes what killed trainers have left unfinished, in checkpoints too."""
        for folder in (self.path, self.checkpoints, *(folder for _, folder in self.by_step())):
            atomic.remove_leftovers(folder)

    def refuse_foreign(self, folder: Path) -> None:
        """Raises NoModelError if a checkpoint or model was trained on other data or settings.

        Settings in `MAY_CHANGE` may differ. If the run's own settings are missing or cannot be
        read, nothing is refused for its settings.
        """
        self.data_of(folder)
        path = folder / names.CONFIG
        try:
            both = [small_file(file, _MAX_CONFIG_BYTES) for file in (self.config, path)]
            if both[0] == both[1]:
                return
            own = self.settings()
        except (InputError, OSError):
            return
        found = configuration.differences(configuration.load_resolved(path), own)
        for key in sorted(found.keys() - MAY_CHANGE - _PLACES):
            its, ours = map(configuration.inline, found[key])
            raise NoModelError(
                f"of another run ({key} is {its}, here it is {ours}), {folder}, move it"
            )

    def data_of(self, folder: Path) -> dict[str, Any] | None:
        """The manifest of the data that the run was trained on; None if it has kept none.

        Args:
            folder: a model or checkpoint in the run, which should be of the same data.

        Raises:
            NoModelError: `folder` is of other data than the run, or its manifest is damaged.
        """
        try:
            own = manifest.read(self.path, "data", names.DATA_MANIFEST)
        except InputError:
            return None
        kind = "checkpoint" if (folder / names.STATE).exists() else "model"
        found, recorded = manifest.read(folder, kind)["data_sha256"], own["data_sha256"]
        if found != recorded:
            raise NoModelError(
                f"of other data (sha256 {found}, {recorded} in {names.DATA_MANIFEST}), {folder}, "
                f"move it, or restore {self.data_manifest}"
            )
        return own

    def refuse_what_is_not_ours(self) -> None:
        """Raises InputError if files that are not ours are where a run would write its own."""
        if self.config.exists() or self.models():
            return
        for path in (self.log, self.tokenizer, self.data_manifest, self.test_set):
            if os.path.lexists(path):
                raise InputError(
                    f"not made by nmt train, {path}, move it away, "
                    "or name another training.run_directory"
                )

    def refuse_changes(self, config: Config, note: Note) -> None:
        """Raises InputError if the run here was started with other settings that matter.

        Where there is neither a checkpoint, sound or not, nor a model, nothing depends on them yet:
        `note` is told that the run begins anew.
        """
        if not self.config.exists():
            return
        inline = configuration.inline
        changed = [
            (key, f"{key} is {inline(new)}, the run was started with {inline(old)}, {self}")
            for key, (old, new) in configuration.differences(self.settings(), config).items()
        ]
        problems = [text for key, text in changed if key not in MAY_CHANGE]
        if problems and self._has_begun():
            remedy = "restore it or name another training.run_directory"
            raise InputError(*(f"{problem}, {remedy}" for problem in problems))
        for problem in problems:
            note(f"{problem}, which has no checkpoint: the run begins anew")

    def _has_begun(self) -> bool:
        return os.path.lexists(self.model) or any(
            not path.name.startswith(".") for path in entries(self.checkpoints)
        )

    def set_up(self, config: Config, tokenizer: bytes) -> None:
        """Writes the tokenizer (its file's content), and the settings of a run that begins here."""
        if not (self.config.exists() and self._has_begun()):
            self.record(config)
        atomic.write_if_changed(self.tokenizer, tokenizer)

    def record(self, config: Config) -> None:
        """Writes the settings with which the run goes on."""
        atomic.write_if_changed(self.config, config.to_yaml().encode())
