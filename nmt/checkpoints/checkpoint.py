"""Training checkpoints: weights, Adam's moments and one integer, the step.

A checkpoint is a directory `RUN/checkpoints/step-00001000/` that counts only once its manifest
stands in it. The newest one that verifies is taken up; a broken one is named and left in place.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from nmt.checkpoints.model_directory import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    read_tensors,
    write_model_files,
)
from nmt.config import Config
from nmt.errors import InputError, NoModelError
from nmt.storage import manifest
from nmt.storage.atomic import new_directory, remove_leftovers

OPTIMIZER, STATE = "optimizer.safetensors", "state.json"
_OPTIMIZER_STATES_KEPT = 2  # the newest; older checkpoints serve averaging alone


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds besides configuration and tokenizer."""

    step: int
    weights: dict[str, Tensor]
    moments: dict[str, Tensor]  # "exp_avg.NAME" and "exp_avg_sq.NAME" of each parameter
    state: dict[str, Any]  # facts for a person, and the best validation so far
    hashes: dict[str, str] = field(default_factory=dict)  # of tokenizer and data, when read


def directory(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:08d}"


def save(
    run: Path, checkpoint: Checkpoint, config: Config, tokenizer: bytes, hashes: dict[str, str]
) -> None:
    """Writes a checkpoint, whole or not at all."""
    path = directory(run, checkpoint.step)
    if path.is_dir():  # a broken one that the run has gone past again
        path.replace(path.with_name(f"broken-{path.name}"))
    with new_directory(path) as folder:
        write_model_files(folder, config, tokenizer, checkpoint.weights)
        save_file(checkpoint.moments, folder / OPTIMIZER)
        (folder / STATE).write_text(
            json.dumps(checkpoint.state | {"step": checkpoint.step}, indent=1)
        )
        manifest.write(folder, "checkpoint", hashes | {"step": checkpoint.step})


def rotate(run: Path, keep: int, best: int | None) -> None:
    """Removes what is no longer needed, newest checkpoints and the best one staying.

    Only checkpoints whose manifest can be read are counted or removed. Optimizer state leaves
    all but the newest two; the manifest says so.
    """
    remove_leftovers(run / "checkpoints")
    sound = [(step, folder) for step, folder in _by_step(run) if _is_listed(folder)]
    for place, (step, folder) in enumerate(sound):
        if place >= keep and step != best:
            # first under a name that no reader takes for a checkpoint: none is ever half gone
            gone = folder.with_name(f".tmp-{folder.name}")
            folder.replace(gone)
        elif place >= _OPTIMIZER_STATES_KEPT and (folder / OPTIMIZER).exists():
            content = manifest.read(folder, "checkpoint")
            content["files"].pop(OPTIMIZER, None)
            manifest.rewrite(folder, content)
            (folder / OPTIMIZER).unlink()
    remove_leftovers(run / "checkpoints")


def newest(run: Path, note: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that verifies and can be resumed from; None if there is none at all.

    Args:
        note: is told of each checkpoint passed over, and why.

    Raises:
        NoModelError: there are checkpoints, but none is sound.
    """
    problems: list[str] = []
    for _, folder in _by_step(run):
        try:
            content = manifest.read(folder, "checkpoint")
            manifest.verify(folder, content)
            if OPTIMIZER not in content["files"]:
                raise InputError(f"no optimizer state, {folder}, resume from a newer checkpoint")
            state = json.loads((folder / STATE).read_text())
            tensors = read_tensors(folder / WEIGHTS), read_tensors(folder / OPTIMIZER)
            hashes = {key: content[key] for key in ("tokenizer_sha256", "data_sha256")}
            return Checkpoint(content["step"], *tensors, state, hashes)
        except InputError as error:
            problems += error.problems
            for problem in error.problems:
                note(f"passing over a checkpoint: {problem}")
    if problems:
        raise NoModelError(*problems)
    return None


def sound_checkpoints(run: Path, at_most: int) -> list[Path]:
    """The newest checkpoints whose model files verify, newest first."""
    found: list[Path] = []
    for _, folder in _by_step(run):
        if len(found) == at_most:
            break
        try:
            content = manifest.read(folder, "checkpoint")
            manifest.verify(folder, content, (CONFIG, TOKENIZER, WEIGHTS))
        except InputError:
            continue
        found.append(folder)
    return found


def adam_moments(optimizer: torch.optim.Adam, module: nn.Module) -> dict[str, Tensor]:
    """Adam's moments by parameter name; they are the optimizer's own tensors."""
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment]
        for name, parameter in module.named_parameters()
        for moment in ("exp_avg", "exp_avg_sq")
    }


def restore_adam(
    optimizer: torch.optim.Adam, module: nn.Module, moments: dict[str, Tensor], step: int
) -> None:
    """Gives Adam the moments it had after `step` steps."""
    for name, parameter in module.named_parameters():
        optimizer.state[parameter] = {
            # a tensor, as the fused kernel keeps it
            "step": torch.tensor(float(step), device=parameter.device),
            "exp_avg": moments[f"exp_avg.{name}"].to(parameter.device),
            "exp_avg_sq": moments[f"exp_avg_sq.{name}"].to(parameter.device),
        }


def _by_step(run: Path) -> list[tuple[int, Path]]:
    """Checkpoint directories by the step in their name, newest first."""
    folders = [
        (int(folder.name.removeprefix("step-")), folder)
        for folder in (run / "checkpoints").glob("step-*")
        if folder.name.removeprefix("step-").isdigit()
    ]
    return sorted(folders, reverse=True)


def _is_listed(folder: Path) -> bool:
    try:
        manifest.read(folder, "checkpoint")
    except InputError:
        return False
    return True
