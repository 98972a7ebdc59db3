"""Logs the values of a run to log.jsonl, to TensorBoard and to standard error."""

import json
import time
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
    """Reads the valid lines of a run's log, in order.

    A valid line is a JSON object with an integer `step`. A line that a crash cut short is skipped.
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


class RunLog:
    """Reports the events of a run; without a directory, it only measures time.

    When a run is resumed, log lines of steps after its checkpoint are removed, so that no step is
    logged twice.

    Args:
        run: the run's directory; None on all ranks except the main one.
        step: the step of the checkpoint that the run resumes from; 0 for a new run.
        validated: the step of the last validation before that checkpoint.
        max_steps: the maximum number of steps of the run.
        elapsed_s: the value of the property `elapsed_s` at that checkpoint.
        hardware: the values of `device` and `world_size`, which are in every line.
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
        self._since, self._tokens = time.monotonic(), 0
        self._began, self._hardware = self._since - elapsed_s, hardware or {}
        self._is_silent = run is None
        if run is None:
            return
        done = {"validation": validated, "model": step - 1}  # the model of `step` is made again
        kept = [
            line for line in read_log(run) if line["step"] <= done.get(line.get("event", ""), step)
        ]
        directory = RunDirectory(run)
        write_file(directory.log, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = directory.log.open("a", encoding="utf-8")
        self._board, self._console = Board(directory.tensorboard, step), Console(step, max_steps)

    @property
    def elapsed_s(self) -> float:
        """Returns the seconds of training so far, including validation and saving.

        A resumed run continues from the value in its checkpoint. Steps that were lost after the
        checkpoint and the time in which the run was not running do not count.
        """
        return time.monotonic() - self._began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_silent:
            for output in (self._board, self._console, self._file):
                output.close()

    def count(self, target_tokens: int) -> None:
        """Counts one step's tokens and advances the progress bar."""
        self._tokens += target_tokens
        if not self._is_silent:
            self._console.advance()

    def restart_clock(self) -> None:
        """Excludes the time since the last line, such as a validation, from tokens per second."""
        self._tokens, self._since = 0, time.monotonic()

    def step(self, facts: dict[str, Any]) -> None:
        """Reports a step, with tokens per second since the last line."""
        speed = round(self._tokens / max(time.monotonic() - self._since, 1e-9), 1)
        self.restart_clock()
        if not self._is_silent:
            facts = self._write(facts | {"tokens_per_second": speed})
            self._board.step(facts)
            self._console.step(facts)

    def validation(self, step: int, result: Validation) -> None:
        """Reports a validation with some sample translations."""
        if not self._is_silent:
            self._write({"event": "validation", "step": step} | result.facts)
            self._board.validation(step, result)
            self._console.validation(step, result)

    def model(self, config: Config, facts: dict[str, Any]) -> None:
        """Reports the finished model.

        Args:
            facts: the model's step and, if there is one, its validation.
        """
        if not self._is_silent:
            self._write({"event": "model"} | facts)
            self._board.model(config, facts)

    def note(self, text: str) -> None:
        """Shows a message to the user."""
        if not self._is_silent:
            self._console.note(text)

    def _write(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Writes a line of the log, and returns it."""
        facts = facts | {"elapsed_s": round(self.elapsed_s, 3)} | self._hardware
        self._file.write(json.dumps(facts) + "\n")
        self._file.flush()
        return facts
