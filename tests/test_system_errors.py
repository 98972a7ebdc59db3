"""The one line that an error becomes."""

import errno
import os

import pytest

from nmt.errors import Status, of_system


@pytest.mark.parametrize(
    ("number", "status", "what_to_do"),
    [
        (errno.ENOENT, Status.INPUT, "check path"),
        (errno.ENOSPC, Status.STORAGE, "room on the disk"),
        (errno.EACCES, Status.STORAGE, "check its permissions"),
        (errno.EMFILE, Status.STORAGE, "raise the limit on open files, see ulimit -n"),
    ],
)
def test_an_error_of_the_system_says_what_to_do(number: int, status: Status, what_to_do: str):
    error = of_system(OSError(number, os.strerror(number), "f"))
    assert error.status == status
    assert str(error).startswith(f"{os.strerror(number)}, f, ") and what_to_do in str(error)
