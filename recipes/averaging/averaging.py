"""Compares the last checkpoint of a run with two averages of its weights.

    python recipes/averaging/averaging.py configs/multi30k.yaml --seeds 1 2 3

The two averages are the mean of the last checkpoints (Vaswani et al. 2017, §6.1), and the moving
average of the weights (`training.ema_decay`). The script trains one run per seed. All three models
of a run come from the same training, so they differ only in how the weights are averaged. Each run
has a directory OUTPUT/seed-N. To continue an interrupted command, repeat it: finished runs are
kept, and a stopped run continues from its last checkpoint.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt.cli.flags import add_config
from nmt.cli.terminal import run_script, say
from nmt.config import Config, load
from nmt.data import kept_test_set
from nmt.data.prepare import prepare
from nmt.errors import InputError, count
from nmt.evaluation.bleu import score
from nmt.evaluation.table import Table
from nmt.reporting.differences import System, difference_table
from nmt.runs.average import average
from nmt.runs.run_directory import RunDirectory
from nmt.storage import atomic, manifest
from nmt.training.run_log import read_log
from nmt.training.train import train
from nmt.translator import Translator

LAST, MEAN, MOVING = "last checkpoint", "mean of checkpoints", "moving average"
RESULT = "averaging.json"  # in each run directory


@dataclass(frozen=True)
class Result:
    """The three models of a finished run."""

    seed: int
    model_sha256: str  # of the model with the moving average
    step: int
    averaged_steps: list[int]  # checkpoints that form the mean
    ema_decay: float
    minutes: float  # training time, including validations and checkpoints
    bleu: dict[str, float]  # by model, on the test set
    bleu_signature: str
    translations: dict[str, list[str]]  # by model


def main(argv: Sequence[str] | None = None) -> None:
    """Trains and evaluates all runs; writes table.md."""
    arguments = _arguments(argv)
    base = load(arguments.config, arguments.overrides)
    if not base.data.test:
        raise InputError("data.test is empty, but is needed to compare the models. Set data.test.")
    _check_checkpoints(base)
    prepare(base, note=say)
    results = []
    for seed in arguments.seeds:
        config = load(arguments.config, [*arguments.overrides, *_settings(seed, arguments)])
        train(config, say)
        result = _finished(config) or _evaluated(config)
        scores = ", ".join(f"{name} {bleu:.2f}" for name, bleu in result.bleu.items())
        say(f"seed {seed}: BLEU: {scores}; {result.minutes:.1f} minutes")
        results.append(result)
    text = table(results, base, arguments.output)
    atomic.write_file(arguments.output / "table.md", text)
    print(text, end="")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares averages of a run's weights.")
    add_config(parser)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], metavar="N")
    parser.add_argument("--ema-decay", type=float, default=0.999, metavar="X",
                        help="default: 0.999")  # fmt: skip
    parser.add_argument("--output", type=Path, default=Path("runs/averaging"), metavar="DIR",
                        help="directory for the runs and table.md")  # fmt: skip
    return parser.parse_intermixed_args(argv)


def _check_checkpoints(config: Config) -> None:
    settings = config.training
    there = math.ceil(settings.max_steps / settings.checkpoint_every)
    if there < settings.average_last:
        raise InputError(
            f"training.average_last is {settings.average_last}, but a run has only "
            f"{count(there, 'checkpoint')} to average. Lower training.average_last or "
            "training.checkpoint_every."
        )


def _settings(seed: int, arguments: argparse.Namespace) -> list[str]:
    return [
        f"training.run_directory={json.dumps(str(arguments.output / f'seed-{seed}'))}",
        f"training.seed={seed}",
        f"training.ema_decay={arguments.ema_decay}",
        "training.finished_model=ema",
        "training.early_stopping=null",
    ]


def _finished(config: Config) -> Result | None:
    """Returns the result of an earlier call with the same model and mean, or None."""
    run = RunDirectory(Path(config.training.run_directory))
    path = run.path / RESULT
    found = Result(**json.loads(path.read_text())) if path.exists() else None
    same = (
        found
        and found.model_sha256 == manifest.read(run.model, "model")["sha256"]
        and len(found.averaged_steps) == config.training.average_last
    )
    return found if same else None


def _evaluated(config: Config) -> Result:
    """Averages the checkpoints of a finished run, and translates the test set with each model."""
    run = RunDirectory(Path(config.training.run_directory))
    facts = manifest.read(run.model, "model")
    places = {LAST: run.path / "last", MEAN: run.path / "mean", MOVING: run.model}
    steps = []
    for name, wanted in ((LAST, 1), (MEAN, config.training.average_last)):
        atomic.remove(places[name])
        steps = average(run.path, wanted, places[name], say)
    tests = kept_test_set.read(run.test_set, config.data, None)
    assert tests
    translations = {
        name: [each.text for each in Translator.load(place, precision="fp32").translate(tests[0])]
        for name, place in places.items()
    }
    language = config.data.target_language
    scores = {name: score(lines, tests[1], target_language=language)
              for name, lines in translations.items()}  # fmt: skip
    result = Result(
        seed=config.training.seed,
        model_sha256=facts["sha256"],
        step=facts["step"],
        averaged_steps=steps,
        ema_decay=facts["ema_decay"],
        minutes=read_log(run.path)[-1]["elapsed_s"] / 60,
        bleu={name: each.bleu for name, each in scores.items()},
        bleu_signature=scores[LAST].bleu_signature,
        translations=translations,
    )
    atomic.write_file(run.path / RESULT, json.dumps(asdict(result), indent=1) + "\n")
    return result


def table(results: Sequence[Result], config: Config, output: Path) -> str:
    """Returns a Markdown table of BLEU per seed, and the differences from the mean."""
    run = RunDirectory(output / f"seed-{results[0].seed}")
    tests = kept_test_set.read(run.test_set, config.data, None)
    assert tests
    names = MEAN, MOVING, LAST
    rows = [[name, *(f"{result.bleu[name]:.2f}" for result in results)] for name in names]
    columns = ["BLEU", *(f"seed {result.seed}" for result in results)]
    first = results[0]
    notes = (
        f"{first.step:,} steps. The mean is that of the checkpoints of the steps "
        f"{', '.join(map(str, first.averaged_steps))}. The moving average has a decay of "
        f"{first.ema_decay}.",
        f"BLEU: {first.bleu_signature}.",
    )
    systems = [
        System.of(name, [each.translations[name] for each in results], tests[1],
                  config.data.target_language)
        for name in names
    ]  # fmt: skip
    scores = Table("", columns, rows, notes).as_markdown()
    return f"{scores}\n{difference_table(systems).as_markdown()}"


if __name__ == "__main__":
    run_script("averaging", main)
