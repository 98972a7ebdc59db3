"""Defines the command `nmt attention`, which plots attention weights."""

import argparse

from nmt.cli.flags import add_model, output_file
from nmt.cli.parser import Command
from nmt.cli.terminal import say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--source", required=True, metavar="TEXT", help="sentence to translate")
    parser.add_argument("--target", metavar="TEXT",
                        help="translation of the sentence (default: the model's "
                             "translation)")  # fmt: skip
    parser.add_argument("--output", type=output_file, required=True, metavar="F",
                        help="output file: an interactive page if its name ends in .html, or a "
                             "plot of all heads if it ends in .png (needs the extra "
                             "plots)")  # fmt: skip


def _run(arguments: argparse.Namespace) -> None:
    from nmt.evaluation.attention_maps import run_attention

    run_attention(arguments.model, arguments.source, arguments.target, arguments.output, say)


COMMAND = Command(
    "attention",
    "show attention weights by layer and head",
    "nmt attention runs/demo --source 'The man reads.' --output a.html",
    _add_flags,
    _run,
)
