"""Trains models of Table 3 of Vaswani et al. (2017) with several seeds, and prints the table.

    python recipes/table3/table3.py base a_heads_1 --seeds 1 2 3

A row is a configuration in the directory `--configs`, named after its file. Each run has a
directory OUTPUT/ROW/seed-N; all runs share the prepared data. To continue an interrupted command,
repeat it: finished runs are kept, and a stopped run is resumed. As in the paper (§6.2), only the
last checkpoint is evaluated. Perplexity (per token, without label smoothing) and BLEU are measured
on the configuration's validation set, which is also its test set.
"""

import argparse
import json
import math
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from nmt.cli.terminal import run_script, say
from nmt.config import Config, differences, load
from nmt.data.prepare import prepare
from nmt.errors import DivergedError, InputError, Status
from nmt.evaluation.significance import mean_interval
from nmt.evaluation.table import Table
from nmt.paper import TABLE_3
from nmt.reporting.differences import System, difference_table
from nmt.reporting.run_record import test_scores
from nmt.runs.run_directory import RunDirectory
from nmt.storage import atomic, manifest
from nmt.training.run_log import read_log

CONFIGS = Path(__file__).parents[2] / "configs" / "table3"
RESULT = "table3.json"  # in each run directory

PAPER = {row.name: row for row in TABLE_3}


@dataclass(frozen=True)
class Result:
    """The result of a finished run."""

    row: str
    seed: int
    changes: dict[str, Any]  # settings that differ from the row base, by dotted key
    parameters: int
    steps: int
    flops: float  # upper bound for all steps (see `nmt info`)
    minutes: float  # training time, including validations and checkpoints
    ppl: float  # per token, without label smoothing
    bleu: float
    bleu_interval: tuple[float, float]  # 95% interval, over sentences
    bleu_signature: str
    paper_bleu: float | None  # with the paper's tokenization, if nmt evaluate reports it


def main(argv: Sequence[str] | None = None) -> None:
    """Trains and evaluates the rows, and writes the tables after each run."""
    arguments = _arguments(argv)
    overrides = [word for word in arguments.words if "=" in word]
    if arguments.minutes is not None:
        overrides.append(f"training.max_hours={arguments.minutes / 60}")
    rows = [word for word in arguments.words if "=" not in word]
    rows = rows or sorted((path.stem for path in arguments.configs.glob("*.yaml")), key=_order)
    base = load(arguments.configs / "base.yaml", overrides)
    paths = {row: arguments.configs / f"{row}.yaml" for row in rows}
    changes = {row: _changes(base, load(path, overrides)) for row, path in paths.items()}
    limits = {
        row: _as_many_flops(base, load(path, overrides)) if arguments.equal_flops else []
        for row, path in paths.items()
    }
    for name in ("validation", "test"):  # checked before hours of training
        if not getattr(base.data, name):
            raise InputError(
                f"base.yaml has no data.{name}, which is needed to evaluate the models. Set "
                f"data.{name}."
            )
    prepare(base, note=say)
    results: list[Result] = []
    runs = [(row, seed) for seed in arguments.seeds for row in rows]
    for number, (row, seed) in enumerate(runs, 1):
        run = arguments.output / row / f"seed-{seed}"
        place = [
            *limits[row],
            f"training.run_directory={json.dumps(str(run))}",
            f"training.seed={seed}",
        ]
        config = load(paths[row], [*overrides, *place])
        result = _finished(run, config)
        if result is None:
            say(f"[{number}/{len(runs)}] {row}, seed {seed}")
            try:
                train([str(paths[row]), *overrides, *place], run)
            except DivergedError as error:
                say(f"[{number}/{len(runs)}] {row}, seed {seed} is not in the table. {error}")
                continue
            result = measure(run, config, row, changes[row])
        say(
            f"[{number}/{len(runs)}] {row}, seed {seed}: PPL {result.ppl:.2f}, "
            f"BLEU {result.bleu:.2f} after {result.steps} steps, {result.minutes:.1f} minutes"
        )
        results.append(result)
        content = json.dumps([asdict(result) for result in results], indent=1)
        atomic.write_file(arguments.output / "table.json", content + "\n")
        atomic.write_file(arguments.output / "table.md", table(results))
    if results:
        compared = differences_between(results, arguments.output)
        atomic.write_file(arguments.output / "table.md", table(results) + compared)
        print(table(results) + compared, end="")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains and evaluates rows of Table 3.")
    parser.add_argument("words", nargs="*", metavar="ROW|KEY=VALUE",
                        help="rows (default: all), and settings to override")  # fmt: skip
    parser.add_argument("--configs", type=Path, default=CONFIGS, metavar="DIR",
                        help="directory with a configuration per row "
                             "(default: configs/table3)")  # fmt: skip
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], metavar="N")
    parser.add_argument("--equal-flops", action="store_true",
                        help="change each row's number of steps so that it needs as many FLOPs as "
                             "training.max_steps steps of base")  # fmt: skip
    parser.add_argument("--minutes", type=float, metavar="M", help="maximum training time per run")
    parser.add_argument("--output", type=Path, default=Path("runs/table3"), metavar="DIR",
                        help="directory for the runs, table.md and table.json")  # fmt: skip
    return parser.parse_intermixed_args(argv)


