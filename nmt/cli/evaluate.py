"""`nmt evaluate`: scores a model's translations, or given ones."""

import argparse
import json
from pathlib import Path

from nmt.cli.flags import add_decoding, add_model, search_options
from nmt.cli.parser import Command
from nmt.cli.terminal import print_result, say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser, nargs="?")
    parser.add_argument("--source", type=Path, metavar="F", help="text to translate")
    parser.add_argument("--reference", type=Path, metavar="F", help="its reference translation")
    parser.add_argument("--test-set", metavar="NAME", help="of sacreBLEU, such as wmt14/full")
    parser.add_argument("--hypothesis", type=Path, metavar="F",
                        help="score this translation instead")  # fmt: skip
    parser.add_argument("--baseline", type=Path, metavar="F",
                        help="another translation, for a paired significance test")  # fmt: skip
    parser.add_argument("--comet", nargs="?", const="Unbabel/wmt22-comet-da", metavar="MODELNAME",
                        help="COMET too (default: %(const)s; extra comet)")  # fmt: skip
    parser.add_argument("--target-language", metavar="L", help="such as de (default: the model's)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--output", type=Path, metavar="F", help="file for the translations")
    add_decoding(parser)


def _run(arguments: argparse.Namespace) -> None:
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
        options=search_options(arguments),
        note=say,
    )
    print_result(json.dumps(result.as_json(), indent=1) if arguments.json else result.as_text())


COMMAND = Command(
    "evaluate",
    "translate a test set and score it, or score a translation",
    "nmt evaluate runs/multi30k --json",
    _add_flags,
    _run,
    description="Translates and scores a text with its reference, a test set of sacreBLEU, or, "
    "with neither, the model's own: the text of data.test that training has kept in RUN/test_set. "
    "Files that a model's configuration names are never opened.",
)
