"""Defines the command `nmt score`, which computes the log-probability of given translations."""

import argparse
from pathlib import Path

from nmt.cli.flags import add_device, add_model
from nmt.cli.parser import Command
from nmt.cli.terminal import print_result, say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--source", type=Path, required=True, metavar="F",
                        help="file with one source per line, plain or compressed")  # fmt: skip
    parser.add_argument("--target", type=Path, required=True, metavar="F",
                        help="file with the translation of each source line")  # fmt: skip
    parser.add_argument("--tokens", action="store_true",
                        help="print each token and its log-probability, separated by "
                             "tabs")  # fmt: skip
    add_device(parser, precision="fp32")


def _run(arguments: argparse.Namespace) -> None:
    from nmt.lines.score import run_score

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
    "print the log-probability of given translations",
    "nmt score runs/demo --source test.en --target test.de",
    _add_flags,
    _run,
    description="Prints the natural log-probability of each given translation, summed over its "
    "tokens and EOS, one number per line. Unlike the scores of nmt translate --n-best, the "
    "log-probability is not divided by the length penalty. For an empty line, it is the "
    "log-probability of EOS, whereas nmt translate --n-best prints 0.",
)
