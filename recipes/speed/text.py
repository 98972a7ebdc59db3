"""Compares `nmt translate` with CTranslate2 from text to text, with the same weights.

If the model is an export to CTranslate2, both systems translate with the export.

Each system translates the whole text in one process and only its first line in another process. The
difference between the two times is the time without start-up.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import sacrebleu

import nmt
from nmt.config import Decoding
from nmt.errors import InputError
from nmt.runs.exported_model import is_exported, read_exported_config
from nmt.runs.model_directory import find_model
from recipes.speed.clock import Clock
from recipes.speed.install import ROOT

_SCRIPT = Path(__file__).with_name("ctranslate2_text.py")
EXPORTED = "as exported"  # the precision of an exported model
_COMPUTE_TYPES = {"fp32": "float32", "int8": "int8", EXPORTED: "default"}
_CHECKED = 200  # number of lines whose greedy translations are compared before timing
_LEAST_ALIKE = 0.98  # minimum share of equal translations; rounding changes a few


@dataclass
class Run:
    """A model, and a text with its reference translation."""

    path: Path  # directory of the nmt model, or of its export
    source: Path
    reference: Path
    output: Path
    threads: int
    peer_version: str = "CTranslate2"

    @cached_property
    def is_exported(self) -> bool:
        return is_exported(self.path)

    @cached_property
    def model(self) -> Path:
        return self.path if self.is_exported else find_model(self.path).directory

    @cached_property
    def decoding(self) -> Decoding:
        read = read_exported_config if self.is_exported else lambda path: find_model(path).config
        return read(self.path).decoding

    @cached_property
    def lines(self) -> list[str]:
        return _lines(self.source.read_text(encoding="utf-8"))

    @property
    def converted(self) -> Path:
        if self.is_exported:
            return self.path
        return self.output / "ctranslate2" / self.path.resolve().name

    def visit(self, system: str, python: Path, precision: str, clock: Clock) -> dict[str, Any]:
        """Returns the rates of a system for the text, and the BLEU of its translation."""
        beam = self.decoding.beam
        command = self.command(system, python, precision, beam)
        outputs: list[str] = []
        peaks: list[float] = []

        def work(lines: Sequence[str]) -> None:
            text, peak_gib = self._translated(command, lines)
            outputs.append(text)
            peaks.append(peak_gib)

        seconds = clock.times([partial(work, self.lines[:1]), partial(work, self.lines)])
        n = len(self.lines)
        return {
            "system": system,
            "version": f"nmt {nmt.__version__}" if system == "nmt" else self.peer_version,
            "precision": precision,
            "threads": self.threads,
            "results": {
                f"beam {beam}, start-up included": {"rate": n / seconds[1] if seconds else None},
                f"beam {beam}, start-up excluded": {
                    "rate": n / (seconds[1] - seconds[0]) if seconds else None
                },
            },
            "seconds": seconds,
            "bleu": self._bleu(outputs[-1]),
            "peak_gib": max(peaks),
        } | clock.facts

    def command(self, system: str, python: Path, precision: str, beam: int) -> list[str]:
        """Returns the command line of a process that translates standard input."""
        if system == "nmt":
            options = ["--beam", str(beam), "--device", "cpu"]
            options += [] if self.is_exported else ["--precision", precision]
            return [str(python), "-m", "nmt", "translate", str(self.model), *options]
        settings = self.decoding
        alpha, extra = str(settings.length_penalty), str(settings.max_extra_length)
        options = [_COMPUTE_TYPES[precision], str(beam), alpha, extra, str(self.threads)]
        return [str(python), str(_SCRIPT), str(self.converted), *options]

    def check(self, python: Path) -> str:
        """Returns a sentence that states how many greedy translations are equal.

        The translations are computed in fp32, unless the model is exported with another precision.

        Raises:
            InputError: too few translations are equal, so the systems do not do the same work.
        """
        lines = self.lines[:_CHECKED]
        precision = EXPORTED if self.is_exported else "fp32"
        ours, theirs = (
            _lines(self._translated(self.command(system, path, precision, 1), lines)[0])
            for system, path in (("nmt", Path(sys.executable)), ("ctranslate2", python))
        )
        n = n_alike(ours, theirs)
        said = f"{n} of {len(lines)} greedy translations ({precision}) are the same in both systems"
        if n < _LEAST_ALIKE * len(lines):
            raise InputError(
                f"{self.model} and {self.converted} differ too much for their speeds to be "
                f"comparable: only {said}. Convert or export the model again."
            )
        return f"{said}."

    def _translated(self, command: Sequence[str], lines: Sequence[str]) -> tuple[str, float]:
        """Returns the output of a process for the given lines, and the peak memory in GiB."""
        variables = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(self.threads)}
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as problems,
        ):
            given.write("".join(f"{line}\n" for line in lines).encode())
            given.seek(0)
            process = subprocess.Popen(
                command, stdin=given, stdout=out, stderr=problems, env=os.environ | variables
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                problems.seek(0)
                last = problems.read().decode(errors="replace").strip().splitlines()[-1:]
                raise InputError(*last or [f"status {process.returncode}, {command[0]}"])
            out.seek(0)
            return out.read().decode(), usage.ru_maxrss / 2**20

    def _bleu(self, text: str) -> float:
        references = _lines(self.reference.read_text(encoding="utf-8"))
        return sacrebleu.corpus_bleu(_lines(text), [references]).score


def _lines(text: str) -> list[str]:
    """Splits a text at LF only, as `nmt translate` does."""
    return text.removesuffix("\n").split("\n")


def n_alike(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Returns the number of pairs in which one translation is a prefix of the other."""
    pairs = zip(ours, theirs, strict=True)
    return sum(b.startswith(a) or a.startswith(b) for a, b in pairs)
