"""The exit statuses and error messages of recipe scripts."""

import errno
import os

import pytest

from nmt.cli.terminal import run_script
from nmt.errors import InputError, Status, Stopped


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (InputError("a, b, c"), Status.INPUT, "x: error: a, b, c\n"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "f"), Status.STORAGE,
         "x: error: No space left on device: f. Check the path, its permissions and the free disk "
         "space.\n"),
        (KeyboardInterrupt(), 130, ""),
        (Stopped(15, "Saved."), 143, "x: Saved.\n"),
    ],
)  # fmt: skip
def test_a_script_ends_as_a_command_does(error, status, said, capsys):
    def main() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        run_script("x", main)
    assert (ended.value.code, capsys.readouterr().err) == (status, said)
