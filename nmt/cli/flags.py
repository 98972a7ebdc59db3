"""Flags that several commands share, and what the library is given for them."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.translator import SearchOptions


def add_model(
    parser: argparse.ArgumentParser, nargs: str | None = None, *, exported: bool = False
) -> None:
    """MODEL; `nargs` "?" if it may be left out. `exported`: or the directory of an export."""
    or_exported = ", or one that nmt export has written for CTranslate2" if exported else ""
    parser.add_argument("model", metavar="MODEL", type=Path, nargs=nargs,
                        help=f"model, checkpoint or run directory{or_exported}")  # fmt: skip


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
                             "(default: 16384 on a CPU, up to 49152 for a model smaller "
                             "than the base model, 131072 on a GPU)")  # fmt: skip
    add_device(parser, precision)


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """To draw translations instead of searching for them, see `search_options`."""
    parser.add_argument("--sample", action="store_true",
                        help="draw translations from the model's distribution instead of "
                             "searching; with --n-best N so many independent ones")  # fmt: skip
    parser.add_argument("--mbr", type=positive, metavar="N",
                        help="draw N samples and take the one most like all of them by chrF "
                             "(minimum Bayes risk); scores of --n-best are mean "
                             "chrF")  # fmt: skip
    parser.add_argument("--temperature", type=_number, metavar="T",
                        help="of samples: below 1 likely tokens become likelier "
                             "(default: 1)")  # fmt: skip
    parser.add_argument("--top-k", type=positive, metavar="K",
                        help="draw from the K likeliest tokens (default: from all)")  # fmt: skip
    parser.add_argument("--top-p", type=_number, metavar="P",
                        help="draw from the fewest tokens that have the share P of the "
                             "probability (default: 1)")  # fmt: skip
    parser.add_argument("--seed", type=_seed, metavar="N",
                        help="of samples; a text and a seed give the same sample, whatever else "
                             "is translated (default: 1)")  # fmt: skip


def search_options(arguments: argparse.Namespace) -> "SearchOptions":
    """The fields of SearchOptions for which a flag of the same name was given."""
    from nmt.translator import SearchOptions

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
                        help="fp32 does not depend on batch size or order; bf16, and on a CPU "
                             "int8, are faster, with BLEU within 0.2 "
                             f"(default: {precision})")  # fmt: skip


def positive(text: str) -> int:
    """The type of a flag that takes a whole number from 1."""
    value = int(text) if text.isdecimal() else 0
    if not 1 <= value <= 10**9:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 10^9, found {text}")
    return value


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0, found {text}")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)  # SearchOptions checks its range
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, found {text}") from None
