"""Averages the weights of checkpoints, as described in §6.1 of the paper."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.config import Config
from nmt.errors import ArgumentError, InputError, NoModelError, Note, count
from nmt.runs.checkpoint import HASHES, sound_checkpoints
from nmt.runs.model_directory import OpenedModel, open_in_run, save_model
from nmt.runs.run_directory import RunDirectory, RunIdentity, refuse_output
from nmt.storage import atomic, manifest
from nmt.storage.names import SHORTLIST, TOKENIZER


def mean_weights(models: Iterable[OpenedModel]) -> tuple[dict[str, Tensor], list[OpenedModel]]:
    """Returns the mean weights of several models in fp32, and the models without their weights.

    `models` may contain checkpoints. If `models` is a generator, only the mean and the weights of
    one model are in memory at the same time. If `models` is empty, both results are empty.

    Raises:
        NoModelError: the sum of the weights exceeds the range of fp32.
    """
    mean: dict[str, Tensor] = {}
    found: list[OpenedModel] = []
    for model in models:
        for name, tensor in model.weights.items():
            mean[name] = mean[name].add_(tensor) if found else tensor.clone()
        found.append(replace(model, weights={}))
        del model, tensor  # before the next weights are read
    for name, total in mean.items():
        if not total.div_(len(found)).isfinite().all():
            raise NoModelError(
                f"The mean of {found[0].directory} and the other models cannot be computed: the "
                f"sum of their {name} tensors exceeds the range of fp32. Training has probably "
                "diverged. Train again with a lower training.learning_rate_factor."
            )
    return mean, found


def average(run: Path, last: int, output: Path, note: Note) -> list[int]:
    """Writes a model directory with the mean weights of a run's newest valid checkpoints.

    As at the end of `nmt train`, a checkpoint is averaged only if it is the run's newest checkpoint
    or its step is a multiple of `training.checkpoint_every`. Other checkpoints, which were saved
    because the run was stopped or because a validation score was the best so far, are ignored.

    Args:
        last: the number of checkpoints to average.
        note: a function that is called with a message for each checkpoint that is skipped.

    Returns:
        The steps of the averaged checkpoints, in ascending order.

    Raises:
        InputError: the run has fewer than `last` valid checkpoints, or `output` is not suitable for
            a new model (see `refuse_output`).
        NoModelError: the run has no valid checkpoint.
    """
    refuse_output(output)
    if not run.is_dir():
        raise InputError(f"There is no run directory {run}. Check the path.")
    own = RunDirectory(run).identity()
    newest = next(sound_checkpoints(own, 1, note), None)
    if newest is None:
        raise NoModelError(f"{run} has no valid checkpoint. Specify a run with a valid checkpoint.")
    newest = replace(newest, weights={})  # frees memory; the weights are read again
    every = newest.config.training.checkpoint_every
    weights, checkpoints = mean_weights(sound_checkpoints(own, last, note, every, newest.step))
    if len(checkpoints) < last:
        there = len(checkpoints)
        raise ArgumentError(
            "{} has only {} to average. Lower {last} to {}.", run, count(there, "checkpoint"), there
        )
    facts = newest.manifest
    steps = sorted(checkpoint.step for checkpoint in checkpoints)
    names = {TOKENIZER, SHORTLIST} & facts["files"].keys()
    save_model(
        output,
        newest.config,
        {name: (newest.directory / name).read_bytes() for name in names},
        weights,
        {key: facts[key] for key in ("step", *HASHES, "target_symbols")}
        | {"averaged_steps": steps},
    )
    return steps


def finished_model(own: RunIdentity) -> OpenedModel | None:
    """Returns a run's finished model, or None if the run has no valid one."""
    model = own.directory.model
    try:
        return open_in_run(own, model, manifest.read(model, "model"))
    except InputError:
        return None


def write_finished(
    own: RunIdentity,
    config: Config,
    files: Mapping[str, bytes],
    weights: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    note: Note,
) -> None:
    """Writes a run's finished model to the `model` directory of the run.

    If an existing `model` directory contains anything other than the run's own model, the directory
    is renamed and kept.

    Args:
        files, facts: see `save_model`.
        note: a function that is called with a warning if an existing `model` directory is renamed.
    """
    run = own.directory
    new = atomic.aside(run.model, "new")
    try:
        save_model(new, config, files, weights, facts)
        if _is_own_model(own):
            run.model.replace(atomic.aside(run.model, "former"))
        elif os.path.lexists(run.model):
            kept = atomic.free_name(run.model, "former")
            run.model.replace(kept)
            note(
                f"nmt: warning: Renamed {run.model} to {kept}, because the directory contained "
                "files that nmt did not create."
            )
        new.replace(run.model)
    finally:
        atomic.remove(new)
    atomic.remove_leftovers(run.path)


def _is_own_model(own: RunIdentity) -> bool:
    """Returns whether the `model` directory contains the run's own model and no other files."""
    model = own.directory.model
    try:
        content = manifest.read(model, "model")
        own.refuse_foreign(model, content)
        return not model.is_symlink() and not manifest.unlisted(model, content)
    except InputError:
        return False
