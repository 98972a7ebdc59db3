"""From words to a command and its flags."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from nmt import __version__
from nmt.errors import InputError


@dataclass(frozen=True)
class Command:
    """A command of `nmt`, as its file describes it."""

    name: str
    summary: str
    example: str
    add_flags: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    description: str = ""  # of its --help, where the summary does not suffice
    if_out_of_memory: str = "use a machine with more memory"  # what to do


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage as every other error is reported."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}, command line, see {self.prog} --help")


def new_parser(commands: Sequence[Command]) -> argparse.ArgumentParser:
    """It sets `command`, and `flags`: what each argument is called on the command line."""
    parser = _Parser(
        prog="nmt",
        description="Machine translation with the Transformer of Vaswani et al. (2017).",
    )
    parser.add_argument("--version", action="version", version=f"nmt {__version__}")
    below = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in commands:
        sub = below.add_parser(
            command.name,
            help=command.summary,
            description=command.description or command.summary,
            epilog=f"example:  {command.example}",
        )
        command.add_flags(sub)
        flags = {each.dest: [*each.option_strings, each.metavar][0] for each in sub._actions}
        sub.set_defaults(command=command, flags=flags)
    return parser


def parse(commands: Sequence[Command], argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; KEY=VALUE may stand behind options, which argparse alone refuses.

    Raises:
        InputError: wrong usage.
        SystemExit: --help or --version, which is printed.
    """
    parser = new_parser(commands)
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
