"""The `nmt` command: arguments in, calls out, errors as one line each.

Modules are imported by the command that needs them, so that `nmt --help` is prompt.
"""

import argparse
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nmt import __version__
from nmt.errors import InputError, Status, Stopped, is_out_of_memory, of_system, told
from nmt.signals import stoppable

if TYPE_CHECKING:
    from nmt.decoding.translator import SearchOptions


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage as every other error is reported."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}, command line, see {self.prog} --help")


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    out_of_memory = ""
    _occupy_standard_descriptors()
    if isinstance(sys.stdout, io.TextIOWrapper):  # whatever the locale; paths as they came
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        arguments = _parsed(argv)
        out_of_memory = arguments.if_out_of_memory
        with stoppable("interrupted"):  # so that files half written are removed
            arguments.run(arguments)
        if sys.stdout:
            sys.stdout.flush()
        return Status.DONE
    except InputError as error:
        for problem in error.problems:
            _say(f"nmt: error: {problem}")
        return error.status
    except Stopped as stopped:
        if str(stopped):
            _say(f"nmt: {stopped}")
        return stopped.status
    except BrokenPipeError:  # whoever read us has gone
        _forget_output()
        return Status.DONE
    except KeyboardInterrupt:
        _say("nmt: interrupted")
        return 130
    except UnicodeEncodeError as error:
        if error.encoding == "utf-8":
            raise
        _say(
            f"nmt: error: no file can be called {str(error.object)!a:.200} in this locale "
            f"({error.encoding}), this command, use a UTF-8 locale, or set PYTHONUTF8=1"
        )
        return Status.INPUT
    except OSError as error:
        if error.errno is None:
            raise
        _forget_output()
        found = of_system(error)
        _say(f"nmt: error: {found}")
        return found.status
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        _say(f"nmt: error: out of memory, this machine, {out_of_memory}")
        return Status.INPUT


def _occupy_standard_descriptors() -> None:
    """Opens those that the caller has closed, so that no file of ours gets their numbers.

    What a library writes to descriptor 2 would else end up in a checkpoint.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stderr is None:  # libraries write to it without asking, or to standard output instead
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _forget_output() -> None:
    """Keeps the interpreter from failing once more at its end, on what could not be written."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens: no reason to stop
        print(told(text), file=sys.stderr, flush=True)


def _print(text: object) -> None:
    if sys.stdout is None:
        raise InputError("standard output is closed, this command, give it somewhere to write")
    print(text)


def _parsed(argv: list[str] | None) -> argparse.Namespace:
    """The arguments; KEY=VALUE may stand behind options, which argparse alone refuses."""
    parser = _parser()
    arguments, late = parser.parse_known_args(argv)
    overrides = [word for word in late if "=" in word and not word.startswith("-")]
    if late != overrides or (late and not hasattr(arguments, "overrides")):
        if hasattr(arguments, "overrides"):
            _refuse_setting_as_option(late)
        parser.error(f"unrecognized arguments: {' '.join(late)}")
    if late:
        arguments.overrides += late
    return arguments


