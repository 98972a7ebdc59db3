"""A run's reports: log.jsonl, TensorBoard, and a progress bar or lines on standard error."""

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np
from tqdm import tqdm

from nmt.config import Config, flatten
from nmt.errors import told
from nmt.runs.run_directory import RunDirectory
from nmt.storage.atomic import write_file
from nmt.training.health import has_learnt
from nmt.training.validation import Validation

_MAX_LINE_BYTES = 100_000
_SCORES = ("loss", "nll", "ppl", "bleu", "chrf")


def read_log(run: Path) -> list[dict[str, Any]]:
    """The valid lines of a run's log, in order; a line that a crash has cut short is left out.

    Each is an object whose `step` is a whole number; all else is as in the file.
    """
    path = RunDirectory(run).log
    if not path.is_file():
        return []
    found = []
    with path.open("rb") as file:
        while text := file.readline(_MAX_LINE_BYTES):
            line = _sound_line(text) if text.endswith(b"\n") else None
            found += [line] if line else []
    return found


def _sound_line(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("step"), int) else None


def _duration(seconds: float) -> str:
    """A time in seconds, rounded for a person: 45 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class RunLog:
    """Writes what happens in a run; a silent one, for ranks other than the main one, does nothing.

    When a run is resumed, lines after its checkpoint are first removed, so that no step is in the
    log twice.

    Args:
        run: the run's directory; None: silent.
        step: of the checkpoint that the run resumes from; 0: it begins.
        validated: the step of the last validation before that checkpoint.
        max_steps: for the progress bar.
        elapsed_s: of that checkpoint, see the property.
        hardware: `device` and `world_size`, which every line has.
    """

    def __init__(
        self,
        run: Path | None,
        step: int = 0,
        validated: int = 0,
        max_steps: int = 0,
        elapsed_s: float = 0.0,
        hardware: dict[str, Any] | None = None,
    ):
        self._file: TextIO | None = None
        self._opened = self._since = time.monotonic()
        self._tokens, self._first, self._max_steps = 0, step + 1, max_steps
        self._began, self._hardware = self._opened - elapsed_s, hardware or {}
        if run is None:
            return
        from torch.utils.tensorboard import SummaryWriter  # slow to import, not always needed

        done = {"validation": validated, "model": step - 1}  # the model of this step is made again
        kept = [
            line for line in read_log(run) if line["step"] <= done.get(line.get("event", ""), step)
        ]
        self._path = RunDirectory(run).log
        write_file(self._path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = self._path.open("a", encoding="utf-8")
        self._bar = tqdm(
            total=max_steps, initial=step, unit="step", dynamic_ncols=True,
            disable=not sys.stderr.isatty(),
        )  # fmt: skip
        # TensorBoard forgets the events of steps that are done again
        self._board = SummaryWriter(RunDirectory(run).tensorboard, purge_step=step + 1)

    @property
    def elapsed_s(self) -> float:
        """Seconds of training so far, validation and saving included.

        A resumed run continues from the value of its checkpoint: time in between does not count,
        nor does that of steps after the checkpoint, which are lost and done again.
        """
        return time.monotonic() - self._began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._board.close()
            self._bar.close()
            self._file.close()

    def count(self, target_tokens: int) -> None:
        """Counts one step's tokens and advances the progress bar."""
        self._tokens += target_tokens
        if self._file:
            self._bar.update(1)

    def restart_clock(self) -> None:
        """Leaves the time since the last line (validation, saving) out of tokens per second."""
        self._tokens, self._since = 0, time.monotonic()

    def step(self, facts: dict[str, Any]) -> None:
        """Logs and shows a step, with tokens per second since the last line."""
        speed = round(self._tokens / max(time.monotonic() - self._since, 1e-9), 1)
        self.restart_clock()
        if not self._file:
            return
        facts = self._write(facts | {"tokens_per_second": speed})
        self._step_scalars(facts)
        self._show(facts)

    def _show(self, facts: dict[str, Any]) -> None:
        """Shows a step on the progress bar, or as a line where there is no terminal."""
        step, missing = facts["step"], self._max_steps - facts["step"]
        text = (
            f"epoch {facts['epoch']} loss {facts['loss']:.3f} nll {facts['nll']:.3f} "
            f"lr {facts['learning_rate']:.1e} {facts['tokens_per_second']:.0f} target tokens/s"
        )
        self._bar.set_postfix_str(text)
        if self._bar.disable:
            # at the average speed since the start or resumption, validation and saving included
            left = (time.monotonic() - self._opened) / (step - self._first + 1) * missing
            text += f", {_duration(left)} left" if missing else ""
            self.note(f"step {step}/{self._max_steps} {text}")

    def validation(self, step: int, result: Validation) -> None:
        """Logs and shows a validation with some sample translations."""
        if not self._file:
            return
        facts = {"event": "validation", "step": step} | result.facts
        self._write(facts)
        self._scalars("validation", facts, _SCORES)
        rows = [("source", "reference", "translation"), ("---",) * 3, *result.samples]
        cells = [[cell.replace("|", "\\|").replace("<", "&lt;") for cell in row] for row in rows]
        table = "\n".join(f"| {' | '.join(row)} |" for row in cells)
        self._board.add_text("validation/samples", table, step)
        if result.attention:
            from PIL import Image  # which TensorBoard brings along

            picture = np.asarray(Image.open(BytesIO(result.attention)))
            self._board.add_image("validation/attention", picture, step, dataformats="HWC")
        self._board.flush()
        ppl = f"{result.ppl:.2f}" if result.ppl < 1e6 else f"{result.ppl:.1e}"
        text = f"validation at step {step}: nll {result.nll:.3f} ppl {ppl} bleu {result.bleu:.2f}"
        if not has_learnt(facts):
            text += (
                " (next to nothing learned yet: guessing by token frequencies has nll "
                f"{result.unigram_nll:.3f})"
            )
        self.note(text)
        for source, reference, translation in result.samples[:2]:
            self.note(f"  source      {source}")
            self.note(f"  reference   {reference}")
            self.note(f"  translation {translation}")

    def model(self, config: Config, facts: dict[str, Any]) -> None:
        """Logs the finished model, and shows its scores beside its settings (HParams).

        Args:
            facts: its step, and its validation if there is one.
        """
        if not self._file:
            return
        self._write({"event": "model"} | facts)
        measured = facts.get("validation", {})
        scores = {f"model/{name}": measured[name] for name in _SCORES if name in measured}
        sections = {"model", "tokenizer", "training", "decoding"}
        all_settings = flatten(config.model_dump(include=sections))
        settings = {k: v for k, v in all_settings.items() if isinstance(v, str | int | float)}
        step = facts["step"]
        self._board.add_hparams(settings, scores, run_name=f"outcome-{step}", global_step=step)

    def note(self, text: str) -> None:
        """Tells a person something, above the progress bar."""
        if self._file:
            with contextlib.suppress(OSError):  # training outlives whoever reads its messages
                self._bar.write(told(text), file=sys.stderr)

    def _step_scalars(self, facts: dict[str, Any]) -> None:
        self._scalars("training", facts, ("loss", "nll", "learning_rate", "gradient_norm"))
        self._scalars("machine", facts, ("tokens_per_second", "elapsed_s"))
        self._board.flush()

    def _scalars(self, group: str, facts: dict[str, Any], names: Sequence[str]) -> None:
        for name in names:
            self._board.add_scalar(f"{group}/{name}", facts[name], facts["step"])

    def _write(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Writes a line of the log, and returns it."""
        assert self._file
        facts = facts | {"elapsed_s": round(self.elapsed_s, 3)} | self._hardware
        self._file.write(json.dumps(facts) + "\n")
        self._file.flush()
        return facts
