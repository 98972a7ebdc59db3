"""Writes the results of commands to standard output, and all messages to standard error."""

import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from nmt.errors import InputError, Stopped, naming, of_system, one_line


def say(text: str) -> None:
    """Prints a user-facing message."""
    with contextlib.suppress(OSError):  # a closed standard error must not stop the command
        print(one_line(text), file=sys.stderr, flush=True)


def run_script(name: str, main: Callable[[], None]) -> None:
    """Runs the script of a recipe; reports errors and ends the process as `nmt` commands do."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of the output has exited
        forget_unwritable()
    except Stopped as stopped:
        say(f"{name}: {stopped}")
        sys.exit(stopped.status)
    except InputError as error:
        _end(name, error)
    except OSError as error:
        if error.errno is None:
            raise
        _end(name, of_system(error))


def must_not_be_torn_down() -> bool:
    """Returns whether this process, which has failed, is a rank of a distributed run.

    A failed rank must call `os._exit` after its last output. At a normal exit, the interpreter
    would wait for operations on process groups or on the GPU, which may never finish if another
    rank was lost.
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
    """Prints a result to standard output. Raises InputError if standard output is closed."""
    if sys.stdout is None:
        raise InputError("Standard output is closed. Redirect it to a file or a pipe.")
    with naming("standard output"):
        print(text)


def set_up_streams() -> None:
    """Opens standard streams that are closed, and sets the encoding of standard output to UTF-8."""
    _occupy_standard_descriptors()
    if isinstance(sys.stdout, io.TextIOWrapper):  # keeps the bytes of paths
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def _occupy_standard_descriptors() -> None:
    """Opens the standard file descriptors that the calling process has closed.

    If descriptor 2 stayed closed, another file, such as a checkpoint, could get this descriptor,
    and libraries would write their error messages to that file.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
    if sys.stderr is None:  # libraries write to sys.stderr without checking
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def flush_output() -> None:
    """Flushes buffered results. Raises OSError if the results cannot be written."""
    if sys.stdout:
        with naming("standard output"):
            sys.stdout.flush()


def forget_unwritable() -> None:
    """Discards output that cannot be written, so that the exit status does not become 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
