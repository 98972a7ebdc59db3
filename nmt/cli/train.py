"""Defines the command `nmt train`, which trains a model in one process or under torchrun."""

import argparse
import os
from pathlib import Path

from nmt.cli.flags import add_config, load_config, placing_settings
from nmt.cli.parser import Command
from nmt.cli.prepare import prepare_data
from nmt.cli.terminal import print_result, say
from nmt.errors import InputError, ReportedElsewhereError, Stopped, one_line


def _run(arguments: argparse.Namespace) -> None:
    from nmt.data.prepared_data import PreparedData
    from nmt.training.begin import refuse_unfit_directory
    from nmt.training.distributed import is_under_torchrun, world_size
    from nmt.training.train import train

    world_size()  # checks torchrun's variables, which the next lines use
    try:
        config = load_config(arguments)
    except InputError as error:  # only one rank per machine reports the error
        raise error if _is_first("LOCAL_RANK") else ReportedElsewhereError(error.status) from None
    try:
        with placing_settings(arguments):
            if not is_under_torchrun() and not PreparedData.is_in(Path(config.data.directory)):
                refuse_unfit_directory(config)
                prepare_data(config)
            model = train(config, say)
    except Stopped as stopped:  # only one rank reports where the run was saved
        raise stopped if _is_first("RANK") else ReportedElsewhereError(stopped.status) from None
    if _is_first("RANK"):
        print_result(one_line(str(model)))


def _is_first(rank: str) -> bool:
    """Returns whether this process is the only one or has rank 0 under torchrun.

    Args:
        rank: the name of the environment variable in which torchrun stores the rank.
    """
    return os.environ.get(rank, "0") == "0"


COMMAND = Command(
    "train",
    "train a model, or resume a run where it stopped",
    "nmt train configs/demo.yaml training.max_steps=200",
    add_config,
    _run,
    if_out_of_memory="Raise training.micro_batches to divide each step into smaller micro-batches.",
)
