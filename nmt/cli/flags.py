"""Flags that several commands share, and what the library is given for them."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.decoding.translator import SearchOptions


def add_model(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """MODEL; `nargs` "?" if it may be left out."""
    parser.add_argument("model", metavar="MODEL", type=Path, nargs=nargs,
                        help="model, checkpoint or run directory")  # fmt: skip


def add_config(parser: argparse.ArgumentParser) -> None:
    """CONFIG and KEY=VALUE, see `load_config`."""
    parser.add_argument("config", metavar="CONFIG", type=Path, help="YAML file")
    add_overrides(parser, "settings to override, such as training.max_steps=200")


def add_overrides(parser: argparse.ArgumentParser, meaning: str) -> None:
    """KEY=VALUE, any number of times."""
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help=meaning)


def load_config(arguments: argparse.Namespace) -> "Config":
    """The configuration that `add_config` has read; InputError if it is not a valid one."""
    from nmt.config import load

    return load(arguments.config, arguments.overrides, origin="command line")


def add_decoding(
    parser: argparse.ArgumentParser, precision: str = "fp32 on a CPU, bf16 on a GPU"
) -> None:
    """How to search, see `search_options`, and as of `add_device`."""
    parser.add_argument("--beam", type=positive, metavar="N",
                        help="hypotheses kept; 1 is greedy "
                             "(default: the model's decoding.beam)")  # fmt: skip
    parser.add_argument("--length-penalty", type=_number, metavar="A",
                        help="alpha of ((5+n)/6)^alpha, from 0 to 100 "
                             "(default: the model's decoding.length_penalty)")  # fmt: skip
    parser.add_argument("--batch-tokens", type=positive, metavar="N",
                        help="tokens decoded at once; fewer need less memory "
                             "(default: 16384 on a CPU, 131072 on a GPU)")  # fmt: skip
    add_device(parser, precision)


def search_options(arguments: argparse.Namespace) -> "SearchOptions":
    """The fields of SearchOptions for which a flag of the same name was given."""
    from nmt.decoding.translator import SearchOptions

    given = {name: value for name, value in vars(arguments).items() if value is not None}
    return SearchOptions(
        **{each.name: given[each.name] for each in fields(SearchOptions) if each.name in given}
    )


def add_device(
    parser: argparse.ArgumentParser, precision: str = "fp32 on a CPU, bf16 on a GPU"
) -> None:
    """Where to compute, and how precisely; `precision` is what the command does by default."""
    parser.add_argument("--device", metavar="D",
                        help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")  # fmt: skip
    parser.add_argument("--precision", choices=("fp32", "bf16", "int8"),
                        help="fp32 does not depend on batch size or order; bf16 is faster, and "
                             "on a CPU int8, their BLEU within 0.2 "
                             f"(default: {precision})")  # fmt: skip


def positive(text: str) -> int:
    """The type of a flag that takes a whole number from 1."""
    value = int(text) if text.isdecimal() else 0
    if not 1 <= value <= 10**9:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 10^9, found {text}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)  # SearchOptions checks its range
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, found {text}") from None
