"""`nmt score`: what a model thinks of given translations."""

import argparse
from pathlib import Path

from nmt.cli.flags import add_device, add_model
from nmt.cli.parser import Command
from nmt.cli.terminal import print_result, say


def add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--source", type=Path, required=True, metavar="F",
                        help="text, plain or .gz")  # fmt: skip
    parser.add_argument("--target", type=Path, required=True, metavar="F", help="its translation")
    parser.add_argument("--tokens", action="store_true",
                        help="each token with its own, tab-separated")  # fmt: skip
    add_device(parser)


def run(arguments: argparse.Namespace) -> None:
    from nmt.decoding.score import run_score

    for line in run_score(
        arguments.model,
        arguments.source,
        arguments.target,
        each_token=arguments.tokens,
        device=arguments.device,
        precision=arguments.precision,
        note=say,
    ):
        print_result(line)


COMMAND = Command(
    "score",
    "log-probability of given translations, one number a line",
    "nmt score runs/demo --source test.en --target test.de",
    add_flags,
    run,
    description="Natural log-probability of given translations, summed over the target's tokens "
    "and its end symbol, one number a line. It is not divided by the length penalty, as the scores "
    "of nmt translate --n-best are; an empty line is scored by its end symbol, where those are 0.",
)
