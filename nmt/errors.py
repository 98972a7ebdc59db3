"""The one exception class that becomes an error line, and the exit statuses it may carry."""

import signal
from enum import IntEnum


class Status(IntEnum):
    """Exit status of the `nmt` command."""

    DONE = 0
    BUG = 1
    INPUT = 2  # the user's input, configuration, missing extra, lock, out of memory, lost rank
    NO_MODEL = 3  # no usable checkpoint or model
    DIVERGED = 4  # non-finite loss or gradient norm
    STORAGE = 5  # disk full, no permission, broken transfer


class InputError(Exception):
    """Something the user can mend: `nmt` prints it without a traceback and exits with `status`.

    Args:
        problems: one or more lines of the form "WHAT, WHERE, WHAT TO DO". Line ends inside a
            line are shown as spaces, so that each problem stays one line.
        status: the exit status.
    """

    def __init__(self, *problems: str, status: Status = Status.INPUT):
        self.problems = tuple(" ".join(problem.splitlines()) for problem in problems)
        self.status = status
        super().__init__("\n".join(self.problems))


class NoModelError(InputError):
    """No usable checkpoint or model: damaged, a file missing, a hash that differs (status 3)."""

    def __init__(self, *problems: str):
        super().__init__(*problems, status=Status.NO_MODEL)


class Stopped(Exception):
    """A signal ended work after it was saved; the message says where.

    Args:
        signal_number: SIGINT gives exit status 130, any other 143.
    """

    def __init__(self, signal_number: int, message: str):
        super().__init__(message)
        self.status = 130 if signal_number == signal.SIGINT else 143
