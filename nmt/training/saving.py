"""Writes checkpoints; on a GPU, training continues while a background thread writes them.

On a CPU, no background thread is used, because the thread would take a core from training and would
need a copy of the weights and the optimizer's state.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self

import torch
from torch import Tensor
from torch.optim import Optimizer

from nmt.errors import DivergedError, Stopped
from nmt.model.devices import is_gpu
from nmt.model.transformer import Transformer
from nmt.runs import checkpoint as checkpoints
from nmt.runs.checkpoint import Checkpoint
from nmt.runs.state import State
from nmt.training.begin import Run
from nmt.training.health import IF_DIVERGED
from nmt.training.optimizers import state_tensors


class CheckpointWriter:
    """Writes checkpoints on the main process, one after another; writes nothing on other ranks.

    If a write fails in the background thread, the next method call re-raises the error. At the end
    of the `with` statement, the checkpoint writer waits for the background thread.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._thread = ThreadPoolExecutor(1, "writer")
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: TracebackType | object) -> None:
        with self._thread:
            if kind is None:  # otherwise the error in the `with` statement is reported
                self.wait()

    def save(self, transformer: Transformer, optimizer: Optimizer, state: State) -> None:
        """Saves the checkpoint of a step, and removes checkpoints that are no longer needed.

        Raises:
            DivergedError: a weight is not finite. This error is raised on all ranks.
        """
        weights = transformer.state_dict()
        if not torch.stack([tensor.isfinite().all() for tensor in weights.values()]).all():
            raise DivergedError(
                f"The weights are not finite after step {state.step}, so no checkpoint was saved. "
                f"{IF_DIVERGED}"
            )
        if self._run.ranks.is_main:
            states = state_tensors(optimizer, transformer)
            if is_gpu(self._run.ranks.device):
                weights, states = _copied(weights, states)
            self._write(partial(self._save, Checkpoint(weights, states, state)))

    def record_state(self, state: State) -> None:
        """Replaces the training state in the checkpoint of a step that has been validated."""
        if self._run.ranks.is_main:
            self._write(partial(checkpoints.record_state, self._run.directory, state))

    def check(self) -> None:
        """If the last write has already failed, re-raises the exception that the write raised."""
        if self._last and self._last.done():
            self.wait()

    def wait(self) -> None:
        """Waits for the last write to finish, and re-raises its exception if it failed."""
        last, self._last = self._last, None
        if last:
            last.result()

    def _write(self, write: Callable[[], None]) -> None:
        """Calls `write`; on a GPU, calls it in the background after the previous write."""
        if is_gpu(self._run.ranks.device):
            self.wait()
            self._last = self._thread.submit(write)
        else:
            write()

    def _save(self, checkpoint: Checkpoint) -> None:
        run, state, settings = self._run, checkpoint.state, self._run.config.training
        checkpoints.save(run.directory, checkpoint, run.config, run.files, run.facts)
        every, keep = settings.checkpoint_every, settings.keep_checkpoints
        checkpoints.rotate(run.identity, state.step, every, keep, state.best.step)


def raise_if_stopped(run: Run, signal_number: int, step: int) -> None:
    """Raises Stopped if a rank received a stop signal.

    If so, all ranks first wait until the main process has saved the step.

    Args:
        signal_number: the number of the stop signal, or 0 if no rank received a stop signal. All
            ranks must pass the same number.
    """
    if signal_number:
        run.ranks.wait()
        raise Stopped(
            signal_number,
            f"Stopped after step {step}, saved in {run.directory}. To continue, run the same "
            "command again.",
        )


def _copied(*parts: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Copies tensors to host memory, which is page-locked if the tensors are on a GPU."""
    found = [
        {name: tensor.to("cpu", non_blocking=True, copy=True) for name, tensor in part.items()}
        for part in parts
    ]
    if torch.cuda.is_available():
        torch.cuda.current_stream().synchronize()
    return found
