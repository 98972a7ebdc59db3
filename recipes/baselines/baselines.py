"""Trains the Transformer and an LSTM with attention under the same conditions, and compares them.

    python recipes/baselines/baselines.py configs/multi30k.yaml --seeds 1 2 3 --minutes 30

Both systems use the same prepared data, batches, loss, optimizer, schedule, validation, checkpoint
averaging and search. Each run has a directory OUTPUT/SYSTEM/seed-N. To continue an interrupted
command, repeat it. Finished runs are kept, and a stopped run continues from its last checkpoint.
"""

import argparse
import hashlib
import itertools
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import Optimizer

sys.path.insert(0, str(Path(__file__).parents[2]))  # for use as a script

from nmt.benchmark import flops
from nmt.cli.flags import add_config, positive
from nmt.cli.terminal import run_script, say
from nmt.config import Config, Model, load
from nmt.cpu_memory import keep_freed_memory
from nmt.data import kept_test_set
from nmt.data.plan import Plan
from nmt.data.prepare import prepare
from nmt.data.prepared_data import PreparedData
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError
from nmt.evaluation.bleu import bleu_interval, score
from nmt.evaluation.table import Table
from nmt.reporting.differences import System, difference_table
from nmt.runs import checkpoint as checkpoints
from nmt.runs.model_directory import new_transformer
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import Best, State, read_state
from nmt.runs.tensor_files import read_tensors, shapes_of, write_tensors
from nmt.storage import atomic
from nmt.training.begin import Run, Training, be_deterministic, open_run
from nmt.training.distributed import StopRequest, process_group
from nmt.training.loop import train_steps
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer, restore_state, state_tensors
from nmt.training.run_log import read_log
from nmt.training.train import opened_log, train
from nmt.translator import Translator
from recipes.baselines import lstm
from recipes.baselines.lstm import LSTMSearch, LSTMTranslator

TRANSFORMER, LSTM = "transformer", "lstm"
# These settings give the LSTM about as many parameters as the model of configs/multi30k.yaml has
LSTM_SETTINGS = ["model.encoder_layers=2", "model.decoder_layers=2", "model.d_model=200"]
# The finished model is the mean of the last checkpoints, and no run is stopped early
SAME = ["training.finished_model=average", "training.early_stopping=null", "training.compile=false",
        "training.micro_batches=1"]  # fmt: skip
RESULT, TRANSLATIONS = "result.json", "translations.txt"  # in each run directory
_ENDLESS = 10_000_000  # maximum number of steps of a run with a time limit

Count = Callable[[Model, int, np.ndarray, np.ndarray], int]  # the type of `training_flops`
FLOPS: dict[str, Count] = {TRANSFORMER: flops.training_flops, LSTM: lstm.training_flops}


@dataclass(frozen=True)
class Result:
    """The result of a finished run."""

    system: str
    seed: int
    settings_sha256: str  # hash of the configuration, which includes the budget
    parameters: int
    steps: int
    minutes: float  # training time, including validations and checkpoints
    flops: int  # of training, calculated as in `nmt info`, without padding
    target_tokens: int  # in all training steps
    tokens_per_second: float  # target tokens; the median over logged training steps
    precision: str
    bleu: float  # on the test set
    bleu_interval: tuple[float, float]  # 95% interval over sentences
    bleu_signature: str
    curve: list[dict[str, Any]]  # results of the validations during training


