"""Defines `nmt benchmark`, which measures the speed of training and translation on this machine."""

import argparse
import json
from pathlib import Path
from typing import Any

from nmt.cli.flags import (
    add_config,
    add_decoding,
    add_overrides,
    load_config,
    positive,
    refuse_overrides,
    search_options,
)
from nmt.cli.parser import Command, flag_names
from nmt.cli.terminal import print_result, say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    below = parser.add_subparsers(metavar="train|translate", required=True)
    for name, add, measure, summary, example in (
        ("train", _add_train, _train,
         "measure tokens per second, memory and step times in training",
         "nmt benchmark train configs/demo.yaml training.batch_tokens=2000"),
        ("translate", _add_translate, _translate,
         "measure sentences per second, latency and memory in translation",
         "nmt benchmark translate runs/demo --precision bf16"),
    ):  # fmt: skip
        sub = below.add_parser(
            name, help=summary, description=summary, epilog=f"example:  {example}"
        )
        add(sub)
        sub.add_argument("--json", action="store_true", help="print the result as JSON")
        sub.set_defaults(measure=measure, flags=flag_names(sub), program=sub.prog)


def _add_train(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--prepared", action="store_true",
                        help="train on the prepared data of the configuration "
                             "(default: on random sentences)")  # fmt: skip


def _add_translate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG|MODEL", type=Path,
                        help="model, or configuration of a model with random weights")  # fmt: skip
    add_overrides(parser, "settings to override")
    parser.add_argument("--input", type=Path, metavar="F",
                        help="file to translate (default: random sentences, whose "
                             "translations have the same length)")  # fmt: skip
    parser.add_argument("--sentences", type=positive, metavar="N",
                        help="number of sentences (default: all sentences of "
                             "--input; without --input, 200 on a CPU and 3003 on a "
                             "GPU)")  # fmt: skip
    add_decoding(parser)


def _run(arguments: argparse.Namespace) -> None:
    from nmt.benchmark.results import as_text

    found = arguments.measure(arguments)
    print_result(json.dumps(found, indent=1) if arguments.json else as_text(found))


def _train(arguments: argparse.Namespace) -> dict[str, Any]:
    from nmt.benchmark.training import benchmark_training

    return benchmark_training(load_config(arguments), prepared=arguments.prepared, note=say)


def _translate(arguments: argparse.Namespace) -> dict[str, Any]:
    from nmt.benchmark.translating import benchmark_translation

    is_model = arguments.config.is_dir()
    if is_model:
        refuse_overrides(arguments)
    return benchmark_translation(
        arguments.config if is_model else load_config(arguments),
        options=search_options(arguments),
        device=arguments.device,
        precision=arguments.precision,
        input=arguments.input,
        sentences=arguments.sentences,
        note=say,
    )


COMMAND = Command(
    "benchmark",
    "measure the speed of training or translation on this machine",
    "nmt benchmark train configs/demo.yaml",
    _add_flags,
    _run,
    if_out_of_memory="Lower training.batch_tokens, or --batch-tokens for translation.",
)
