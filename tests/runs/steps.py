"""Writes checkpoints without training."""

from pathlib import Path

import torch
from torch import Tensor

from nmt.config import Config
from nmt.runs import checkpoint as checkpoints
from nmt.runs.checkpoint import Checkpoint
from nmt.runs.model_directory import new_transformer
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import Best, State


def save_step(run: Path, step: int, config: Config, files: dict[str, bytes], hashes: dict) -> Path:
    """Writes a checkpoint in which all weights and moments equal the step; returns its folder."""
    weights = _filled(config, float(step))
    moments = {f"{kind}.{name}": tensor.clone() for name, tensor in weights.items()
               for kind in ("exp_avg", "exp_avg_sq")}  # fmt: skip
    state = State(
        step=step, best=Best(), elapsed_s=0.0, world_size=1, threads=1, torch=torch.__version__
    )
    checkpoints.save(RunDirectory(run), Checkpoint(weights, moments, state), config, files, hashes)
    return RunDirectory(run).checkpoint(step)


def _filled(config: Config, value: float) -> dict[str, Tensor]:
    with torch.device("meta"):
        state = new_transformer(config).state_dict()
    return {key: torch.full(tensor.shape, value) for key, tensor in state.items()}