def main(argv: Sequence[str] | None = None) -> None:
    """Trains and evaluates all runs; writes table.json after each run and table.md at the end."""
    arguments = _arguments(argv)
    base = load(arguments.config, arguments.overrides)
    for name in ("validation", "test"):
        if not getattr(base.data, name):
            raise InputError(
                f"data.{name} is empty, but is needed to evaluate the models. Set data.{name}."
            )
    prepare(base, note=say)
    results: list[Result] = []
    runs = list(itertools.product(arguments.seeds, (LSTM, TRANSFORMER)))
    for number, (seed, system) in enumerate(runs, 1):
        config = configured(system, seed, arguments)
        say(f"[{number}/{len(runs)}] {system}, seed {seed}")
        result = finished(config) or trained(system, config)
        say(f"BLEU {result.bleu:.2f} after {result.steps} steps, {result.minutes:.1f} minutes")
        results.append(result)
        content = json.dumps([asdict(each) for each in results], indent=1)
        atomic.write_file(arguments.output / "table.json", content + "\n")
    text = tables(results, arguments.output)
    atomic.write_file(arguments.output / "table.md", text)
    print(text, end="")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares the Transformer with an LSTM.")
    add_config(parser)
    parser.add_argument("--lstm", nargs="+", default=[], metavar="KEY=VALUE",
                        help="settings of the LSTM only, in addition to "
                             + " ".join(LSTM_SETTINGS))  # fmt: skip
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], metavar="N")
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--minutes", type=_above_0, metavar="M", help="training time per run")
    budget.add_argument("--flops", type=_above_0, metavar="N", help="training FLOPs per run")
    budget.add_argument("--steps", type=positive, metavar="N", help="optimizer steps per run")
    parser.add_argument("--output", type=Path, default=Path("runs/baselines"), metavar="DIR",
                        help="directory for the runs, table.md and table.json")  # fmt: skip
    return parser.parse_intermixed_args(argv)


def _above_0(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text}")
    return value


def configured(system: str, seed: int, arguments: argparse.Namespace) -> Config:
    """Returns the configuration of a run that ends when the budget is used up."""
    run = arguments.output / system / f"seed-{seed}"
    words = [*arguments.overrides, *SAME, f"training.seed={seed}"]
    words += [f"training.run_directory={json.dumps(str(run))}"]
    words += [*LSTM_SETTINGS, *arguments.lstm] if system == LSTM else []
    if arguments.minutes:
        words += [f"training.max_hours={arguments.minutes / 60}", f"training.max_steps={_ENDLESS}"]
        return load(arguments.config, words)
    config = load(arguments.config, [*words, "training.max_hours=null"])
    steps = arguments.steps or steps_within(arguments.flops, system, config)
    return load(
        arguments.config, [*words, "training.max_hours=null", f"training.max_steps={steps}"]
    )


def costs(system: str, config: Config) -> Iterator[tuple[int, int]]:
    """Yields the total training FLOPs and target tokens after 1, 2, ... steps."""
    shards = PreparedData.of(config).shards("train")
    source, target = (
        np.concatenate([side.lengths for side in sides])
        for sides in ([each.source for each in shards], [each.target for each in shards])
    )
    plan = Plan(shards, config.training.batch_tokens, 1, config.training.seed)
    operations = tokens = 0
    for step in plan.steps():
        (pairs,) = step.micro_batches
        sizes = config.model, config.tokenizer.vocabulary_size
        operations += FLOPS[system](*sizes, source[pairs], target[pairs])
        tokens += step.target_tokens
        yield operations, tokens


def steps_within(budget: float, system: str, config: Config) -> int:
    """Returns the number of steps after which the training FLOPs first reach the budget."""
    return next(n for n, (spent, _) in enumerate(costs(system, config), 1) if spent >= budget)


def finished(config: Config) -> Result | None:
    """Returns the result of an earlier call with the same settings and budget, or None."""
    path = Path(config.training.run_directory) / RESULT
    found = Result(**json.loads(path.read_text())) if path.exists() else None
    return found if found and found.settings_sha256 == _sha256(config) else None


def _sha256(config: Config) -> str:
    return hashlib.sha256(config.to_yaml().encode()).hexdigest()


def trained(system: str, config: Config) -> Result:
    """Trains or resumes a run, and evaluates its finished model on the test set."""
    run = RunDirectory(Path(config.training.run_directory))
    translator, state = (trained_lstm if system == LSTM else trained_transformer)(config)
    tests = kept_test_set.read(run.test_set, config.data, None)
    assert tests
    translations = [each.text for each in translator.translate(tests[0])]
    language = config.data.target_language
    scores = score(translations, tests[1], target_language=language)
    log, spent = read_log(run.path), list(itertools.islice(costs(system, config), state.step))
    result = Result(
        system=system,
        seed=config.training.seed,
        settings_sha256=_sha256(config),
        parameters=parameters_of(system, config),
        steps=state.step,
        minutes=state.elapsed_s / 60,
        flops=spent[-1][0],
        target_tokens=spent[-1][1],
        tokens_per_second=median(line["tokens_per_second"] for line in log if "event" not in line),
        precision=run.settings().training.precision,
        bleu=scores.bleu,
        bleu_interval=bleu_interval(translations, tests[1], target_language=language),
        bleu_signature=scores.bleu_signature,
        curve=[
            {"step": step, "seconds": line["elapsed_s"], "flops": spent[step - 1][0],
             "target_tokens": spent[step - 1][1], "nll": line["nll"], "bleu": line["bleu"]}
            for line in log if line.get("event") == "validation" for step in [line["step"]]
        ],
    )  # fmt: skip
    atomic.write_file(run.path / TRANSLATIONS, "".join(f"{line}\n" for line in translations))
    atomic.write_file(run.path / RESULT, json.dumps(asdict(result), indent=1) + "\n")
    return result


