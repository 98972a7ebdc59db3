"""Defines `nmt import`, which converts a Marian checkpoint in Hugging Face's format to a model."""

import argparse
from pathlib import Path

from nmt.cli.parser import Command
from nmt.cli.terminal import say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", type=Path,
                        help="directory of a Marian checkpoint, such as opus-mt-en-de")  # fmt: skip
    parser.add_argument("--output", type=Path, required=True, metavar="DIR",
                        help="directory to create for the model")  # fmt: skip
    parser.add_argument("--source-language", metavar="L",
                        help="source language (default: taken from the name of "
                             "CHECKPOINT)")  # fmt: skip
    parser.add_argument("--target-language", metavar="L",
                        help="target language (default: taken from the name of "
                             "CHECKPOINT)")  # fmt: skip


def _run(arguments: argparse.Namespace) -> None:
    from nmt.export.marian_import import import_marian

    import_marian(
        arguments.checkpoint, arguments.output, source_language=arguments.source_language,
        target_language=arguments.target_language, note=say,
    )  # fmt: skip


COMMAND = Command(
    "import",
    "convert a Marian checkpoint, such as OPUS-MT's, to a model",
    "nmt import opus-mt-en-de --output en-de",
    _add_flags,
    _run,
    description="Writes a model directory with the weights and the tokenizers of a Marian "
    "checkpoint of Hugging Face's transformers. The checkpoint must contain config.json, "
    "model.safetensors, vocab.json, source.spm and target.spm.",
)
