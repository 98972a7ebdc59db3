"""The one exception class that becomes an error line, and the exit statuses it may carry."""

import errno
import re
import signal
from enum import IntEnum

# Line ends, other control characters, marks that turn the direction in which text is read
_UNFIT = re.compile("\r\n|[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_PATH_ERRORS = {
    errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
}  # fmt: skip


class Status(IntEnum):
    """Exit status of the `nmt` command."""

    DONE = 0
    BUG = 1
    INPUT = 2  # the user's input, configuration, missing extra, lock, out of memory, lost rank
    NO_MODEL = 3  # no usable checkpoint or model
    DIVERGED = 4  # non-finite loss or gradient norm
    STORAGE = 5  # disk full, no permission, broken transfer


def told(text: str) -> str:
    """Text as a line for a person: every one passes through here.

    What could end the line, command the terminal or turn the reading direction becomes a space:
    names of files, and what is quoted of their content, may come from anywhere.
    """
    return _UNFIT.sub(" ", text)


def count(number: int, noun: str) -> str:
    """A number of things: "1 line", "2,000 lines"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class InputError(Exception):
    """Something the user can mend: `nmt` prints it without a traceback and exits with `status`.

    Args:
        problems: one or more lines of the form "WHAT, WHERE, WHAT TO DO", see `told`.
            Without any, nothing is printed: another process of the run has said it.
        status: the exit status.
    """

    def __init__(self, *problems: str, status: Status = Status.INPUT):
        self.problems = tuple(map(told, problems))
        self.status = status
        super().__init__("\n".join(self.problems))


class NoModelError(InputError):
    """No usable checkpoint or model: damaged, a file missing, a hash that differs (status 3)."""

    def __init__(self, *problems: str):
        super().__init__(*problems, status=Status.NO_MODEL)


class Stopped(BaseException):
    """A signal ended work after it was saved; the message says where, if it is for this process.

    No `Exception`, as KeyboardInterrupt is none: it may be raised anywhere, also where those of a
    library become an error line.

    Args:
        signal_number: SIGINT gives exit status 130, any other 143.
    """

    def __init__(self, signal_number: int, message: str):
        super().__init__(message)
        self.status = 130 if signal_number == signal.SIGINT else 143


def of_system(error: OSError) -> InputError:
    """The operating system's error as a line: status 2 for a wrong path, 5 for the rest."""
    where = error.filename or "while reading or writing"
    what_to_do = "check path, permission and room on the disk"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        what_to_do = "raise the limit on open files, see ulimit -n"
    return InputError(
        f"{error.strerror or error}, {where}, {what_to_do}",
        status=Status.INPUT if error.errno in _PATH_ERRORS else Status.STORAGE,
    )


def is_out_of_memory(error: BaseException) -> bool:
    """torch has a class for a GPU's memory alone, and is not imported just to ask."""
    is_gpu = type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or is_gpu or "can't allocate memory" in str(error)