def _stop(*_: object) -> None:
    sys.exit(143)  # `_run` then stops nmt train, which saves its run


def _order(row: str) -> tuple[int, str]:
    return (list(PAPER).index(row) if row in PAPER else len(PAPER), row)


def _changes(base: Config, config: Config) -> dict[str, Any]:
    changed = differences(base, config)
    changed.pop("training.run_directory", None)
    return {key: new for key, (_, new) in changed.items()}


def _flops_per_step(config: Config) -> float:
    from nmt.reporting.info import info  # imports torch

    return float(info(config)["flops"]["training"] / config.training.max_steps)


def _as_many_flops(base: Config, config: Config) -> list[str]:
    """Returns the override of max_steps with which a row needs at most the FLOPs of base."""
    ratio = _flops_per_step(base) / _flops_per_step(config)
    return [f"training.max_steps={math.floor(base.training.max_steps * ratio)}"]


def _finished(run: Path, config: Config) -> Result | None:
    """Returns the result of an earlier call if the run has reached its limit, or None."""
    if not (run / RESULT).exists():
        return None
    result = Result(**json.loads((run / RESULT).read_text()))
    hours = config.training.max_hours or math.inf
    if result.steps < config.training.max_steps and result.minutes < 60 * hours:
        return None
    for key, (old, new) in differences(load(RunDirectory(run).config), config).items():
        if key not in ("training.max_steps", "training.max_hours", "training.run_directory"):
            raise InputError(
                f"{key} is {new}, but run {run} was trained with {old}. Choose another --output."
            )
    return result


def train(arguments: Sequence[str], run: Path) -> None:
    """Runs `nmt train` until the run is finished.

    Args:
        arguments: arguments of `nmt train`, that is, the configuration and overrides.
        run: run directory.

    Raises:
        DivergedError: the run diverged. (Under torchrun, the exit status does not show this.)
        InputError: the run failed.
    """
    status = _run(arguments)
    if status == Status.DIVERGED:
        raise DivergedError(f"Training diverged in {run}. See the message above.")
    if status:
        raise InputError(f"nmt train failed with status {status} in {run}. See its message above.")


