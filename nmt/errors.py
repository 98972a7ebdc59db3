"""Defines the errors that end a command with a one-line message, and their exit statuses."""

import errno
import os
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum

# Line endings, other control characters and marks that change the text direction
_UNFIT = re.compile("\r\n|[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_PATH_ERRORS = {
    errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
}  # fmt: skip


_NO_MEMORY = (  # parts of out-of-memory messages, and the software that reports them
    "can't allocate memory",  # torch on a CPU
    "Cannot allocate memory",  # the operating system
    "failed to map segment",  # the dynamic linker
    "Resource temporarily unavailable", "can't start new thread",  # sentencepiece and Python
    "failed to allocate memory",  # MKL
    "CUDA error: out of memory", "_STATUS_ALLOC_FAILED",  # the CUDA runtime, cuBLAS and cuDNN
)  # fmt: skip

Note = Callable[[str], None]  # called with each user-facing message


class Status(IntEnum):
    """The exit statuses of the `nmt` command."""

    DONE = 0
    BUG = 1  # an unexpected exception, or an export that failed its check
    INPUT = 2  # invalid input or settings, missing extra, lock held, out of memory, lost rank
    NO_MODEL = 3  # no usable checkpoint or model
    DIVERGED = 4  # non-finite loss or gradient norm
    STORAGE = 5  # disk full, no permission, broken transfer


def one_line(text: str) -> str:
    """Makes a user-facing message safe to print on one line of a terminal.

    A message may contain file names and text from untrusted sources. Characters that could end the
    line, control the terminal or change the text direction are replaced with spaces.
    """
    return _UNFIT.sub(" ", text)


def count(number: int, noun: str) -> str:
    """Returns a number with its noun, such as "1 line" or "2,000 lines"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class InputError(Exception):
    """Raised for a problem that the user can solve.

    This is the base class of all errors that are reported without a traceback.

    Args:
        problem, others: one or more messages, each about one problem. A message states the problem,
            its location and then the remedy. The function `one_line` is applied to each message.
    """

    status: int = Status.INPUT

    def __init__(self, problem: str, *others: str):
        self.problems = tuple(map(one_line, (problem, *others)))
        super().__init__(*self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)

    def naming(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the messages, in which subclasses may replace names of parameters by `names`."""
        return self.problems


class ArgumentError(InputError):
    """Raised if an argument of a function is invalid, or if arguments are mutually exclusive.

    Callers that expose a parameter under another name, such as a command-line flag, call `naming`
    to use that name in the message.

    Args:
        text: the message, with the names of parameters in braces.
        values: the values with which the empty braces in `text` are replaced from left to right, as
            in `ArgumentError("{n_best} is {}, but {beam} is {}.", 3, 2)`.
    """

    def __init__(self, text: str, *values: object):
        self._text, self._values = text, values
        super().__init__(*self.naming({}))
        self.args = (text, *values)  # unpickling calls the class with these arguments

    def naming(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the message, in which parameters are renamed according to `names`."""
        values = iter(self._values)

        def filled(brace: re.Match[str]) -> str:
            return names.get(brace[1], brace[1]) if brace[1] else str(next(values))

        return (one_line(re.sub(r"\{(\w*)\}", filled, self._text)),)


class SettingError(InputError):
    """Raised if a file that is named in a setting cannot be used.

    Args:
        key: the key of the setting, such as ("data", "train", 0).
        problems: one or more messages, each about one problem. Each message is prefixed with the
            key and a colon.
    """

    def __init__(self, key: tuple[str | int, ...], *problems: str):
        first, *others = (f"{'.'.join(map(str, key))}: {problem}" for problem in problems)
        super().__init__(first, *others)
        self.key = key
        self.args = (key, *problems)  # unpickling calls the class with these arguments


class NoModelError(InputError):
    """Raised if a checkpoint or model is missing, incomplete, damaged, or otherwise unusable."""

    status = Status.NO_MODEL


class DivergedError(InputError):
    """Raised if training diverges.

    Training diverges if a loss, gradient or weight is not finite, or if the loss remains worse than
    the loss of guessing. After this error, no checkpoint is saved.
    """

    status = Status.DIVERGED


class StorageError(InputError):
    """Raised if the disk is full, permission is denied, or a download fails."""

    status = Status.STORAGE


class ExportError(InputError):
    """Raised if an exported model does not match the original model. The export is removed."""

    status = Status.BUG


class LastingError(InputError):
    """Raised if an undamaged file cannot be used. Callers must not use an older file instead."""


class DeniedError(LastingError, StorageError):
    """Raised if permission to open a file is denied, or if too many files are open."""


class LostRankError(InputError):
    """Raised if a process of a distributed run has ended or is unreachable."""


class ReportedElsewhereError(InputError):
    """Raised to end this process silently after another process has reported the error.

    Args:
        status: the exit status of the process that reported the error.
    """

    def __init__(self, status: int):
        super().__init__("Another process of this run has reported the error. See its output.")
        self.status = status
        self.args = (status,)


class Stopped(BaseException):
    """Raised if a signal stops the program.

    Like KeyboardInterrupt, this class derives from BaseException, so that `except Exception` does
    not catch it.

    Args:
        signal_number: the number of the signal. The exit status is 130 for SIGINT, otherwise 143.
        message: the message for the user, which may state where the finished work was saved.
    """

    def __init__(self, signal_number: int, message: str):
        super().__init__(signal_number, message)
        self.status = 130 if signal_number == signal.SIGINT else 143

    def __str__(self) -> str:
        return str(self.args[1])


def of_system(error: OSError) -> InputError:
    """Converts an operating-system error to the kind of InputError that matches its cause."""
    what = str(error.strerror or error) + (f": {error.filename}" if error.filename else "")
    if is_out_of_memory(error):
        return LastingError(f"{what}. Free up memory, or use a machine with more memory.")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return DeniedError(f"{what}. Raise the limit on open files (ulimit -n).")
    if isinstance(error, PermissionError):
        return DeniedError(f"{what}. Check the permissions of the file and of its directory.")
    kind = InputError if error.errno in _PATH_ERRORS else StorageError
    return kind(f"{what}. Check the path, its permissions and the free disk space.")


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Adds the file name `what` to an OSError that contains no file name.

    For example, if the disk is full, Python raises an OSError without a file name.
    """
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            raise OSError(error.errno, os.strerror(error.errno), what) from error
        raise


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error indicates that host memory or GPU memory ran out.

    `torch.OutOfMemoryError` is recognized by its name, so that torch need not be imported. Other
    out-of-memory errors are recognized by their messages. For example, torch raises a RuntimeError
    if CUDA cannot allocate memory, and Python raises an ImportError if memory is too low to load a
    library.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, BlockingIOError):  # non-blocking I/O also raises one of these texts
        return False
    kinds = RuntimeError, OSError, ImportError
    return isinstance(error, kinds) and any(text in str(error) for text in _NO_MEMORY)


def where(error: BaseException) -> str:
    """Returns the type and location of an exception, without its message.

    The exception's message is omitted because it may quote a user's text.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{each.name} ({each.filename}:{each.lineno})" for each in frames[:-9:-1])
    return f"{type(error).__name__} in {places}"
