"""Small files that are read at once."""

import os
from pathlib import Path

import pytest

from nmt.errors import InputError
from nmt.storage.opening import small_file


def test_a_small_file_is_regular_and_small(tmp_path: Path):
    path = tmp_path / "note.json"
    path.write_bytes(b"x" * 100)
    assert small_file(path, 100) == b"x" * 100
    with pytest.raises(InputError, match=r"note\.json is larger than 99 bytes"):
        small_file(path, 99)
    os.truncate(path, 1 << 40)  # a sparse file, whose stated size exceeds the memory
    with pytest.raises(InputError, match="larger than 99 bytes"):
        small_file(path, 99)
    path.unlink()
    os.mkfifo(path)  # opening it would block
    with pytest.raises(InputError, match="is a pipe or device"):
        small_file(path, 99)
