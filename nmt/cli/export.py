"""Defines the command `nmt export`, which converts a model to the format of another program."""

import argparse
from pathlib import Path

from nmt.cli.flags import add_model
from nmt.cli.parser import Command
from nmt.cli.terminal import say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--format", choices=("ctranslate2", "huggingface"), required=True,
                        help="CTranslate2 or Hugging Face transformers")  # fmt: skip
    parser.add_argument("--output", type=Path, required=True, metavar="DIR",
                        help="directory to create")  # fmt: skip
    parser.add_argument("--quantization",
                        choices=("float32", "float16", "bfloat16", "int8", "int8_float32"),
                        help="data type of the weights, for --format ctranslate2 "
                             "(default: float32)")  # fmt: skip


def _run(arguments: argparse.Namespace) -> None:
    from nmt.export.export import export

    export(arguments.model, arguments.output, arguments.format, arguments.quantization, note=say)


COMMAND = Command(
    "export",
    "convert a model for CTranslate2 or Hugging Face",
    "nmt export runs/demo --format ctranslate2 --quantization int8 --output demo-ct2",
    _add_flags,
    _run,
    description="Writes a model with its tokenizer in the format of CTranslate2 or transformers. "
    "Before the directory is created, 40 greedy translations by the exported model (for "
    "CTranslate2, in float32) are compared with translations by nmt. The CTranslate2 directory "
    "also contains translate.py, a script that translates with only ctranslate2 and "
    "sentencepiece.",
)