def _run(arguments: Sequence[str]) -> int:
    """Runs `nmt train` on all GPUs, and returns its exit status."""
    import torch

    gpus = torch.cuda.device_count()
    ranks = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(gpus), "-m"]
    command = [sys.executable, "-m", *(ranks if gpus > 1 else []), "nmt", "train", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        return process.wait()
    finally:
        process.terminate()
        process.wait()


def measure(run: Path, config: Config, row: str, changes: dict[str, Any]) -> Result:
    """Evaluates a finished run, and saves the result in the run directory."""
    import torch

    from nmt.reporting.info import info

    model = RunDirectory(run).model
    facts = manifest.read(model, "model")
    scores = test_scores(RunDirectory(run), say).scores
    torch.cuda.empty_cache()  # frees memory for the next run; does nothing without a GPU
    result = Result(
        row=row,
        seed=config.training.seed,
        changes=changes,
        parameters=info(config)["parameters"]["total"],
        steps=facts["step"],
        flops=facts["step"] * _flops_per_step(config),
        minutes=read_log(run)[-1]["elapsed_s"] / 60,
        ppl=perplexity(model, config),
        bleu=scores["bleu"],
        bleu_interval=scores["bleu_interval"],
        bleu_signature=scores["bleu_signature"],
        paper_bleu=scores.get("paper_bleu"),
    )
    atomic.write_file(run / RESULT, json.dumps(asdict(result), indent=1) + "\n")
    return result


def perplexity(model: Path, config: Config) -> float:
    """Returns the perplexity per token on the validation set, always computed in fp32."""
    from nmt.data.prepared_data import PreparedData
    from nmt.data.shards import pairs_of
    from nmt.decoding.score import log_probabilities
    from nmt.translator import Translator

    translator = Translator.load(model, precision="fp32")
    shards = PreparedData.of(config).shards("validation")
    limit = translator.transformer.max_length or math.inf  # as in validation during training
    everything = pairs_of(shards, np.arange(sum(map(len, shards))))
    pairs = [pair for pair in everything if max(map(len, pair)) <= limit]
    found = list(chain.from_iterable(log_probabilities(translator.transformer, pairs)))
    return math.exp(-math.fsum(found) / len(found))


def table(results: Sequence[Result]) -> str:
    """Returns Table 3 in Markdown, with the measured values beside the paper's values."""
    rows = sorted({result.row for result in results}, key=_order)
    by_row = [[result for result in results if result.row == row] for row in rows]
    columns = ["row", "differs from base in", "steps", "FLOPs", "PPL", "paper", "BLEU",
               "paper's count", "paper", "parameters", "paper"]  # fmt: skip
    notes = (
        "95% intervals: over seeds (Student's t) if a row has several seeds, otherwise over "
        "sentences. Overlapping intervals do not show that rows are equal. To compare rows, use "
        "the p-values of their differences.",
        f"BLEU: {results[0].bleu_signature}. paper's count: BLEU with the paper's tokenization.",
        "The paper's figures: WMT14 EN-DE, newstest2013.",
    )
    return Table("", columns, [_cells(row) for row in by_row], notes).as_markdown()


def differences_between(results: Sequence[Result], output: Path) -> str:
    """Returns a Markdown table of the differences in BLEU between base and the other rows.

    If base is not among the rows, the other rows are compared with the first row. Returns "" if
    there is only one row.
    """
    rows = sorted({result.row for result in results}, key=_order)
    if len(rows) < 2:
        return ""
    systems = []
    for row in rows:
        runs = [output / row / f"seed-{each.seed}" for each in results if each.row == row]
        tests = [test_scores(RunDirectory(run), say) for run in runs]
        language = RunDirectory(runs[0]).settings().data.target_language
        translations = [test.translations for test in tests]
        systems.append(System.of(row, translations, tests[0].references, language))
    return "\n" + difference_table(systems).as_markdown()


def _cells(results: Sequence[Result]) -> list[str]:
    """Returns the cells of a row, computed from its runs."""
    first = results[0]
    paper = PAPER.get(first.row)
    changes = ", ".join(f"{key.split('.')[1]} {value}" for key, value in first.changes.items())
    steps = sorted({result.steps for result in results})
    counted = [result.paper_bleu for result in results if result.paper_bleu is not None]
    return [
        first.row,
        changes,
        f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}",
        f"{mean(result.flops for result in results):.2e}",
        _estimate([result.ppl for result in results]),
        f"{paper.ppl:.2f}" if paper else "",
        _estimate([result.bleu for result in results], first.bleu_interval),
        f"{mean(counted):.2f}" if counted else "",
        f"{paper.bleu:.1f}" if paper else "",
        f"{first.parameters / 1e6:.1f} M",
        f"{paper.parameters} M" if paper and paper.parameters else "",
    ]


def _estimate(values: Sequence[float], alone: tuple[float, float] | None = None) -> str:
    """Formats the mean and 95% interval over seeds; `alone` is the interval of a single value.

    >>> _estimate([1.0, 2.0, 3.0])
    '2.00 (-0.48 to 4.48)'
    """
    middle = mean(values)
    alone = mean_interval(values) or alone
    return f"{middle:.2f}" + (f" ({alone[0]:.2f} to {alone[1]:.2f})" if alone else "")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    run_script("table3", main)
