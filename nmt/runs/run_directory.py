"""A run's directory: where its checkpoints lie, and how it knows them from another run's."""

import re
from pathlib import Path

from nmt import config as configuration
from nmt.errors import InputError, NoModelError

CONFIG = "config.yaml"
MAY_CHANGE = {
    "training.run_directory",  # a run may be moved
    "training.max_steps",
    "training.checkpoint_every",
    "training.keep_checkpoints",
    "training.average_last",
    "training.validate_every",
    "training.log_every",
    "training.early_stopping",
    "decoding.beam",
    "decoding.length_penalty",
    "decoding.max_extra_length",
}
_PLACES = {  # of data, which checkpoints know by their hash
    "data.directory", "data.train", "data.validation", "data.test",
}  # fmt: skip


def checkpoint_of(run: Path, step: int) -> Path:
    """The directory of a step's checkpoint."""
    return run / "checkpoints" / f"step-{step:08d}"


def by_step(run: Path) -> list[tuple[int, Path]]:
    """What stands under the name of a checkpoint, sound or not, newest first, with its step."""
    found = []
    for path in (run / "checkpoints").glob("step-*"):
        digits = re.fullmatch(r"step-([0-9]{8,16})", path.name)
        if digits and path == checkpoint_of(run, step := int(digits[1])):
            found.append((step, path))
    return sorted(found, reverse=True)


def refuse_foreign(run: Path, folder: Path) -> None:
    """Raises NoModelError if a checkpoint or model in `run` was trained with other settings.

    What may change while a run goes on may differ. A run whose own settings are lost or cannot be
    read knows none as foreign.
    """
    try:
        if (run / CONFIG).read_bytes() == (folder / CONFIG).read_bytes():
            return
        own = configuration.load_resolved(run / CONFIG)
    except (InputError, OSError):
        return
    found = configuration.differences(configuration.load_resolved(folder / CONFIG), own)
    for key in found.keys() - MAY_CHANGE - _PLACES:
        its, this = found[key]
        raise NoModelError(f"of another run ({key} is {its}, here it is {this}), {folder}, move it")
