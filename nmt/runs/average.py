"""Averages the weights of checkpoints (§6.1), for a run's finished model and for `nmt average`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.config import Config
from nmt.errors import ArgumentError, InputError, NoModelError, Note, count
from nmt.runs.checkpoint import HASHES, sound_checkpoints
from nmt.runs.model_directory import open_in_run, read_config, save_model
from nmt.runs.run_directory import RunDirectory, refuse_output
from nmt.runs.tensor_files import read_tensors
from nmt.storage import atomic, manifest
from nmt.storage.names import SHORTLIST, TOKENIZER, WEIGHTS


def mean_weights(folders: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of the weights of models or checkpoints, in fp32.

    Only the mean is held in memory: files are memory-mapped, so the system can drop what was read.

    Raises:
        NoModelError: a file is damaged, or the sum exceeds the range of fp32.
    """
    mean = read_tensors(folders[0] / WEIGHTS)
    for folder in folders[1:]:
        for name, tensor in read_tensors(folder / WEIGHTS).items():
            mean[name] += tensor
    for name, tensor in mean.items():
        if not tensor.div_(len(folders)).isfinite().all():
            raise NoModelError(
                f"The weights {name} of {folders[0]} and the other models are too large to be "
                "averaged. Choose models that have not diverged."
            )
    return mean


def average(run: Path, last: int, output: Path, note: Note) -> list[int]:
    """Writes the mean of a run's last valid checkpoints as a model directory.

    Like training at its end, it averages checkpoints at multiples of `training.checkpoint_every`,
    and the newest. It ignores other checkpoints, which were saved when the run was stopped or were
    the best by validation.

    Args:
        note: Called with each checkpoint that is skipped, and why.

    Returns:
        The steps averaged, ascending.

    Raises:
        InputError: there are fewer than `last` valid checkpoints; or `output` exists or is among
            the files of a run.
        NoModelError: there is no valid checkpoint.
    """
    refuse_output(output)
    if not run.is_dir():
        raise InputError(f"There is no run directory {run}. Correct the path.")
    directory = RunDirectory(run)
    found = sound_checkpoints(directory, 1, note)
    if not found:
        raise NoModelError(f"{run} has no valid checkpoint. Specify a run that has one.")
    [(step, newest)] = found
    config = read_config(newest)
    checkpoints = sound_checkpoints(directory, last, note, config.training.checkpoint_every, step)
    if len(checkpoints) < last:
        there = len(checkpoints)
        raise ArgumentError(
            "{} has only {} to average. Lower {last} to {}.", run, count(there, "checkpoint"), there
        )
    facts = manifest.read(newest, "checkpoint")
    steps = sorted(step for step, _ in checkpoints)
    names = {TOKENIZER, SHORTLIST} & facts["files"].keys()
    save_model(
        output,
        config,
        {name: (newest / name).read_bytes() for name in names},
        mean_weights([folder for _, folder in checkpoints]),
        {key: facts[key] for key in ("step", *HASHES, "target_symbols")}
        | {"averaged_steps": steps},
    )
    return steps


def finished_step(run: RunDirectory) -> int | None:
    """Returns the step of a run's finished model; None if it has no valid one."""
    try:
        content = manifest.read(run.model, "model")
        open_in_run(run.model, content)
    except InputError:
        return None
    return int(content["step"])


def write_finished(
    run: RunDirectory,
    config: Config,
    files: Mapping[str, bytes],
    weights: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    note: Note,
) -> None:
    """Writes a run's finished model; first renames any other files in its place.

    Args:
        files, facts: see `save_model`.
        note: Called with the new name of such files, if there are any.
    """
    new = atomic.aside(run.model, "new")
    try:
        save_model(new, config, files, weights, facts)
        if _is_own_model(run):
            run.model.replace(atomic.aside(run.model, "former"))
        elif os.path.lexists(run.model):
            kept = atomic.free_name(run.model, "former")
            run.model.replace(kept)
            note(f"nmt: warning: {run.model} had files that nmt did not make. They are in {kept}.")
        new.replace(run.model)
    finally:
        atomic.remove(new)
    atomic.remove_leftovers(run.path)


def _is_own_model(run: RunDirectory) -> bool:
    """Returns whether the place of the finished model has the run's own model and no other file."""
    try:
        content = manifest.read(run.model, "model")
        run.refuse_foreign(run.model)
        return not run.model.is_symlink() and not manifest.unlisted(run.model, content)
    except InputError:
        return False