def _refuse_setting_as_option(words: list[str]) -> None:
    """Raises InputError for --max-steps 10, which says training.max_steps=10."""
    from nmt.config import Config

    option, _, value = words[0].partition("=")
    name = option.removeprefix("--").replace("-", "_").rpartition(".")[2]
    for section, field in Config.model_fields.items():
        if option.startswith("--") and name in getattr(field.annotation, "model_fields", {}):
            meant = f"{section}.{name}={value or ' '.join(words[1:2]) or '...'}"
            raise InputError(f"no option {option}, command line, write {meant}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="nmt",
        description="Machine translation with the Transformer of Vaswani et al. (2017).",
    )
    parser.add_argument("--version", action="version", version=f"nmt {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, summary: str, example: str, run) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=summary, description=summary, epilog=f"example:  {example}"
        )
        sub.set_defaults(run=run, if_out_of_memory="use a machine with more memory")
        return sub

    sub = command("prepare", "clean corpora, train the tokenizer, write token shards",
                  "nmt prepare configs/multi30k.yaml", _prepare)  # fmt: skip
    _add_config(sub)
    sub.add_argument("--processes", type=_positive, metavar="N",
                     help="at most so many at once, up to 200 MB each (default: the CPU "
                          "cores, up to 6); the data do not depend on it")  # fmt: skip
    sub.set_defaults(if_out_of_memory="lower --processes, or use a machine with more memory")
    sub = command("train", "train a model, or take up a run where it stopped",
                  "nmt train configs/demo.yaml training.max_steps=200", _train)  # fmt: skip
    _add_config(sub)
    sub.set_defaults(if_out_of_memory="raise training.micro_batches, so that slots are smaller")
    sub = command("translate", "translate text, one line out for each line in",
                  "echo 'The man reads a book.' | nmt translate runs/demo", _translate)  # fmt: skip
    _add_translate(sub)
    sub.set_defaults(if_out_of_memory="lower --batch-tokens")
    sub = command("evaluate", "translate a test set and score it, or score a translation",
                  "nmt evaluate runs/multi30k --json", _evaluate)  # fmt: skip
    _add_evaluate(sub)
    sub = command("score", "log-probability of given translations, one number a line",
                  "nmt score runs/demo --source test.en --target test.de", _score)  # fmt: skip
    _add_score(sub)
    sub = command("attention", "picture where the model looks, by layer and head",
                  "nmt attention runs/demo --source 'The man reads.' --output a.html",
                  _attention)  # fmt: skip
    sub.add_argument("model", metavar="MODEL", type=Path, help="model, checkpoint or run directory")
    sub.add_argument("--source", required=True, metavar="TEXT", help="a sentence")
    sub.add_argument("--target", metavar="TEXT", help="its translation; default: the model's own")
    sub.add_argument("--output", type=Path, required=True, metavar="F",
                     help=".html: to explore; .png: a grid (extra plots)")  # fmt: skip
    sub = command("average", "mean of a run's last checkpoints, as a model directory",
                  "nmt average runs/multi30k --last 5 --output averaged", _average)  # fmt: skip
    sub.add_argument("model", metavar="RUN", type=Path, help="run directory")
    sub.add_argument(
        "--last", type=_positive, required=True, metavar="N", help="how many checkpoints"
    )
    sub.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="new model directory"
    )
    sub = command("info", "parameters, FLOPs, learning rate, what differs from the paper",
                  "nmt info configs/transformer_base.yaml", _info)  # fmt: skip
    sub.add_argument("config", metavar="CONFIG|MODEL", type=Path, help="configuration, or a model")
    sub.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="settings to override")
    sub.add_argument("--json", action="store_true", help="for programs")
    sub = command("config", "every setting with its meaning; with a NAME, a shipped configuration",
                  "nmt config demo > demo.yaml", _config)  # fmt: skip
    sub.add_argument("name", metavar="NAME", nargs="?", help="printed as YAML, whole")
    sub = command("report", "one HTML page about a run, or about several compared",
                  "nmt report runs/multi30k --output report.html", _report)  # fmt: skip
    sub.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run directory")
    sub.add_argument("--output", type=Path, required=True, metavar="F.html", help="the page")
    return parser


