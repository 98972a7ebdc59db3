"""The errors that end a command with one line, each class with its exit status."""

import errno
import os
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum

# Line ends, other control characters, marks that turn the direction in which text is read
_UNFIT = re.compile("\r\n|[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_PATH_ERRORS = {
    errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
}  # fmt: skip


# in messages of torch: of a CPU, of the CUDA runtime, of cuBLAS, cuDNN and their like
_NO_MEMORY = ("can't allocate memory", "CUDA error: out of memory", "_STATUS_ALLOC_FAILED")

Note = Callable[[str], None]  # is told what a person should read, a line at a time


class Status(IntEnum):
    """Exit status of the `nmt` command."""

    DONE = 0
    BUG = 1  # or an export that failed its own check
    INPUT = 2  # the user's input, configuration, missing extra, lock, out of memory, lost rank
    NO_MODEL = 3  # no usable checkpoint or model
    DIVERGED = 4  # non-finite loss or gradient norm
    STORAGE = 5  # disk full, no permission, broken transfer


def told(text: str) -> str:
    """Text made fit for one line on a terminal; everything told to a person passes through here.

    What could end the line, command the terminal or turn the reading direction becomes a space:
    names of files, and what is quoted of their content, may come from anywhere.
    """
    return _UNFIT.sub(" ", text)


def count(number: int, noun: str) -> str:
    """A number of things: "1 line", "2,000 lines"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class InputError(Exception):
    """Something the user can mend, and the base of all that `nmt` says without a traceback.

    Args:
        problems: one or more lines of the form "WHAT, WHERE, WHAT TO DO", see `told`.
    """

    status: int = Status.INPUT

    def __init__(self, problem: str, *others: str):
        self.problems = tuple(map(told, (problem, *others)))
        super().__init__(*self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)

    def naming(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """The problems, with parameters called as `names` has it, or else by their own names."""
        return self.problems


class ArgumentError(InputError):
    """A wrong argument of a function, or arguments that do not go together.

    Whoever offers the function under other names says the problem with them: a command, its flags.

    Args:
        text: the line, with parameters' names in braces.
        values: what fills its empty braces, in order:
            ArgumentError("more than beam {}, {n_best} {}, widen {beam}", 2, 3)
    """

    def __init__(self, text: str, *values: object):
        self._text, self._values = text, values
        super().__init__(*self.naming({}))
        self.args = (text, *values)  # what a copy in another process is made from

    def naming(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """The line with other names for parameters, such as flags; those not in `names` remain."""
        values = iter(self._values)

        def filled(brace: re.Match[str]) -> str:
            return names.get(brace[1], brace[1]) if brace[1] else str(next(values))

        return (told(re.sub(r"\{(\w*)\}", filled, self._text)),)


class NoModelError(InputError):
    """No usable checkpoint or model: damaged, a file missing, a hash that differs."""

    status = Status.NO_MODEL


class DivergedError(InputError):
    """Training diverged, a loss, gradient or weight is not finite: stopped before it is saved."""

    status = Status.DIVERGED


class StorageError(InputError):
    """The disk is full, permission is missing, or a transfer broke."""

    status = Status.STORAGE


class ExportError(InputError):
    """An exported model does not do what ours does, and is not kept."""

    status = Status.BUG


class LastingError(InputError):
    """The file that was read is not damaged, so an older one must not be used in its place."""


class DeniedError(LastingError, StorageError):
    """A file is there, but may not be opened: permission is missing, or descriptors are."""


class LostRankError(InputError):
    """A process of a distributed run is no longer there."""


class ToldElsewhereError(InputError):
    """Another process of the run has reported the error, and this one ends silently.

    Args:
        status: the exit status of the one that has said it.
    """

    def __init__(self, status: int):
        super().__init__("another process of this run has said why it ends, its output, see there")
        self.status = status
        self.args = (status,)


class Stopped(BaseException):
    """A signal ended the work after it was saved; the message says where.

    Like KeyboardInterrupt no `Exception`: it may be raised anywhere, also where a library's
    exceptions are turned into error lines.

    Args:
        signal_number: SIGINT gives exit status 130, any other 143.
    """

    def __init__(self, signal_number: int, message: str):
        super().__init__(signal_number, message)
        self.status = 130 if signal_number == signal.SIGINT else 143

    def __str__(self) -> str:
        return str(self.args[1])


def of_system(error: OSError) -> InputError:
    """The operating system's error as a line: a wrong path is bad input, the rest is storage."""
    what = f"{error.strerror or error}, {error.filename or 'while reading or writing'}"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return DeniedError(f"{what}, raise the limit on open files, see ulimit -n")
    if isinstance(error, PermissionError):
        return DeniedError(f"{what}, check its permissions and those of its folder")
    kind = InputError if error.errno in _PATH_ERRORS else StorageError
    return kind(f"{what}, check path, permission and room on the disk")


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Says what an OSError of the block is about if it does not, as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            raise OSError(error.errno, os.strerror(error.errno), what) from error
        raise


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the host or on a GPU.

    torch is not imported to ask for its class `OutOfMemoryError`, which its own allocator raises.
    What CUDA and its libraries fail to allocate for themselves is a RuntimeError.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _NO_MEMORY)


def where(error: BaseException) -> str:
    """An exception without its message, which may quote a text."""
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{each.name} ({each.filename}:{each.lineno})" for each in frames[:-9:-1])
    return f"{type(error).__name__} in {places}"
