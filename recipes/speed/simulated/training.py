"""Measures training steps of the shipped configurations on a simulated GPU.

Layers are not compiled, but all micro-batches have the same shape as with compiled layers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.config import load
from nmt.data.layout import fixed_shape, pack
from nmt.data.pair import Pair
from nmt.model.special_ids import EOS_ID
from nmt.runs.model_directory import new_transformer
from nmt.training.distributed import Ranks
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer
from nmt.training.step import optimizer_step
from recipes.speed.simulated.device import DEVICE, SimulatedGpu

CONFIGS = Path(__file__).parents[3] / "configs"
MICRO_BATCHES = {"base": [1, 4], "big": [1, 2, 4, 8]}  # micro-batches in each printed step


@dataclass(frozen=True)
class Figures:
    """The cost of a training step."""

    peak: int  # bytes of tensors on the device
    kernels: int
    waits: int  # number of times that the host waited for the device in the step


class Training:
    """Training steps of a shipped configuration, within the block of a simulated GPU."""

    def __init__(self, gpu: SimulatedGpu, model: str):
        """Creates the model "base" or "big"."""
        self.gpu, self.model = gpu, model
        self.config = load(CONFIGS / f"transformer_{model}.yaml", [])
        transformer = new_transformer(self.config).to(DEVICE)
        self.module = TransformerLoss(transformer.train(), self.config.training.label_smoothing)
        self.optimizer = new_optimizer(transformer, self.config)
        self.ranks, self.taken = Ranks(0, 1, DEVICE), 0

    def step(self, micro_batches: int, first: int | None = None) -> Figures:
        """Takes a training step.

        Args:
            micro_batches: number of micro-batches of the step.
            first: compute only this many micro-batches. More than two micro-batches do not increase
                the peak memory.
        """
        settings, pair = self.config.training, Pair(*[np.array([EOS_ID], np.int32)] * 2)
        shape = fixed_shape(settings.batch_tokens, micro_batches, self.config.data.max_length)
        self.taken += 1
        self.gpu.restart()
        batches = [
            (micro_batch, pack([pair], shape, is_pinned=True).to(DEVICE))
            for micro_batch in range(micro_batches)
        ]
        optimizer_step(
            self.module, self.module, self.optimizer, batches[:first], self.taken,
            settings.batch_tokens, self.config, self.ranks,
        )  # fmt: skip
        return Figures(self.gpu.peak, self.gpu.kernels.total(), len(self.gpu.waits))

    def line(self, micro_batches: int) -> str:
        """Runs a training step, and returns its line of the table in docs/speed.md."""
        found = self.step(micro_batches)
        peak = f"{found.peak / 2**30:.1f}"
        return f"| {self.model} | {micro_batches} | {peak} | {found.kernels:,} | {found.waits} |"


def table() -> Iterator[str]:
    """Yields the lines of the table in docs/speed.md."""
    yield "| model | micro-batches | peak memory, GiB | kernels | waits |"
    yield "| --- | --- | --- | --- | --- |"
    for model, cuts in MICRO_BATCHES.items():
        with SimulatedGpu(has_values=False) as gpu:
            training = Training(gpu, model)
            training.step(1)  # allocates Adam's moments and the positions, which later steps keep
            yield from map(training.line, cuts)
