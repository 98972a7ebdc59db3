"""Logs a run to TensorBoard: curves, sample translations, attention plots, settings and scores."""

import threading
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Config, flatten
from nmt.errors import InputError
from nmt.training.validation import Validation

_SCORES = ("loss", "nll", "ppl", "bleu", "chrf")


class Board:
    """Writes TensorBoard events.

    Args:
        folder: the directory to which the event files are written.
        step: the step of the checkpoint that the run resumes from. TensorBoard discards existing
            events of later steps.
    """

    def __init__(self, folder: Path, step: int):
        from torch.utils.tensorboard import SummaryWriter  # slow to import and not always needed

        self._former_hook, threading.excepthook = threading.excepthook, self._thread_failed
        self._folder, self._writer = folder, SummaryWriter(folder, purge_step=step + 1)

    def close(self) -> None:
        """Flushes and closes the event file."""
        self._writer.close()  # if `close` fails, TensorBoard's thread may still run
        threading.excepthook = self._former_hook

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        """Suppresses tracebacks of TensorBoard's thread; the next write raises its errors."""
        if not type(failure.thread).__module__.startswith("tensorboard."):
            self._former_hook(failure)

    def step(self, facts: dict[str, Any]) -> None:
        """Writes the loss, the learning rate and other values of a training step.

        Args:
            facts: the log.jsonl entry of the step.

        Raises:
            InputError: the run directory was moved or removed during training.
        """
        if not self._folder.is_dir():
            raise InputError(
                f"{self._folder} was moved or removed during training. If you moved the "
                "run, move it back or set training.run_directory to its new path. Then start the "
                "run again: it resumes from its newest checkpoint."
            )
        self._scalars("training", facts, ("loss", "nll", "learning_rate", "gradient_norm"))
        self._scalars("machine", facts, ("tokens_per_second", "elapsed_s"))
        self._writer.flush()

    def validation(self, step: int, result: Validation) -> None:
        """Writes a validation's scores, sample translations and attention plot."""
        self._scalars("validation", {"step": step} | result.facts, _SCORES)
        rows = [("source", "reference", "translation"), ("---",) * 3, *result.samples]
        cells = [[cell.replace("|", "\\|").replace("<", "&lt;") for cell in row] for row in rows]
        table = "\n".join(f"| {' | '.join(row)} |" for row in cells)
        self._writer.add_text("validation/samples", table, step)
        if result.attention:
            from PIL import Image  # a dependency of TensorBoard

            picture = np.asarray(Image.open(BytesIO(result.attention)))
            self._writer.add_image("validation/attention", picture, step, dataformats="HWC")
        self._writer.flush()

    def model(self, config: Config, facts: dict[str, Any]) -> None:
        """Writes the run's settings and the finished model's scores for the HParams dashboard."""
        measured = facts.get("validation", {})
        scores = {f"model/{name}": measured[name] for name in _SCORES if name in measured}
        sections = {"model", "tokenizer", "training", "decoding"}
        all_settings = flatten(config.model_dump(include=sections))
        settings = {k: v for k, v in all_settings.items() if isinstance(v, str | int | float)}
        step = facts["step"]
        self._writer.add_hparams(settings, scores, run_name=f"outcome-{step}", global_step=step)

    def _scalars(self, group: str, facts: dict[str, Any], names: Sequence[str]) -> None:
        for name in names:
            self._writer.add_scalar(f"{group}/{name}", facts[name], facts["step"])
