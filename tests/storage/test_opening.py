"""Small files that are read as a whole, and compressed files of several streams."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest

from nmt.errors import InputError
from nmt.storage.opening import opened, small_file


def test_a_small_file_is_regular_and_small(tmp_path: Path):
    path = tmp_path / "note.json"
    path.write_bytes(b"x" * 100)
    assert small_file(path, 100) == b"x" * 100
    with pytest.raises(InputError, match=r"note\.json is larger than 99 bytes"):
        small_file(path, 99)
    os.truncate(path, 1 << 40)  # a sparse file, larger than the memory
    with pytest.raises(InputError, match="larger than 99 bytes"):
        small_file(path, 99)
    path.unlink()
    os.mkfifo(path)  # opening it would block
    with pytest.raises(InputError, match="is a pipe or device"):
        small_file(path, 99)


PACKS = [gzip.compress, bz2.compress, lzma.compress]


def content(path: Path, data: bytes) -> bytes:
    path.write_bytes(data)
    with opened(path) as file:
        return file.read()


@pytest.mark.parametrize("pack", PACKS)
def test_each_stream_of_a_compressed_file_is_read_or_refused(tmp_path: Path, pack):
    """Flips a bit in each byte of the second stream, and truncates the stream before each byte."""
    text = b"The man reads a book.\n"
    first, second = pack(text), pack(text[::-1] * 9)
    whole = text + text[::-1] * 9
    assert content(tmp_path / "f", first + second + first) == whole + text
    for n in range(len(second)):
        cut, flipped = second[:n], bytearray(second)
        flipped[n] ^= 1
        for damaged in (cut, bytes(flipped)):
            try:  # a bit of gzip's header may have no effect
                found = content(tmp_path / "f", first + damaged)
            except InputError as error:
                assert "damaged or truncated" in str(error)
            else:
                assert found == whole or (not damaged and found == text)


def test_the_padding_of_xz(tmp_path: Path):
    stream = lzma.compress(b"a\n")
    for zeros in (0, 4, 8, 1 << 19):
        padded = stream + bytes(zeros)
        assert content(tmp_path / "f", padded + stream) == b"a\na\n"
        assert content(tmp_path / "f", padded) == b"a\n"
    for wrong in (stream + bytes(3), stream + bytes(5) + stream):
        with pytest.raises(InputError, match="damaged or truncated xz file"):
            content(tmp_path / "f", wrong)
