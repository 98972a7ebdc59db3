"""`nmt train`: a run, on one process or under torchrun."""

import argparse
import os

from nmt.cli.flags import add_config, load_config
from nmt.cli.parser import Command
from nmt.cli.terminal import print_result, say
from nmt.errors import InputError, Stopped, ToldElsewhereError, told


def run(arguments: argparse.Namespace) -> None:
    from nmt.training.train import train

    try:
        config = load_config(arguments)
    except InputError as error:  # torchrun's processes all read it: one a machine tells
        raise error if _is_first("LOCAL_RANK") else ToldElsewhereError(error.status) from None
    try:
        model = train(config, say)
    except Stopped as stopped:  # all of them know where it was saved
        raise stopped if _is_first("RANK") else ToldElsewhereError(stopped.status) from None
    if _is_first("RANK"):
        print_result(told(str(model)))


def _is_first(rank: str) -> bool:
    """Whether this is the only process, or the one that torchrun calls 0."""
    return os.environ.get(rank, "0") == "0"


COMMAND = Command(
    "train",
    "train a model, or resume a run where it stopped",
    "nmt train configs/demo.yaml training.max_steps=200",
    add_config,
    run,
    if_out_of_memory="raise training.micro_batches, so that slots are smaller",
)
