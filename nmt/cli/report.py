"""Defines the command `nmt report`, which writes an HTML page about one or more runs."""

import argparse
from pathlib import Path

from nmt.cli.flags import output_file
from nmt.cli.parser import Command
from nmt.cli.terminal import say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run directory")
    parser.add_argument(
        "--output", type=output_file, required=True, metavar="F.html", help="HTML file"
    )
    parser.add_argument("--contrastive", type=Path, metavar="F",
                        help="also compute the accuracy on the contrastive pairs in a file, as nmt "
                             "evaluate does")  # fmt: skip


def _run(arguments: argparse.Namespace) -> None:
    from nmt.cpu_memory import keep_freed_memory
    from nmt.reporting.report import report

    keep_freed_memory()
    report(arguments.runs, arguments.output, say, arguments.contrastive)
    say(f"Wrote {arguments.output}.")


COMMAND = Command(
    "report",
    "write an HTML page about a run, or a comparison of several runs",
    "nmt report runs/multi30k --output report.html",
    _add_flags,
    _run,
)
