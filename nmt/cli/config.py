"""Defines the command `nmt config`, which prints every setting or a shipped configuration."""

import argparse

from nmt.cli.parser import Command
from nmt.cli.terminal import print_result


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="shipped configuration to print")


def _run(arguments: argparse.Namespace) -> None:
    from nmt.reporting.settings import settings_text, shipped_text

    print_result(shipped_text(arguments.name) if arguments.name else settings_text())


COMMAND = Command(
    "config",
    "print every setting or a shipped configuration",
    "nmt config demo > demo.yaml",
    _add_flags,
    _run,
)
