"""Writes, reads and removes training checkpoints.

A checkpoint contains the weights, the optimizer's state and the training state. It is a directory,
such as `RUN/checkpoints/step-00001000/`, and becomes valid when its manifest is written. A run
resumes from its newest valid checkpoint. Damaged checkpoints are reported but not removed.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.config import Config
from nmt.errors import InputError, NoModelError, Note, of_system
from nmt.runs.model_directory import (
    OpenedModel,
    Skipped,
    open_in_run,
    skipping,
    write_model_files,
)
from nmt.runs.run_directory import RunDirectory, RunIdentity
from nmt.runs.state import State, read_state
from nmt.runs.tensor_files import write_tensors
from nmt.storage import manifest
from nmt.storage.atomic import aside, free_name, new_directory, remove_leftovers
from nmt.storage.names import OPTIMIZER, STATE

HASHES = ("tokenizer_sha256", "data_sha256")
_STATE_SINCE = "state"  # key in the manifest (see `record_state`)
_OPTIMIZER_STATES_KEPT = 2  # number of checkpoints, the newest first


@dataclass(frozen=True)
class Checkpoint:
    """The weights, the optimizer state and the training state in a checkpoint."""

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]  # keys: "STATE.PARAMETER"; shaped like the parameter
    state: State

    @property
    def step(self) -> int:
        """Returns the number of optimizer steps before the checkpoint."""
        return self.state.step


def save(
    run: RunDirectory,
    checkpoint: Checkpoint,
    config: Config,
    files: Mapping[str, bytes],
    facts: Mapping[str, Any],
) -> None:
    """Writes a checkpoint atomically.

    Args:
        files: see `save_model`.
        facts: entries that are written to the manifest in addition to `step`.
    """
    path = run.checkpoint(checkpoint.step)
    if os.path.lexists(path):  # a damaged checkpoint, skipped when the run was resumed
        path.replace(free_name(path, "broken"))
    with new_directory(path) as folder:
        write_model_files(folder, config, files, checkpoint.weights)
        write_tensors(folder / OPTIMIZER, checkpoint.optimizer)
        (folder / STATE).write_text(checkpoint.state.model_dump_json(indent=1))
        manifest.write(folder, "checkpoint", {**facts, "step": checkpoint.step})


def record_state(run: RunDirectory, state: State) -> None:
    """Replaces the training state in an existing checkpoint.

    The new training state is stored in the checkpoint's manifest, which is replaced atomically.
    """
    folder = run.checkpoint(state.step)
    content = manifest.read(folder, "checkpoint")
    manifest.rewrite(folder, content | {_STATE_SINCE: state.model_dump()})


def scheduled(steps: Iterable[int], every: int, last: int) -> list[int]:
    """Returns the steps whose checkpoints may be averaged, in descending order.

    A checkpoint may be averaged if its step is `last`, or if its step is less than `last` and a
    multiple of `every`. Every run saves a checkpoint at these steps. Checkpoints of other steps,
    such as the step at which a run was stopped, are not averaged. A resumed run therefore has the
    same mean weights as an uninterrupted run.
    """
    counting = (step for step in steps if step == last or (step < last and step % every == 0))
    return sorted(counting, reverse=True)


def rotate(own: RunIdentity, newest: int, every: int, keep: int, best: int | None) -> None:
    """Removes checkpoints that are no longer needed after the checkpoint of step `newest` is saved.

    Keeps the newest `keep` scheduled checkpoints (see `scheduled`), the best checkpoint, and
    checkpoints of other runs. Checkpoints of steps after `newest` are also kept: they are damaged
    and were skipped when the run was resumed. Of the run's own checkpoints, only the newest two
    keep their optimizer states. All other optimizer states are removed, together with their
    manifest entries.
    """
    run = own.directory
    remove_leftovers(run.checkpoints)
    manifests: dict[int, dict[str, Any]] = {}
    for step, folder in run.by_step():
        with suppress(InputError):  # raised if the checkpoint is damaged or belongs to another run
            if step <= newest:
                content = manifest.read(folder, "checkpoint")
                own.refuse_foreign(folder, content)
                manifests[step] = content
    kept = {*scheduled(manifests, every, newest)[:keep], best}
    with_state = [step for step in manifests if step in kept][:_OPTIMIZER_STATES_KEPT]
    for step, content in manifests.items():
        folder = run.checkpoint(step)
        remove_leftovers(folder)
        if step not in kept:
            # renamed before removal, so that no reader finds an incomplete checkpoint
            folder.replace(aside(folder, "former"))
        elif step not in with_state and (folder / OPTIMIZER).exists():
            content["files"].pop(OPTIMIZER, None)
            manifest.rewrite(folder, content)
            (folder / OPTIMIZER).unlink()
    remove_leftovers(run.checkpoints)


def newest(own: RunIdentity, note: Note) -> Checkpoint | None:
    """Returns a run's newest valid checkpoint, or None if the run has no checkpoints.

    Args:
        note: a function that is called with a message for each checkpoint that is skipped.

    Raises:
        NoModelError: the run has checkpoints, but none of them is valid.
        LastingError: a checkpoint was written by a later version of nmt or cannot be opened.
            Skipping this checkpoint would discard training steps.
    """
    skipped: list[Skipped] = []
    for _, folder in own.directory.by_step():
        with skipping(folder, skipped):
            return _read(own, folder)
        note(str(skipped[-1]))
    if skipped:
        raise NoModelError(skipped[0].problem)
    return None


def _read(own: RunIdentity, folder: Path) -> Checkpoint:
    """Reads a checkpoint; raises InputError if training cannot resume from it."""
    content = manifest.read(folder, "checkpoint")
    if OPTIMIZER not in content["files"]:
        raise InputError(
            f"Training cannot resume from {folder}: its optimizer state was removed when newer "
            "checkpoints were saved. Restore a newer checkpoint from a copy."
        )
    opened = open_in_run(own, folder, content, with_optimizer=True)
    assert opened.optimizer is not None
    try:
        state = read_state(folder / STATE, content.get(_STATE_SINCE))
    except OSError as error:
        raise of_system(error) from None
    return Checkpoint(opened.weights, opened.optimizer, state)


def sound_checkpoints(
    own: RunIdentity,
    at_most: int,
    note: Note,
    every: int = 1,
    last: int | None = None,
) -> Iterator[OpenedModel]:
    """Yields a run's newest valid checkpoints in descending order of their steps.

    Each checkpoint is opened only when the generator is advanced to it.

    Args:
        at_most: the maximum number of checkpoints to yield.
        note: a function that is called with a message for each checkpoint that is skipped.
        every: if greater than 1, only checkpoints whose step is `last` or a multiple of `every`
            are yielded (see `scheduled`).
        last: the maximum step of a checkpoint to yield, or None for the step of the newest
            checkpoint.
    """
    steps = [step for step, _ in own.directory.by_step()]
    left = at_most
    for step in scheduled(steps, every, max(steps, default=0) if last is None else last):
        if not left:
            return
        folder = own.directory.checkpoint(step)
        skipped: list[Skipped] = []
        with skipping(folder, skipped):
            opened = open_in_run(own, folder, manifest.read(folder, "checkpoint"))
            left -= 1
            yield opened
            del opened  # before the next weights are read
        for each in skipped:
            note(str(each))
