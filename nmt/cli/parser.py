"""Parses command-line arguments into a command and its options."""

import argparse
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, NoReturn

from nmt import __version__
from nmt.cli.flags import any_path
from nmt.cli.terminal import flush_output, print_result
from nmt.errors import InputError


@dataclass(frozen=True)
class Command:
    """A subcommand of `nmt`."""

    name: str
    summary: str
    example: str
    add_flags: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    description: str = ""  # text in --help; if empty, the summary is used
    if_out_of_memory: str = "Use a machine with more memory."  # remedy in the error message


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises InputError if arguments are invalid or printing help fails.

    If an option, command or choice is misspelled, the error message suggests the most similar name.
    By itself, argparse never suggests options, and it suggests commands and choices only in Python
    3.14 and later.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("type", Path, any_path)

    def parse_known_args(self, args=None, namespace=None):
        """Rejects unknown options before argparse reports missing arguments."""
        if self._subparsers is None:  # otherwise, the subcommand's parser checks the options
            self._refuse_unknown_options(list(args or ()))
        return super().parse_known_args(args, namespace)

    def _refuse_unknown_options(self, words: list[str]) -> None:
        """Raises InputError for an unknown option that resembles a setting or a known option."""
        known = [each[2:] for each in self._option_string_actions if each.startswith("--")]
        for i, word in enumerate(takewhile(lambda word: word != "--", words)):
            name = word.partition("=")[0][2:]
            is_option = word.startswith("--") and " " not in name  # argparse's rule
            if not is_option or any(each.startswith(name) for each in known):  # an abbreviation
                continue
            if any(action.dest == "overrides" for action in self._actions):
                _refuse_setting_as_option(words[i:])
            if near := difflib.get_close_matches(name, known, n=1):
                raise InputError(f"Unknown option --{name}. Did you mean --{near[0]}?")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = [str(each) for each in action.choices or ()]
        near = difflib.get_close_matches(str(value), choices, n=1)
        if near and str(value) not in choices:
            name = [*action.option_strings, "command"][0]
            raise InputError(f"Unknown {name} {value}. Did you mean {near[0]}?")
        super()._check_value(action, value)

    def _print_message(self, message: str, file: object = None) -> None:
        """Prints help or the version. Unlike argparse, raises an error if printing fails."""
        print_result(message.removesuffix("\n"))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Flushes the buffered help text before exiting."""
        flush_output()
        super().exit(status, message)

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message[:1].upper()}{message[1:]}. See {self.prog} --help.")


def new_parser(commands: Sequence[Command]) -> argparse.ArgumentParser:
    """Returns the parser of the `nmt` command.

    The namespace that the parser returns also has the attributes `command`, `program` and `flags`.
    The value of `program` is the full name of the command, such as "nmt train". The value of
    `flags` is the result of `flag_names`.
    """
    parser = _Parser(
        prog="nmt",
        description="Machine translation with the Transformer of Vaswani et al. (2017).",
        epilog="nmt COMMAND --help lists the options of a command and shows an example",
    )
    parser.add_argument("--version", action="version", version=f"nmt {__version__}")
    below = parser.add_subparsers(metavar="COMMAND")
    for command in commands:
        sub = below.add_parser(
            command.name,
            help=command.summary,
            description=command.description or command.summary,
            epilog=f"example:  {command.example}",
        )
        command.add_flags(sub)
        sub.set_defaults(command=command, flags=flag_names(sub), program=sub.prog)
    return parser


def flag_names(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Returns a dictionary that maps each argument's attribute to its name on the command line."""
    return {each.dest: str([*each.option_strings, each.metavar][0]) for each in parser._actions}


def parse(commands: Sequence[Command], argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses command-line arguments; KEY=VALUE arguments may precede and follow options.

    Raises:
        InputError: the arguments are invalid.
        SystemExit: the arguments contain --help or --version, whose output has been printed.
    """
    arguments, late = new_parser(commands).parse_known_args(argv)
    if not hasattr(arguments, "command"):
        names = ", ".join(command.name for command in commands)
        raise InputError(f"No command was given. Choose one of {names}. See nmt --help.")
    has_overrides = hasattr(arguments, "overrides")
    overrides = [word for word in late if has_overrides and "=" in word and word[0] != "-"]
    if late != overrides:
        _refuse(late, arguments)
    if late:
        arguments.overrides += late
    if has_overrides:
        _refuse_separated(arguments.overrides)
    return arguments


def _refuse(words: list[str], arguments: argparse.Namespace) -> NoReturn:
    """Raises InputError for unknown arguments and suggests a correction if possible."""
    word, options = words[0], arguments.flags
    if "input" in options and not word.startswith("-"):
        raise InputError(
            f"Unexpected argument {word}. To translate the file {word}, use --input {word}. To "
            "translate text, write it to standard input."
        )
    texts = ("source", "reference", "target", "hypothesis")
    *others, last = [options[name] for name in texts if name in options] or [""]
    if last and not word.startswith("-"):
        near = f"{', '.join(others)} or {last}"
        raise InputError(f"Unexpected argument {word}. To pass text, use {near}.")
    raise InputError(f"Unrecognized arguments: {' '.join(words)}. See {arguments.program} --help.")


def _refuse_setting_as_option(words: list[str]) -> None:
    """Raises InputError for a setting that is written as an option, such as "--max-steps 10"."""
    from nmt.config import Config

    option, _, value = words[0].partition("=")
    name = option.removeprefix("--").replace("-", "_").rpartition(".")[2]
    for section, field in Config.model_fields.items():
        if option.startswith("--") and name in getattr(field.annotation, "model_fields", {}):
            meant = f"{section}.{name}={value or ' '.join(words[1:2]) or '...'}"
            raise InputError(f"Unknown option {option}. Use {meant} instead.")


def _refuse_separated(overrides: list[str]) -> None:
    """Raises InputError for an override without an equals sign, such as "training.seed 10"."""
    for key, value in pairwise(word for word in overrides if word != "="):
        if "." in key and "=" not in key + value:
            raise InputError(f"Write {key}={value}, without spaces around the equals sign.")