def parameters_of(system: str, config: Config) -> int:
    """Returns the number of weights of a new model, before any weights are converted."""
    with torch.device("meta"):
        if system == LSTM:
            model: nn.Module = LSTMTranslator(config.model, config.tokenizer.vocabulary_size)
        else:
            model = new_transformer(config)
    return sum(each.numel() for each in model.parameters())


def trained_transformer(config: Config) -> tuple[Translator, State]:
    """Trains as `nmt train` does; returns the finished model and the final state."""
    model = train(config, say)
    last = checkpoints.newest(RunDirectory(Path(config.training.run_directory)).identity(), say)
    assert last
    return Translator.load(model, precision="fp32"), last.state


def trained_lstm(config: Config) -> tuple[Translator, State]:
    """Trains with the loop of `nmt train`; returns the finished model and the final state."""
    settings, directory = config.training, RunDirectory(Path(config.training.run_directory))
    keep_freed_memory()
    be_deterministic(settings.deterministic)
    with (
        StopRequest().listening() as stop,
        process_group(settings.process_group_timeout_s) as ranks,
        directory.locked(),
    ):
        run = open_run(config, directory, ranks, say)
        config = run.config  # without "auto"
        directory.record(config)
        model = LSTMTranslator(config.model, config.tokenizer.vocabulary_size)
        model.initialize(settings.seed)
        module = TransformerLoss(model.to(ranks.device).train(), settings.label_smoothing)
        optimizer, store = new_optimizer(model, config), LSTMCheckpoints(run)
        state = store.restore(model, optimizer)
        training = Training(
            run, module, module, optimizer, state.best, state.elapsed_s, copy=LSTMInferenceCopy()
        )
        with opened_log(training, state.step) as log:
            train_steps(training, store, log, stop, state.step)
        state = store.restore(model, optimizer)
        model.load_state_dict(store.mean(state.step))
        return translator_of(model.eval(), run.tokenizer, config, run.target_symbols), state


def translator_of(
    model: LSTMTranslator, tokenizer: Tokenizer, config: Config, target_symbols: Sequence[str]
) -> Translator:
    """Returns a translator for an LSTM; corresponds to `Translator.of` for a Transformer."""
    untrained = [i for symbol, i in tokenizer.symbol_ids.items() if symbol not in target_symbols]
    search = LSTMSearch([model], config.decoding, tokenizer.decode, untrained)
    return Translator(search, tokenizer, config)


class LSTMInferenceCopy:
    """Replaces `InferenceCopy`, so that validation uses the model itself instead of a copy."""

    refreshed = staticmethod(translator_of)


