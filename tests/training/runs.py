"""Trains runs and compares them."""

from collections.abc import Callable
from pathlib import Path

from nmt.benchmark import training as benchmark
from nmt.config import Config
from nmt.storage.manifest import file_hash
from nmt.training import distributed, loop, saving, step
from nmt.training.run_log import read_log
from nmt.training.train import train

# two layers in one of the stacks, and validations that hardly search
LITTLE = {"model__decoder_layers": 1, "decoding__beam": 1, "decoding__max_extra_length": 0}


def run(config: Config) -> tuple[Path, list[str]]:
    """Trains a run; returns the run directory and the messages."""
    said: list[str] = []
    train(config, said.append)
    return Path(config.training.run_directory), said


def as_on_a_gpu(replace: Callable[..., None] = setattr, *, is_one: bool = True) -> None:
    """Makes training treat a CPU as a GPU, whose work is asynchronous, or as a CPU again."""
    for module in (benchmark, distributed, loop, saving, step):
        replace(module, "is_gpu", lambda device: is_one)
    replace(step, "_mark", lambda device: None)


def fingerprint(run: Path, step: int) -> list[str]:
    """Returns hashes of a checkpoint's weights and moments, and of the finished model."""
    folder = run / "checkpoints" / f"step-{step:08d}"
    files = [folder / "model.safetensors", folder / "optimizer.safetensors"]
    return [file_hash(path) for path in (*files, run / "model" / "model.safetensors")]


def losses(run: Path) -> list[tuple]:
    """Returns the exact log entries of steps and validations, without times and speed."""
    keys = (
        "event", "step", "loss", "nll", "gradient_norm", "learning_rate", "bleu", "ppl",
        "plan_digest",
    )  # fmt: skip
    return [tuple(repr(line.get(key)) for key in keys) for line in read_log(run)]
