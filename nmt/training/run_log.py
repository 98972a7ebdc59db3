"""Logs a run to log.jsonl, TensorBoard and standard error."""

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from nmt.config import Config
from nmt.runs.run_directory import RunDirectory
from nmt.storage.atomic import write_file
from nmt.training.board import Board
from nmt.training.console import Console
from nmt.training.validation import Validation

_MAX_LINE_BYTES = 100_000


def read_log(run: Path) -> list[dict[str, Any]]:
    """Returns the valid entries of a run's log, in file order.

    A log entry is valid if its line is complete and contains a JSON object with an integer `step`.
    Other lines, such as a line that was truncated by a crash, are skipped.
    """
    return [entry for entry in log_lines(run) if entry]


def log_lines(run: Path) -> Iterator[dict[str, Any] | None]:
    """Yields the log entry for each valid line of a run's log, and None for each invalid line."""
    path = RunDirectory(run).log
    if not path.is_file():
        return
    with path.open("rb") as file:
        while text := file.readline(_MAX_LINE_BYTES):
            yield _sound_line(text) if text.endswith(b"\n") else None


def _sound_line(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("step"), int) else None


class RunLog:
    """Logs the steps and events of a run, and measures its training time.

    When a run is resumed, the entries of steps after the checkpoint are removed from log.jsonl, so
    that no step is logged twice.

    Args:
        run: the run directory, or None on ranks other than the main process. If `run` is None,
            nothing is logged.
        step: the step of the checkpoint that the run resumes from, or 0 for a new run.
        validated: the step of the last validation that the checkpoint records.
        max_steps: the maximum number of steps in the run.
        elapsed_s: the training time in seconds that the checkpoint records.
        hardware: the values of `device` and `world_size` that are added to every entry of
            log.jsonl.
        max_hours: the maximum training time of the run in hours, or None.
    """

    def __init__(
        self,
        run: Path | None,
        step: int = 0,
        validated: int = 0,
        max_steps: int = 0,
        elapsed_s: float = 0.0,
        hardware: dict[str, Any] | None = None,
        max_hours: float | None = None,
    ):
        self._since, self._tokens = time.monotonic(), 0
        self._began, self._hardware = self._since - elapsed_s, hardware or {}
        self._is_silent = run is None
        if run is None:
            return
        done = {"validation": validated, "model": step - 1}  # the model of `step` is logged again
        kept = [
            line for line in read_log(run) if line["step"] <= done.get(line.get("event", ""), step)
        ]
        directory = RunDirectory(run)
        write_file(directory.log, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = directory.log.open("a", encoding="utf-8")
        most_s = math.inf if max_hours is None else 3600 * max_hours - elapsed_s
        self._board = Board(directory.tensorboard, step)
        self._console = Console(step, max_steps, most_s)

    @property
    def elapsed_s(self) -> float:
        """Returns the training time so far in seconds, including validation and saving.

        In a resumed run, the training time continues from the value in the checkpoint. Time during
        which the run was stopped does not count. Steps that are repeated because they were not
        saved are counted only once.
        """
        return time.monotonic() - self._began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_silent:
            for output in (self._board, self._console, self._file):
                output.close()

    def count(self, target_tokens: int) -> None:
        """Counts the target tokens of one step, and advances the progress bar by one step."""
        self._tokens += target_tokens
        if not self._is_silent:
            self._console.advance()

    def restart_clock(self) -> None:
        """Restarts the measurement of tokens per second, for example after a validation."""
        self._tokens, self._since = 0, time.monotonic()

    def step(self, facts: dict[str, Any]) -> None:
        """Logs a step and the target tokens per second, then restarts the speed measurement."""
        speed = round(self._tokens / max(time.monotonic() - self._since, 1e-9), 1)
        self.restart_clock()
        if not self._is_silent:
            facts = self._write(facts | {"tokens_per_second": speed})
            self._board.step(facts)
            self._console.step(facts)

    def validation(self, step: int, result: Validation) -> None:
        """Logs the scores of a validation and a few sample translations."""
        if not self._is_silent:
            self._write({"event": "validation", "step": step} | result.facts)
            self._board.validation(step, result)
            self._console.validation(step, result)

    def model(self, config: Config, facts: dict[str, Any]) -> None:
        """Logs the finished model.

        Args:
            facts: values to write to log.jsonl, such as the model's step and validation.
        """
        if not self._is_silent:
            self._write({"event": "model"} | facts)
            self._board.model(config, facts)

    def note(self, text: str) -> None:
        """Shows a message to the user."""
        if not self._is_silent:
            self._console.note(text)

    def _write(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Writes an entry with the training time and the hardware to log.jsonl, and returns it."""
        facts = facts | {"elapsed_s": round(self.elapsed_s, 3)} | self._hardware
        self._file.write(json.dumps(facts) + "\n")
        self._file.flush()
        return facts
