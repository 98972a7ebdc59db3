"""The mean of several checkpoints' weights (§6.1)."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from nmt.errors import ArgumentError, InputError, NoModelError, Note, count
from nmt.runs.checkpoint import HASHES, sound_checkpoints
from nmt.runs.model_directory import (
    read_config,
    read_tensors,
    save_model,
)
from nmt.runs.run_directory import RunDirectory, refuse_output
from nmt.storage import manifest
from nmt.storage.names import SHORTLIST, TOKENIZER, WEIGHTS


def mean_weights(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights of models or checkpoints, in fp32; only the mean is held in memory.

    Files are memory-mapped, so that the system can drop what has been read.

    Raises:
        NoModelError: one is damaged, or their sum is more than fp32 holds.
    """
    mean = read_tensors(folders[0] / WEIGHTS)
    for folder in folders[1:]:
        for name, tensor in read_tensors(folder / WEIGHTS).items():
            mean[name] += tensor
    for name, tensor in mean.items():
        if not tensor.div_(len(folders)).isfinite().all():
            raise NoModelError(
                f"weights too large to be averaged ({name}), {folders[0]}, "
                "name models whose training went well"
            )
    return mean


def average(run: Path, last: int, output: Path, note: Note) -> list[int]:
    """Writes the mean of a run's last sound checkpoints as a model directory.

    They are those that training averages at its end: at multiples of `training.checkpoint_every`,
    and the newest. The best by validation, or one that a stop has left, does not count otherwise.

    Args:
        note: is told of checkpoints passed over.

    Returns:
        The steps averaged, ascending.

    Raises:
        InputError: fewer than `last` sound checkpoints; `output` exists, or is among a run's own
            files.
        NoModelError: no sound checkpoint at all.
    """
    refuse_output(output)
    if not run.is_dir():
        raise InputError(f"no such run directory, {run}, correct the path")
    directory = RunDirectory(run)
    found = sound_checkpoints(directory, 1, note)
    if not found:
        raise NoModelError(f"no sound checkpoint, {run}, name a run that has some")
    [(step, newest)] = found
    config = read_config(newest)
    checkpoints = sound_checkpoints(directory, last, note, config.training.checkpoint_every, step)
    if len(checkpoints) < last:
        there = len(checkpoints)
        raise ArgumentError(
            "only {} to average, {}, lower {last} to {}", count(there, "checkpoint"), run, there
        )
    facts = manifest.read(newest, "checkpoint")
    steps = sorted(step for step, _ in checkpoints)
    save_model(
        output,
        config,
        (newest / TOKENIZER).read_bytes(),
        mean_weights([folder for _, folder in checkpoints]),
        {key: facts[key] for key in ("step", *HASHES, "target_symbols")}
        | {"averaged_steps": steps},
        (newest / SHORTLIST).read_bytes() if SHORTLIST in facts["files"] else None,
    )
    return steps
