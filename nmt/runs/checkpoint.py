"""Training checkpoints: weights, Adam's moments and one integer, the step.

A checkpoint is a directory `RUN/checkpoints/step-00001000/` that counts only once its manifest
is in it. A run resumes from the newest one that verifies; a broken one is named and left in place.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import Config
from nmt.errors import InputError, NoModelError, Note, of_system
from nmt.runs.model_directory import (
    MOMENTS,
    passing_over,
    read_tensors,
    refuse_unsound,
    write_model_files,
    write_tensors,
)
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import State, read_state
from nmt.storage import manifest
from nmt.storage.atomic import aside, free_name, new_directory, remove_leftovers
from nmt.storage.names import OPTIMIZER, STATE, WEIGHTS

HASHES = ("tokenizer_sha256", "data_sha256")
_STATE_SINCE = "state"  # key of the manifest, see `record_state`
_OPTIMIZER_STATES_KEPT = 2  # the newest; older checkpoints serve averaging alone


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds besides configuration and tokenizer."""

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]  # "exp_avg.NAME" and "exp_avg_sq.NAME" of each parameter
    state: State

    @property
    def step(self) -> int:
        """The steps that were taken."""
        return self.state.step


def save(
    run: RunDirectory,
    checkpoint: Checkpoint,
    config: Config,
    tokenizer: bytes,
    facts: dict[str, Any],
    shortlist: bytes | None = None,
) -> None:
    """Writes a checkpoint, whole or not at all.

    Args:
        facts: keys of the manifest besides its own and `step`.
        shortlist: its file, if there is one.
    """
    path = run.checkpoint(checkpoint.step)
    if os.path.lexists(path):  # a broken one, passed over when the run was resumed
        path.replace(free_name(path, "broken"))
    with new_directory(path) as folder:
        write_model_files(folder, config, tokenizer, checkpoint.weights, shortlist)
        write_tensors(folder / OPTIMIZER, checkpoint.moments)
        (folder / STATE).write_text(checkpoint.state.model_dump_json(indent=1))
        manifest.write(folder, "checkpoint", facts | {"step": checkpoint.step})


def record_state(run: RunDirectory, state: State) -> None:
    """Gives the checkpoint of a step another state than it was written with.

    The new state goes into the manifest, which replaces the old one in one file operation.
    """
    folder = run.checkpoint(state.step)
    content = manifest.read(folder, "checkpoint")
    manifest.rewrite(folder, content | {_STATE_SINCE: state.model_dump()})


def scheduled(steps: Iterable[int], every: int, last: int) -> list[int]:
    """The steps whose checkpoints count for averaging, newest first.

    They are what an undisturbed run writes: multiples of `every` up to `last`, and `last`. Those
    of a stop in between do not count, so that a stopped run ends in the same mean.
    """
    counting = (step for step in steps if step == last or (step < last and step % every == 0))
    return sorted(counting, reverse=True)


def rotate(run: RunDirectory, newest: int, every: int, keep: int, best: int | None) -> None:
    """Removes checkpoints that are no longer needed once that of step `newest` is written.

    What stays: the newest `keep` scheduled ones, the best one, any beyond `newest`, which a
    resumed run has passed over because they are broken, and those of another run.
    Optimizer state stays in the newest two; the manifests of the others no longer list it.
    """
    remove_leftovers(run.checkpoints)
    steps = [step for step, folder in run.by_step() if step <= newest and _is_own(run, folder)]
    kept = {*scheduled(steps, every, newest)[:keep], best}
    with_state = [step for step in steps if step in kept][:_OPTIMIZER_STATES_KEPT]
    for step in steps:
        folder = run.checkpoint(step)
        remove_leftovers(folder)
        if step not in kept:
            # renamed before it is removed, so that no reader finds half of it
            folder.replace(aside(folder, "former"))
        elif step not in with_state and (folder / OPTIMIZER).exists():
            content = manifest.read(folder, "checkpoint")
            content["files"].pop(OPTIMIZER, None)
            manifest.rewrite(folder, content)
            (folder / OPTIMIZER).unlink()
    remove_leftovers(run.checkpoints)


def newest(run: RunDirectory, note: Note) -> Checkpoint | None:
    """The newest checkpoint that verifies and can be resumed from; None if there is none at all.

    Args:
        note: is told of each checkpoint passed over, and why.

    Raises:
        NoModelError: there are checkpoints, but none is sound.
        LastingError: a later version of nmt wrote one, or one may not be opened; resuming from an
            older one loses work.
    """
    problems: list[str] = []
    for _, folder in run.by_step():
        with passing_over(problems.append):
            return _read(folder)
        note(f"passing over a checkpoint: {problems[-1]}")
    if problems:
        raise NoModelError(problems[0])
    return None


def _read(folder: Path) -> Checkpoint:
    """A checkpoint to go on from; InputError if it is none."""
    content = manifest.read(folder, "checkpoint")
    if OPTIMIZER not in content["files"]:
        raise InputError(f"no optimizer state, {folder}, resume from a newer checkpoint")
    refuse_unsound(folder, content, (STATE, OPTIMIZER))
    try:
        state = read_state(folder / STATE, content.get(_STATE_SINCE))
        weights, moments = read_tensors(folder / WEIGHTS), read_tensors(folder / OPTIMIZER)
    except OSError as error:
        raise of_system(error) from None
    return Checkpoint(weights, moments, state)


def sound_checkpoints(
    run: RunDirectory,
    at_most: int,
    note: Note,
    every: int = 1,
    last: int | None = None,
) -> list[tuple[int, Path]]:
    """The newest scheduled checkpoints whose model files verify, newest first, with their steps.

    Args:
        note: is told of each checkpoint passed over, and why.
        every: see `scheduled`; 1 takes all there are.
        last: likewise; None: the newest there is.
    """
    steps = [step for step, _ in run.by_step()]
    found: list[tuple[int, Path]] = []
    common: dict[str, str] = {}  # hashes, of the data that all are trained on
    for step in scheduled(steps, every, max(steps, default=0) if last is None else last):
        if len(found) == at_most:
            break
        folder = run.checkpoint(step)
        with passing_over(lambda problem: note(f"passing over a checkpoint: {problem}")):
            content = manifest.read(folder, "checkpoint")
            refuse_unsound(folder, content)
            hashes = {key: content[key] for key in HASHES}
            if hashes != (common or hashes):
                raise InputError(f"of other data than step {found[0][0]}, {folder}, move it")
            common = hashes
            found.append((step, folder))
    return found


def adam_moments(optimizer: torch.optim.Adam, module: nn.Module) -> dict[str, Tensor]:
    """Adam's moments by parameter name; they are the optimizer's own tensors."""
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment]
        for name, parameter in module.named_parameters()
        for moment in MOMENTS
    }


def restore_adam(
    optimizer: torch.optim.Adam, module: nn.Module, moments: dict[str, Tensor], step: int
) -> None:
    """Gives Adam the moments it had after `step` steps."""
    for name, parameter in module.named_parameters():
        optimizer.state[parameter] = {
            # a tensor, as the fused kernel keeps it
            "step": torch.tensor(float(step), device=parameter.device),
        } | {moment: moments[f"{moment}.{name}"].to(parameter.device) for moment in MOMENTS}


def _is_own(run: RunDirectory, folder: Path) -> bool:
    try:
        manifest.read(folder, "checkpoint")
        run.refuse_foreign(folder)
    except InputError:
        return False
    return True
