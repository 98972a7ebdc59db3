"""Compares nmt, CTranslate2 and transformers on the test set of a run.

    python recipes/exports/compare.py RUN OUTPUT [--threads 2] [--rounds 3] [--systems NAME ...]

The script exports the run's model to the directory OUTPUT. In each round, it translates the run's
test set with every system, in a separate process per system. The order of the systems is reversed
in every second round. The script prints BLEU, chrF and the median times in seconds, with and
without start-up. OUTPUT/results.json contains the results of every round, and OUTPUT/SYSTEM.txt
contains the translations of a system. Existing exports are reused, so each model needs its own
OUTPUT.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.cli.flags import beam_size, positive
from nmt.cli.terminal import run_script, say
from nmt.errors import InputError
from nmt.evaluation.bleu import score
from nmt.evaluation.table import Table
from nmt.evaluation.test_sets import own
from nmt.export.export import export
from nmt.runs.found_model import FoundModel
from nmt.runs.model_directory import find_model
from nmt.storage.atomic import write_file

EXPORTS = {
    "ct2-float32": ("ctranslate2", "float32"),
    "ct2-int8": ("ctranslate2", "int8"),
    "huggingface": ("huggingface", None),
}
SYSTEMS = {  # program, export (None: the run's model), and precision
    "nmt fp32": ("nmt", None, "fp32"),
    "nmt bf16": ("nmt", None, "bf16"),
    "nmt int8": ("nmt", None, "int8"),
    "nmt on the export": ("nmt", "ct2-float32", None),
    "CTranslate2 float32": ("ctranslate2", "ct2-float32", "float32"),
    "CTranslate2 int8": ("ctranslate2", "ct2-int8", "int8"),
    "transformers": ("transformers", "huggingface", "float32"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Compares the systems on the run named in `argv`."""
    words = _arguments(argv)
    model = find_model(words.run)
    tests = own(model)
    sources, references = tests.sources or [], tests.references[0]
    words.output.mkdir(parents=True, exist_ok=True)
    _claim(words.output, model)
    wanted = {SYSTEMS[name][1] for name in words.systems}
    for name, (format, quantization) in EXPORTS.items():
        if name in wanted and not (words.output / name).exists():
            export(words.run, words.output / name, format, quantization, say)
    source = words.output / "source.txt"
    write_file(source, "".join(f"{line}\n" for line in sources))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in words.systems}
    for number in range(words.rounds):
        for name in words.systems[:: -1 if number % 2 else 1]:
            times[name].append(_round(words, name, source, model.config.decoding))
            say(f"Round {number + 1}: {name} took {times[name][-1][0]:.2f} s.")
    found = {name: _result(words.output, name, each, references, model.config.data.target_language)
             for name, each in times.items()}  # fmt: skip
    facts = {"sentences": len(sources), "beam": words.beam, "batch": words.batch,
             "threads": words.threads, "results": found}  # fmt: skip
    write_file(words.output / "results.json", json.dumps(facts, indent=1) + "\n")
    print(table(found))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares a run's model with its exports.")
    parser.add_argument("run", type=Path, help="a trained run")
    parser.add_argument("output", type=Path, help="directory for exports and results")
    parser.add_argument("--beam", type=beam_size, default=4, help="default: 4")
    parser.add_argument("--batch", type=positive, default=32,
                        help="sentences per batch (default: 32)")  # fmt: skip
    parser.add_argument("--threads", type=positive, default=os.cpu_count(),
                        help="default: all cores")  # fmt: skip
    parser.add_argument("--rounds", type=positive, default=3, help="default: 3")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[*SYSTEMS], metavar="NAME",
                        help=f"systems, from: {', '.join(SYSTEMS)} (default: all)")  # fmt: skip
    return parser.parse_args(argv)


def _claim(output: Path, model: FoundModel) -> None:
    """Records in `output` which model its exports and results belong to.

    Raises:
        InputError: they belong to another model.
    """
    path, sha256 = output / "model.sha256", model.manifest["sha256"]
    if path.exists() and path.read_text() != sha256:
        raise InputError(
            f"{output} contains results of another model than {model.directory}. Choose another "
            "OUTPUT."
        )
    write_file(path, sha256)


def _round(
    words: argparse.Namespace, name: str, source: Path, decoding: Any
) -> tuple[float, float]:
    """Translates the text with a system; returns the seconds without and with start-up."""
    program, folder, arithmetic = SYSTEMS[name]
    task = {
        "program": program, "model": str(words.output / folder if folder else words.run),
        "arithmetic": arithmetic, "source": str(source), "output": str(text_of(words.output, name)),
        "beam": words.beam, "batch": words.batch, "threads": words.threads,
        "alpha": decoding.length_penalty, "extra": decoding.max_extra_length,
    }  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": str(words.threads)}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("timed.py")), json.dumps(task)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    whole = time.perf_counter() - began
    if done.returncode:
        *_, last = done.stderr.splitlines() or ["no message"]
        raise InputError(f"{name} failed with status {done.returncode} on {task['model']}: {last}")
    return float(done.stdout.splitlines()[-1]), whole


def text_of(folder: Path, name: str) -> Path:
    """Returns the path of the file for a system's translations."""
    return folder / f"{name.replace(' ', '-')}.txt"


def _result(
    folder: Path, name: str, times: list[tuple[float, float]], references: list[str], language: str
) -> dict[str, Any]:
    found = text_of(folder, name).read_text(encoding="utf-8").split("\n")[:-1]
    scores = score(found, references, target_language=language)
    seconds, whole = zip(*times, strict=True)
    return {
        "bleu": scores.bleu, "bleu_signature": scores.bleu_signature, "chrf": scores.chrf,
        "seconds": seconds, "seconds_with_start_up": whole,
    }  # fmt: skip


def table(found: dict[str, dict[str, Any]]) -> str:
    """Returns the results as a Markdown table."""
    rows = [
        [name, f"{each['bleu']:.2f}", f"{each['chrf']:.2f}", _range(each["seconds"]),
         _range(each["seconds_with_start_up"])]
        for name, each in found.items()
    ]  # fmt: skip
    head = ["system", "BLEU", "chrF", "seconds", "seconds with start-up"]
    return Table("", head, rows).as_markdown().rstrip()


def _range(seconds: Sequence[float]) -> str:
    """Returns the median, and the range in parentheses."""
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}–{max(seconds):.2f})"


if __name__ == "__main__":
    run_script("compare", main)