def _add_config(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("config", metavar="CONFIG", type=Path, help="YAML file")
    sub.add_argument("overrides", metavar="KEY=VALUE", nargs="*",
                     help="settings to override, such as training.max_steps=200")  # fmt: skip


def _add_decoding(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--beam", type=_positive, metavar="N",
                     help="hypotheses kept; 1 is greedy "
                          "(default: the model's decoding.beam)")  # fmt: skip
    sub.add_argument("--length-penalty", type=_penalty, metavar="A",
                     help="alpha of ((5+n)/6)^alpha, from 0 to 100 "
                          "(default: the model's decoding.length_penalty)")  # fmt: skip
    sub.add_argument("--batch-tokens", type=_positive, metavar="N",
                     help="tokens decoded at once; less needs less memory "
                          "(default: 16384 on a CPU, 131072 on a GPU)")  # fmt: skip
    _add_device(sub)


def _add_device(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--device", metavar="D",
                     help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")  # fmt: skip
    sub.add_argument("--precision", choices=("fp32", "bf16"),
                     help="fp32 does not depend on batch size or order; bf16 is faster, its BLEU "
                          "within 0.2 (default: fp32 on a CPU, bf16 on a GPU)")  # fmt: skip


def _add_translate(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("model", metavar="MODEL", type=Path, help="model, checkpoint or run directory")
    sub.add_argument("--input", type=Path, metavar="F",
                     help="text, plain or .gz (default: standard input)")  # fmt: skip
    sub.add_argument("--output", type=Path, metavar="F",
                     help="appears when it is whole (default: standard output)")  # fmt: skip
    sub.add_argument("--n-best", type=_positive, metavar="N",
                     help="N lines a sentence: index, score, text, tab-separated (default: the "
                          "best text alone); the score is the log-probability divided by the "
                          "length penalty, where nmt score prints it undivided; of an empty line "
                          "it is 0")  # fmt: skip
    sub.add_argument("--strict", action="store_true",
                     help="stop at invalid UTF-8 (default: replace it and warn)")  # fmt: skip
    _add_decoding(sub)


def _add_evaluate(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Translates and scores a text with its reference, a test set of sacreBLEU, or, with "
        "neither, the model's own: the text of data.test as RUN/test_set keeps it since training. "
        "Files that a model's configuration names are never opened."
    )
    sub.add_argument("model", metavar="MODEL", type=Path, nargs="?",
                     help="model, checkpoint or run directory")  # fmt: skip
    sub.add_argument("--source", type=Path, metavar="F", help="text to translate")
    reference = sub.add_mutually_exclusive_group()
    reference.add_argument("--reference", type=Path, metavar="F", help="its translation by people")
    reference.add_argument("--test-set", metavar="NAME", help="of sacreBLEU, such as wmt14/full")
    sub.add_argument("--hypothesis", type=Path, metavar="F", help="score this translation instead")
    sub.add_argument("--baseline", type=Path, metavar="F",
                     help="another translation, for a paired significance test")  # fmt: skip
    sub.add_argument("--comet", nargs="?", const="Unbabel/wmt22-comet-da", metavar="MODELNAME",
                     help="COMET too, %(const)s if none is named; extra comet")  # fmt: skip
    sub.add_argument("--target-language", metavar="L", help="of the hypothesis, such as de")
    sub.add_argument("--json", action="store_true", help="for programs")
    sub.add_argument("--output", type=Path, metavar="F", help="receives the translations")
    _add_decoding(sub)


def _add_score(sub: argparse.ArgumentParser) -> None:
    sub.description = (
        "Natural log-probability of given translations, summed over the target's tokens and its "
        "end symbol, one number a line. It is not divided by the length penalty, as the scores of "
        "nmt translate --n-best are; an empty line is scored by its end symbol, where those are 0."
    )
    sub.add_argument("model", metavar="MODEL", type=Path, help="model, checkpoint or run directory")
    sub.add_argument("--source", type=Path, required=True, metavar="F", help="text, plain or .gz")
    sub.add_argument("--target", type=Path, required=True, metavar="F", help="its translation")
    sub.add_argument("--tokens", action="store_true", help="each token with its own, tab-separated")
    _add_device(sub)


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if not 1 <= value <= 10**9:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 10^9, found {text}")
    return value


def _penalty(text: str) -> float:
    try:
        return float(text)  # its bounds are those of SearchOptions
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, found {text}") from None


def _prepare(arguments: argparse.Namespace) -> None:
    from nmt.config import load
    from nmt.data.prepare import prepare

    config = load(arguments.config, arguments.overrides)
    tokenizer = None
    if config.training.initialize_from:
        from nmt.runs.model_directory import tokenizer_to_fine_tune

        tokenizer = tokenizer_to_fine_tune(config)
    prepare(config, report=_say, tokenizer=tokenizer, processes=arguments.processes)


def _train(arguments: argparse.Namespace) -> None:
    from nmt.config import load
    from nmt.training.train import train

    try:
        config = load(arguments.config, arguments.overrides)
    except InputError as error:  # torchrun's processes all read it: one a machine tells
        raise error if os.environ.get("LOCAL_RANK", "0") == "0" else InputError() from None
    model = train(config, _say)
    if os.environ.get("RANK", "0") == "0":
        _print(model)


def _translate(arguments: argparse.Namespace) -> None:
    from nmt.cpu_memory import keep_freed_memory
    from nmt.decoding.lines import LineOptions, run_translate

    keep_freed_memory()
    run_translate(
        arguments.model,
        input_path=arguments.input,
        output_path=arguments.output,
        options=LineOptions(
            search=_search_options(arguments, n_best=arguments.n_best or 1),
            numbered=arguments.n_best is not None,
            strict=arguments.strict,
        ),
        device=arguments.device,
        precision=arguments.precision,
        note=_say,
    )


def _evaluate(arguments: argparse.Namespace) -> None:
    from nmt.cpu_memory import keep_freed_memory
    from nmt.evaluation.evaluate import evaluate

    keep_freed_memory()
    result = evaluate(
        arguments.model,
        source=arguments.source,
        reference=arguments.reference,
        test_set=arguments.test_set,
        hypothesis=arguments.hypothesis,
        baseline=arguments.baseline,
        comet=arguments.comet,
        target_language=arguments.target_language,
        output=arguments.output,
        device=arguments.device,
        precision=arguments.precision,
        options=_search_options(arguments),
        note=_say,
    )
    _print(json.dumps(result.as_json(), indent=1) if arguments.json else result.as_text())


def _score(arguments: argparse.Namespace) -> None:
    from nmt.decoding.score import run_score

    for line in run_score(
        arguments.model,
        arguments.source,
        arguments.target,
        each_token=arguments.tokens,
        device=arguments.device,
        precision=arguments.precision,
        note=_say,
    ):
        _print(line)


def _attention(arguments: argparse.Namespace) -> None:
    from nmt.evaluation.attention_maps import run_attention

    run_attention(arguments.model, arguments.source, arguments.target, arguments.output, _say)


def _search_options(arguments: argparse.Namespace, n_best: int = 1) -> "SearchOptions":
    from nmt.decoding.translator import SearchOptions

    return SearchOptions(arguments.beam, arguments.length_penalty, n_best, arguments.batch_tokens)


def _average(arguments: argparse.Namespace) -> None:
    from nmt.runs.average import average

    steps = average(arguments.model, arguments.last, arguments.output, _say)
    _say(f"mean of steps {', '.join(map(str, steps))}")


def _info(arguments: argparse.Namespace) -> None:
    from nmt.config import load
    from nmt.reporting.info import as_text, info

    if arguments.config.is_dir():
        from nmt.runs.model_directory import find_model, read_config

        if arguments.overrides:
            raise InputError("a model's settings stand, command line, leave out KEY=VALUE")
        config = read_config(find_model(arguments.config, _say)[0])
    else:
        config = load(arguments.config, arguments.overrides)
    content = info(config)
    _print(json.dumps(content, indent=1) if arguments.json else as_text(content))


def _config(arguments: argparse.Namespace) -> None:
    from nmt.reporting.settings import settings_text, shipped_text

    _print(shipped_text(arguments.name) if arguments.name else settings_text())


def _report(arguments: argparse.Namespace) -> None:
    from nmt.cpu_memory import keep_freed_memory
    from nmt.reporting.report import report

    keep_freed_memory()
    report(arguments.runs, arguments.output, _say)
    _say(f"written: {arguments.output}")
