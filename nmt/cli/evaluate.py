"""`nmt evaluate`: scores of a model's translations, or of given ones."""

import argparse
import json
from pathlib import Path

from nmt.cli.flags import add_decoding, add_model, search_options
from nmt.cli.parser import Command
from nmt.cli.terminal import print_result, say
from nmt.errors import InputError


def add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser, nargs="?")
    parser.add_argument("--source", type=Path, metavar="F", help="text to translate")
    references = parser.add_mutually_exclusive_group()
    references.add_argument("--reference", type=Path, metavar="F",
                            help="its translation by people")  # fmt: skip
    references.add_argument("--test-set", metavar="NAME", help="of sacreBLEU, such as wmt14/full")
    parser.add_argument("--hypothesis", type=Path, metavar="F",
                        help="score this translation instead")  # fmt: skip
    parser.add_argument("--baseline", type=Path, metavar="F",
                        help="another translation, for a paired significance test")  # fmt: skip
    parser.add_argument("--comet", nargs="?", const="Unbabel/wmt22-comet-da", metavar="MODELNAME",
                        help="COMET too, %(const)s if none is named; extra comet")  # fmt: skip
    parser.add_argument("--target-language", metavar="L", help="of the hypothesis, such as de")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--output", type=Path, metavar="F", help="receives the translations")
    add_decoding(parser)


def run(arguments: argparse.Namespace) -> None:
    from nmt.cpu_memory import keep_freed_memory
    from nmt.evaluation.evaluate import evaluate

    if conflict := _conflict(arguments):
        raise InputError(conflict)
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
        options=search_options(arguments),
        note=say,
    )
    print_result(json.dumps(result.as_json(), indent=1) if arguments.json else result.as_text())


def _conflict(arguments: argparse.Namespace) -> str | None:
    """The first thing that does not go together, as a line."""
    has = {name for name, value in vars(arguments).items() if value is not None}
    is_compared = "reference" in has or arguments.test_set is not None
    if "source" in has and "reference" not in has:
        return "--source without --reference, command line, give the reference too"
    if {"source", "hypothesis"} <= has and "comet" not in has:
        return "both --source and --hypothesis, command line, leave out --source"
    if {"comet", "reference"} <= has and "source" not in has:
        return "--comet without --source, command line, give the source too"
    if "reference" in has and not has & {"source", "hypothesis"}:
        return "--reference without --source, command line, give the source too"
    if not has & {"model", "hypothesis"}:
        return "neither MODEL nor --hypothesis, command line, give one of them"
    if "model" not in has and not is_compared:
        return "nothing to compare with, command line, give --reference or --test-set"
    if not has & {"model", "target_language"}:
        return "no --target-language, command line, give it or a MODEL that tells it"
    of_translating = {"beam", "length_penalty", "batch_tokens", "device", "precision"}
    if "hypothesis" in has and has & of_translating:
        return (
            "options of translating beside --hypothesis, command line, leave out --beam, "
            "--length-penalty, --batch-tokens, --device and --precision"
        )
    return None


COMMAND = Command(
    "evaluate",
    "translate a test set and score it, or score a translation",
    "nmt evaluate runs/multi30k --json",
    add_flags,
    run,
    description="Translates and scores a text with its reference, a test set of sacreBLEU, or, "
    "with neither, the model's own: the text of data.test as RUN/test_set keeps it since training. "
    "Files that a model's configuration names are never opened.",
)
