"""Defines the flags that several commands share, and passes their values to the library."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import InputError, SettingError

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.translator import SearchOptions

_ORIGIN = "command line"  # how messages name the source of overrides


def add_model(
    parser: argparse.ArgumentParser, nargs: str | None = None, *, exported: bool = False
) -> None:
    """Adds the argument MODEL, which is optional if `nargs` is "?".

    Args:
        exported: whether the help text mentions exported models.
    """
    or_exported = ", or a CTranslate2 directory written by nmt export" if exported else ""
    parser.add_argument("model", metavar="MODEL", type=Path, nargs=nargs,
                        help=f"model, checkpoint or run directory{or_exported}")  # fmt: skip


def add_config(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments CONFIG and KEY=VALUE, which `load_config` reads."""
    parser.add_argument("config", metavar="CONFIG", type=Path, help="configuration file")
    add_overrides(parser, "settings to override, such as training.max_steps=200")


def add_overrides(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Adds the argument KEY=VALUE, which may be given any number of times."""
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", default=[], help=meaning)


def refuse_overrides(arguments: argparse.Namespace) -> None:
    """Raises InputError if the arguments override settings of a trained model."""
    if arguments.overrides:
        raise InputError(
            "The settings of a trained model cannot be overridden. "
            f"Remove {arguments.overrides[0]}."
        )


def load_config(arguments: argparse.Namespace) -> "Config":
    """Loads the configuration that the arguments specify.

    Raises:
        InputError: the configuration is invalid.
    """
    from nmt.config import load

    return load(arguments.config, arguments.overrides, origin=_ORIGIN)


@contextmanager
def placing_settings(arguments: argparse.Namespace) -> Iterator[None]:
    """Converts a SettingError to an InputError that states where the setting is specified."""
    try:
        yield
    except SettingError as error:
        from nmt.config import place_of

        place = place_of(error.key, arguments.config, arguments.overrides, _ORIGIN)
        raise InputError(*(f"{place}: {problem}" for problem in error.problems)) from None


def add_decoding(
    parser: argparse.ArgumentParser, precision: str = "fp32 on a CPU, bf16 on a GPU"
) -> None:
    """Adds --device, --precision, and the beam search flags that `search_options` reads."""
    parser.add_argument("--beam", type=beam_size, metavar="N",
                        help="beam size; 1 is greedy search "
                             "(default: the model's decoding.beam)")  # fmt: skip
    parser.add_argument("--length-penalty", type=_number, metavar="A",
                        help="alpha in the length penalty ((5+n)/6)^alpha, from 0 to "
                             "100 (default: the model's decoding.length_penalty)")  # fmt: skip
    parser.add_argument("--batch-tokens", type=positive, metavar="N",
                        help="maximum number of tokens per batch; smaller batches need "
                             "less memory (default: 131072 on a GPU; on a CPU, 16384 for "
                             "base and larger models, up to 49152 for smaller ones)")  # fmt: skip
    add_device(parser, precision)


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Adds the flags for sampling that `search_options` reads."""
    parser.add_argument("--sample", action="store_true",
                        help="sample translations instead of using beam search; "
                             "--n-best N prints N independent samples")  # fmt: skip
    parser.add_argument("--mbr", type=beam_size, metavar="N",
                        help="minimum Bayes risk decoding: from N samples, choose the "
                             "sample with the highest mean chrF against all samples; "
                             "--n-best prints this chrF as the score")  # fmt: skip
    parser.add_argument("--temperature", type=_number, metavar="T",
                        help="sampling temperature; values below 1 favor likely tokens "
                             "(default: 1)")  # fmt: skip
    parser.add_argument("--top-k", type=positive, metavar="K",
                        help="sample from the K most likely tokens "
                             "(default: all tokens)")  # fmt: skip
    parser.add_argument("--top-p", type=_number, metavar="P",
                        help="sample from the smallest set of most likely tokens whose "
                             "total probability is at least P (default: 1)")  # fmt: skip
    parser.add_argument("--seed", type=_seed, metavar="N",
                        help="random seed; the samples for a text depend only on the text and the "
                             "seed (default: 1)")  # fmt: skip


def search_options(arguments: argparse.Namespace) -> "SearchOptions":
    """Returns the SearchOptions that the flags specify, with defaults for all other fields."""
    from nmt.translator import SearchOptions

    given = {name: value for name, value in vars(arguments).items() if value is not None}
    return SearchOptions(
        **{each.name: given[each.name] for each in fields(SearchOptions) if each.name in given}
    )


def add_device(
    parser: argparse.ArgumentParser, precision: str = "fp32 on a CPU, bf16 on a GPU"
) -> None:
    """Adds the flags --device and --precision.

    Args:
        precision: the description of the default precision in the help text.
    """
    parser.add_argument("--device", metavar="D",
                        help="device, such as cpu, cuda or cuda:1 (default: a GPU if there is "
                             "one)")  # fmt: skip
    parser.add_argument("--precision", choices=("fp32", "bf16", "int8"),
                        help="number format: with fp32, results do not depend on the size and "
                             "order of batches; bf16 (on devices with instructions for bf16) and "
                             "int8 (on a CPU) are faster and change "
                             f"BLEU by at most 0.2 (default: {precision})")  # fmt: skip


def positive(text: str, most: int = 10**9) -> int:
    """Parses the value of a flag that takes a whole number from 1 to `most`."""
    value = int(text) if text.isdecimal() else 0
    if not 1 <= value <= most:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {most:,}, not {text}")
    return value


processes = partial(positive, most=256)
beam_size = partial(positive, most=1000)  # nmt.config.MAX_BEAM, without importing pydantic


def any_path(text: str) -> Path:
    """Parses a path. Rejects an empty path, which Path would convert to the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return Path(text)


def output_file(text: str) -> Path:
    """Parses the path of an output file.

    Rejects a trailing slash, which Path would remove, and "-", which stands for standard output in
    other programs.
    """
    if text == "-":
        raise argparse.ArgumentTypeError("must be the name of a file, not -")
    if text.endswith("/"):
        raise argparse.ArgumentTypeError(f"must be a file, not the directory {text}")
    return any_path(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 10^18 - 1, not {text}")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)  # SearchOptions checks its range
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text}") from None
