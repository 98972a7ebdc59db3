"""Defines the command `nmt serve`, which serves translations over HTTP, with a web page."""

import argparse
import re
from functools import partial
from typing import TYPE_CHECKING

from nmt.cli.flags import add_device, add_model, positive, processes
from nmt.cli.parser import Command
from nmt.cli.terminal import say

if TYPE_CHECKING:
    from pathlib import Path

    from nmt.errors import Note
    from nmt.model.kernels.prepacking import Precision
    from nmt.serving.model_process import Load
    from nmt.translator import Translator

_CPU_PROCESSES = 2  # but one process on a single core; each process loads the model


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_model(parser, exported=True)
    parser.add_argument("--host", default="127.0.0.1", metavar="H",
                        help="address to listen on; 0.0.0.0 means all addresses of "
                             "this machine (default: 127.0.0.1, which only this "
                             "machine can reach)")  # fmt: skip
    parser.add_argument("--port", type=_port, default=8000, metavar="P",
                        help="port to listen on; 0 means any free port (default: "
                             "8000)")  # fmt: skip
    parser.add_argument("--allow-host", type=_host_name, action="append", metavar="NAME",
                        help="also accept requests for this host name; may be "
                             "repeated; * means any name (default: any name if other "
                             "machines can reach --host, otherwise localhost and "
                             "loopback addresses such as 127.0.0.1)")  # fmt: skip
    parser.add_argument("--queue", type=positive, default=256, metavar="N",
                        help="maximum number of waiting requests; further requests "
                             "are rejected with status 429 (default: 256)")  # fmt: skip
    parser.add_argument("--processes", type=processes, metavar="N",
                        help="number of model processes, which share the CPU cores "
                             "(default: 2 on a CPU, 1 on a GPU or for an exported "
                             "model)")  # fmt: skip
    add_device(parser)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 65535, not {text}")
    return int(text)


def _host_name(text: str) -> str:
    if not re.fullmatch(r"\*|[\w.-]+|\[[\da-fA-F:.]+\]", text, re.ASCII):
        raise argparse.ArgumentTypeError(
            "must be * or a host name without a scheme or port (for example, example.org), "
            f"not {text}"
        )
    return text


def _run(arguments: argparse.Namespace) -> None:
    from nmt.serving.limits import Limits
    from nmt.serving.server import run_serve

    run_serve(
        _loads(arguments),
        host=arguments.host,
        port=arguments.port,
        limits=Limits(queue=arguments.queue),
        note=say,
        allow_host=arguments.allow_host or (),
    )


def _loads(arguments: argparse.Namespace) -> "list[Load]":
    """Returns functions that load the model, one function per model process.

    An exported model is loaded without importing torch.
    """
    from nmt.processes import cores
    from nmt.runs.exported_model import is_exported
    from nmt.runs.run_directory import RunDirectory
    from nmt.storage import manifest

    model, device, precision = arguments.model, arguments.device, arguments.precision
    first: Load = partial(_load, model, device, precision, say)
    if is_exported(model):
        return [first] * (arguments.processes or 1)
    if not (model / manifest.NAME).is_file() and not RunDirectory(model).may_hold_models:
        from nmt.runs.model_directory import find_model  # imports torch

        find_model(model)  # raises the error before the server listens
    others: Load = partial(_load, model, device, precision, None, arguments.processes is None)
    return [first] + [others] * ((arguments.processes or min(cores(), _CPU_PROCESSES)) - 1)


def _load(
    model: "Path",
    device: str | None,
    precision: "Precision | None",
    note: "Note | None",
    on_cpu_alone: bool = False,
) -> "Translator | None":
    """Returns a translator, or None if `on_cpu_alone` is True and the device is not a CPU."""
    from nmt.translator import Translator

    if on_cpu_alone:
        from nmt.decoding.loading import choose_device

        if choose_device(device).type != "cpu":
            return None
    return Translator.load(
        model, device=device, precision=precision, note=note or (lambda text: None)
    )


COMMAND = Command(
    "serve",
    "serve translations over HTTP, with a web page",
    "nmt serve runs/demo --port 8000",
    _add_flags,
    _run,
    description="Serves the API of LibreTranslate, an API of nmt, and a web page for translating. "
    "On SIGTERM, the server answers the requests that it has accepted, and then exits. MODEL may "
    "be a CTranslate2 directory written by nmt export, which is served without torch.",
)
