"""Defines `nmt info`, which describes the size and settings of a model or a configuration."""

import argparse
import json
from pathlib import Path

from nmt.cli.flags import add_overrides, load_config, refuse_overrides
from nmt.cli.parser import Command
from nmt.cli.terminal import print_result, say


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG|MODEL", type=Path,
                        help="configuration or model")  # fmt: skip
    add_overrides(parser, "settings to override")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _run(arguments: argparse.Namespace) -> None:
    from nmt.reporting.info import as_text, info

    if arguments.config.is_dir():
        from nmt.runs.model_directory import find_model

        refuse_overrides(arguments)
        config = find_model(arguments.config, say).config
    else:
        config = load_config(arguments)
    content = info(config)
    print_result(json.dumps(content, indent=1) if arguments.json else as_text(content))


COMMAND = Command(
    "info",
    "show the number of parameters, FLOPs, learning rate and differences from the paper",
    "nmt info configs/transformer_base.yaml",
    _add_flags,
    _run,
)