class LSTMCheckpoints:
    """A writer and reader of LSTM checkpoints that replaces `CheckpointWriter`.

    A checkpoint is a directory such as RUN/checkpoints/lstm-00001000, which `nmt` does not read.
    """

    def __init__(self, run: Run):
        """Removes the unfinished checkpoints of a killed process."""
        self.run, self.folder = run, run.directory.checkpoints
        self.folder.mkdir(exist_ok=True)
        atomic.remove_leftovers(self.folder)

    def _path(self, step: int) -> Path:
        return self.folder / f"lstm-{step:08d}"

    def _steps(self) -> list[int]:
        """Returns the steps of all checkpoints, newest first."""
        return sorted((int(path.name[5:]) for path in self.folder.glob("lstm-*")), reverse=True)

    def save(self, model: nn.Module, optimizer: Optimizer, state: State) -> None:
        """Writes a checkpoint, and removes older checkpoints that the mean does not need."""
        with atomic.new_directory(self._path(state.step)) as folder:
            write_tensors(folder / "model.safetensors", model.state_dict())
            write_tensors(folder / "optimizer.safetensors", state_tensors(optimizer, model))
            (folder / "state.json").write_text(state.model_dump_json())
        settings = self.run.config.training
        kept = {state.step, *self._scheduled(state.step)[: settings.average_last]}
        for step in self._steps():
            if step not in kept:
                path = self._path(step)
                path.replace(gone := atomic.aside(path, "former"))
                shutil.rmtree(gone)

    def record_state(self, state: State) -> None:
        """Replaces the state in the checkpoint of a step after the validation at this step."""
        atomic.write_file(self._path(state.step) / "state.json", state.model_dump_json())

    def check(self) -> None:
        """Does nothing, because checkpoints are written synchronously."""

    wait = check

    def restore(self, model: nn.Module, optimizer: Optimizer) -> State:
        """Restores the newest checkpoint and returns its state.

        Returns the state of step 0 if there is no checkpoint.
        """
        steps = self._steps()
        if not steps:
            threads, version = torch.get_num_threads(), str(torch.__version__)
            return State(
                step=0, best=Best(), elapsed_s=0, world_size=1, threads=threads, torch=version
            )
        folder, shapes = self._path(steps[0]), shapes_of(model.state_dict())
        weights, states = folder / "model.safetensors", folder / "optimizer.safetensors"
        with weights.open("rb") as file:
            model.load_state_dict(read_tensors(file, weights, shapes))
        with states.open("rb") as file:
            tensors = read_tensors(file, states, shapes, are_states=True)
        restore_state(optimizer, model, tensors, steps[0], folder)
        return read_state(folder / "state.json")

    def mean(self, last: int) -> dict[str, Tensor]:
        """Returns the mean weights of the last checkpoints, as `nmt train` computes them."""
        steps = self._scheduled(last)[: self.run.config.training.average_last]
        found = [load_file(self._path(step) / "model.safetensors") for step in steps]
        return {key: torch.stack([each[key] for each in found]).mean(0) for key in found[0]}

    def _scheduled(self, last: int) -> list[int]:
        every = self.run.config.training.checkpoint_every
        return checkpoints.scheduled(self._steps(), every, last)


def tables(results: Sequence[Result], output: Path) -> str:
    """Returns Markdown tables of the costs of both systems and of their difference in BLEU."""
    systems = [[each for each in results if each.system == name] for name in (LSTM, TRANSFORMER)]
    costs = Table(
        "", ["", "parameters", "precision", "steps", "target tokens", "training FLOPs", "minutes",
             "target tokens per second"], [_cost(some) for some in systems],
        ("Means over seeds. FLOPs are calculated, without padding.",),
    )  # fmt: skip
    run = RunDirectory(output / LSTM / f"seed-{results[0].seed}")
    data = run.settings().data
    tests = kept_test_set.read(run.test_set, data, None)
    assert tests
    compared = [
        System.of(some[0].system, [_translations(each, output) for each in some], tests[1],
                  data.target_language)
        for some in systems
    ]  # fmt: skip
    signature = f"BLEU: {results[0].bleu_signature}\n"
    return f"{costs.as_markdown()}\n{difference_table(compared).as_markdown()}{signature}"


def _cost(results: Sequence[Result]) -> list[str]:
    first = results[0]
    return [
        first.system,
        f"{first.parameters / 1e6:.2f} M",
        first.precision,
        f"{mean(each.steps for each in results):,.0f}",
        f"{mean(each.target_tokens for each in results):.3g}",
        f"{mean(each.flops for each in results):.3g}",
        f"{mean(each.minutes for each in results):.1f}",
        f"{mean(each.tokens_per_second for each in results):,.0f}",
    ]


def _translations(result: Result, output: Path) -> list[str]:
    path = output / result.system / f"seed-{result.seed}" / TRANSLATIONS
    return path.read_text(encoding="utf-8").split("\n")[:-1]


if __name__ == "__main__":
    run_script("baselines", main)
