"""Defines the command `nmt average`, which averages checkpoints into one model."""

import argparse
from pathlib import Path

from nmt.cli.flags import positive
from nmt.cli.parser import Command
from nmt.cli.terminal import say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="RUN", type=Path, help="run directory")
    parser.add_argument("--last", type=positive, required=True, metavar="N",
                        help="number of most recent checkpoints to average")  # fmt: skip
    parser.add_argument("--output", type=Path, required=True, metavar="DIR",
                        help="directory to create for the averaged model")  # fmt: skip


def _run(arguments: argparse.Namespace) -> None:
    from nmt.runs.average import average

    steps = average(arguments.model, arguments.last, arguments.output, say)
    of_steps = ", ".join(map(str, steps))
    say(f"Wrote {arguments.output}: the mean of the checkpoints of steps {of_steps}.")


COMMAND = Command(
    "average",
    "average the last checkpoints of a run",
    "nmt average runs/multi30k --last 5 --output averaged",
    _add_flags,
    _run,
)
