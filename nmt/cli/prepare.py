"""Defines the command `nmt prepare`, which converts corpora to token shards."""

import argparse
from typing import TYPE_CHECKING

from nmt.cli.flags import add_config, load_config, placing_settings, processes
from nmt.cli.parser import Command
from nmt.cli.terminal import say

if TYPE_CHECKING:
    from nmt.config import Config


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("--processes", type=processes, metavar="N",
                        help="maximum number of processes, each of which needs up to "
                             "200 MB; the result does not depend on N "
                             "(default: one per CPU core, at most 6)")  # fmt: skip


def _run(arguments: argparse.Namespace) -> None:
    config = load_config(arguments)
    with placing_settings(arguments):
        prepare_data(config, arguments.processes)


def prepare_data(config: "Config", processes: int | None = None) -> None:
    """Prepares the data of a configuration. Fine-tuning uses the tokenizer of the initial model."""
    from nmt.data.prepare import prepare

    tokenizer = None
    if config.training.initialize_from:  # only fine-tuning needs torch here
        from nmt.runs.model_directory import tokenizer_to_fine_tune

        tokenizer = tokenizer_to_fine_tune(config)
    prepare(config, note=say, tokenizer=tokenizer, processes=processes)


COMMAND = Command(
    "prepare",
    "clean corpora, train the tokenizer and write token shards",
    "nmt prepare configs/multi30k.yaml",
    _add_flags,
    _run,
    if_out_of_memory="Lower --processes, or use a machine with more memory.",
)
