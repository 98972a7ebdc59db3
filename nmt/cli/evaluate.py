"""Defines `nmt evaluate`, which scores a model's translations or the translations in a file."""

import argparse
import json
from pathlib import Path

from nmt.cli.flags import add_decoding, add_model, output_file, search_options
from nmt.cli.parser import Command
from nmt.cli.terminal import print_result, say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser, nargs="?", exported=True)
    parser.add_argument("--source", type=Path, metavar="F", help="file to translate")
    parser.add_argument("--reference", type=Path, metavar="F", nargs="+",
                        help="one or more files with reference translations")  # fmt: skip
    parser.add_argument("--test-set", metavar="NAME",
                        help="name of a sacreBLEU test set, such as wmt14/full")  # fmt: skip
    parser.add_argument("--hypothesis", type=Path, metavar="F",
                        help="file with translations to score, instead of a model's "
                             "translations")  # fmt: skip
    parser.add_argument("--baseline", type=Path, metavar="F",
                        help="file with another system's translations, for a paired "
                             "significance test")  # fmt: skip
    parser.add_argument("--comet", nargs="?", const="Unbabel/wmt22-comet-da", metavar="MODELNAME",
                        help="also compute COMET with this model (default: "
                             "%(const)s; needs the extra comet)")  # fmt: skip
    parser.add_argument("--analysis", action="store_true",
                        help="also report scores by length and by word frequency, faulty "
                             "translations, and the model's calibration")  # fmt: skip
    parser.add_argument("--contrastive", type=Path, metavar="F",
                        help="also compute the accuracy on the contrastive pairs in a file. Each "
                             "line of the file contains a source, a correct translation, an "
                             "incorrect translation and a category, separated by tabs")  # fmt: skip
    parser.add_argument("--target-language", metavar="L",
                        help="language code, such as de (default: the model's target "
                             "language)")  # fmt: skip
    parser.add_argument("--lowercase", action="store_true", help="compute BLEU on lowercased text")
    parser.add_argument("--tokenize", metavar="NAME",
                        help="sacreBLEU tokenizer for BLEU, such as 13a, intl, char, zh "
                             "or none (default: the tokenizer for the target language, "
                             "usually 13a)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--output", type=output_file, metavar="F", help="file to write translations to"
    )
    add_decoding(parser, precision="fp32")


def _run(arguments: argparse.Namespace) -> None:
    from nmt.cpu_memory import keep_freed_memory
    from nmt.evaluation.evaluate import evaluate

    keep_freed_memory()
    _find_model(arguments)
    result = evaluate(
        arguments.model,
        source=arguments.source,
        reference=arguments.reference,
        test_set=arguments.test_set,
        hypothesis=arguments.hypothesis,
        baseline=arguments.baseline,
        comet=arguments.comet,
        analysis=arguments.analysis,
        contrastive=arguments.contrastive,
        target_language=arguments.target_language,
        lowercase=arguments.lowercase,
        tokenize=arguments.tokenize,
        output=arguments.output,
        device=arguments.device,
        precision=arguments.precision,
        options=search_options(arguments),
        note=say,
    )
    print_result(json.dumps(result.as_json(), indent=1) if arguments.json else result.as_text())


def _find_model(arguments: argparse.Namespace) -> None:
    """Corrects `--reference F MODEL`, which argparse parses as two references and no model."""
    references = arguments.reference or []
    if arguments.model is None and len(references) > 1 and references[-1].is_dir():
        *arguments.reference, arguments.model = references


COMMAND = Command(
    "evaluate",
    "translate a test set and score the translations, or score existing translations",
    "nmt evaluate runs/multi30k --json",
    _add_flags,
    _run,
    description="Translates a test set and scores the translations. Specify the test set with "
    "--source and --reference, or with --test-set; by default, it is the copy of data.test in "
    "RUN/test_set. The text files in the configuration are not read again, so it does not matter "
    "if they were changed or removed.",
)
