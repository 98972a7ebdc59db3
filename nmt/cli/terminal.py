"""What a command prints: results to standard output, all else to standard error."""

import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from nmt.errors import InputError, naming, of_system, told


def say(text: str) -> None:
    """Prints a line for a person."""
    with contextlib.suppress(OSError):  # nobody listens: no reason to stop
        print(told(text), file=sys.stderr, flush=True)


def run_script(name: str, main: Callable[[], None]) -> None:
    """Runs a recipe's script, whose errors are told and end it as those of a command do."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone
        forget_unwritable()
    except InputError as error:
        _end(name, error)
    except OSError as error:
        if error.errno is None:
            raise
        _end(name, of_system(error))


def must_not_be_torn_down() -> bool:
    """Whether this process has failed as one of a run's ranks.

    Its process groups and its GPU may wait for a lost rank for ever, and so would the interpreter
    that tears them down: after its last output such a process ends by `os._exit`.
    """
    distributed = sys.modules.get("torch.distributed")
    return bool(distributed and distributed.is_available() and distributed.is_initialized())


def _end(name: str, error: InputError) -> NoReturn:
    for problem in error.problems:
        say(f"{name}: error: {problem}")
    if must_not_be_torn_down():
        forget_unwritable()
        os._exit(error.status)
    sys.exit(error.status)


def print_result(text: object) -> None:
    """Prints a result, which a program may read; InputError if standard output is closed."""
    if sys.stdout is None:
        raise InputError("standard output is closed, this command, give it somewhere to write")
    with naming("standard output"):
        print(text)


def set_up_streams() -> None:
    """Puts the standard streams into the state that commands rely on, whatever the caller left."""
    _occupy_standard_descriptors()
    if isinstance(sys.stdout, io.TextIOWrapper):  # whatever the locale; paths as they came
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def _occupy_standard_descriptors() -> None:
    """Opens those that the caller has closed, so that no file of ours gets their numbers.

    Otherwise what a library writes to descriptor 2 could end up in a checkpoint.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stderr is None:  # libraries write to it without asking, or to standard output instead
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def flush_output() -> None:
    """Writes what results are still held back; OSError if that cannot be."""
    if sys.stdout:
        with naming("standard output"):
            sys.stdout.flush()


def forget_unwritable() -> None:
    """Drops what cannot be written, or the interpreter fails on it at its end, with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
