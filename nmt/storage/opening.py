"""Opening files to read, and listing folders.

Whether a file is compressed is told by its content, not by its name.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import InputError, of_system

_DECOMPRESSORS: dict[bytes, tuple[str, Callable[..., Any]]] = {  # by a file's first bytes
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"BZh": ("bzip2", bz2.BZ2File),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMAFile),
}
_COMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {  # by suffix; the same text, the same bytes
    ".gz": lambda file: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".xz": partial(lzma.LZMAFile, mode="wb"),
}
_OTHERS = {b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
_LONGEST = 6  # bytes that tell what a file is
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError)
_BUFFER_BYTES = 1 << 18

MAX_LINE_BYTES = 10_000_000  # a file without line ends must not fill the memory


@contextlib.contextmanager
def opened(path: Path, name: str | None = None) -> Iterator[BinaryIO]:
    """A file open for reading; gzip, bzip2 and xz are decompressed, pipes and devices never.

    Args:
        name: what messages call it; its path if None.

    Raises:
        InputError: not there, a folder, or compressed by zip or zstd; while it is read, damaged or
            truncated.
        DeniedError: not permitted.
    """
    name = name or str(path)
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"no such file, {name}, correct the path") from None
    except IsADirectoryError:
        raise InputError(f"a folder, not a file, {name}, correct the path") from None
    except PermissionError as error:
        raise of_system(PermissionError(error.errno, error.strerror, name)) from None
    with file:
        kind, decompress = _compression(file, name)
        if decompress is None:
            yield file
            return
        with decompress(file) as decompressed:
            yield io.BufferedReader(_Decompressed(decompressed, kind, name), _BUFFER_BYTES)


def refuse_not_utf8(path: Path) -> None:
    """Raises InputError for a path that is not UTF-8: what reads and writes tensors takes none."""
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        raise InputError(f"a path that is not UTF-8, {path}, rename it") from None


@contextlib.contextmanager
def compressed(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    """Compresses what is written into `file` as its name's suffix says: .gz, .bz2 or .xz."""
    if compress := _COMPRESSORS.get(suffix):
        with compress(file) as compressor:
            yield compressor
    else:
        yield file


def small_file(path: Path, at_most: int) -> bytes:
    """The bytes of a file that is expected to be small.

    Instead of it there may be a pipe, on which reading would wait, or a file that fills the memory.

    Raises:
        InputError: a pipe or device, or more than `at_most` bytes.
        OSError: not there, or unreadable.
    """
    check_regular(path)
    with path.open("rb") as file:
        data = file.read(at_most + 1)
    if len(data) > at_most:
        raise InputError(f"larger than {at_most:,} bytes, {path}, name the right file")
    return data


def entries(folder: Path) -> list[Path]:
    """What is in a folder, in the order of its names; nothing if there is no such folder.

    `Path.glob` would take what it may not list, or cannot for want of descriptors, for empty.

    Raises:
        OSError: it cannot be listed.
    """
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def below(folder: Path) -> Iterator[Path]:
    """What is in a folder and in the folders below it, links not followed; as `entries`."""
    for path in entries(folder):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from below(path)


def check_regular(path: Path) -> None:
    """Refuses what cannot be read twice, or on which reading would wait: pipes, devices, sockets.

    Raises:
        InputError: it is there, and neither a regular file nor a folder.
    """
    with contextlib.suppress(OSError, ValueError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise InputError(f"a pipe or device, {path}, save its content as a file and name that")


def read_lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, plain or compressed, without their ends (\n or \r\n).

    Lines end at \n alone: the other characters that some readers take for line ends (U+2028,
    VT, a lone \r and so on) would shift one side of a corpus against the other.

    Raises:
        InputError: not there, not UTF-8, or damaged; names file and line.
    """
    number = 0
    with opened(path) as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise InputError(
                    f"a line of more than {MAX_LINE_BYTES:,} bytes, {path}:{number}, "
                    "check that this is text with one sentence a line"
                )
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                found = line[error.start : error.start + 1].hex()
                raise InputError(
                    f"not UTF-8 (byte 0x{found} at byte {error.start + 1} of the line), "
                    f"{path}:{number}, convert the file to UTF-8"
                ) from None
            yield text.removesuffix("\n").removesuffix("\r")


def count_lines(path: Path) -> int:
    """How many lines `read_lines` gives, counted without decoding them."""
    lines, last = 0, b"\n"
    with opened(path) as file:
        while block := file.read(1 << 20):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


def _compression(file: BinaryIO, name: str) -> tuple[str, Callable[..., Any] | None]:
    try:
        begin = os.pread(file.fileno(), _LONGEST, 0)  # leaves the position where it is
    except OSError:  # a pipe: its bytes come once
        return "", None
    for first, kind in _OTHERS.items():
        if begin.startswith(first):
            raise InputError(f"a {kind} file, {name}, unpack it, or pack it as gzip")
    for first, (kind, decompress) in _DECOMPRESSORS.items():
        if begin.startswith(first):
            return kind, decompress
    return "", None


class _Decompressed(io.RawIOBase):
    """The output of a decompressor, whose errors become InputError."""

    def __init__(self, file: BinaryIO, kind: str, name: str):
        self._file, self._kind, self._name = file, kind, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except OSError as error:
            if error.errno is not None:  # of the system, not of the file's format
                raise
            raise self._damaged(error) from None
        except _DAMAGE as error:
            raise self._damaged(error) from None
        buffer[: len(data)] = data
        return len(data)

    def _damaged(self, error: Exception) -> InputError:
        return InputError(
            f"damaged or truncated {self._kind} ({error}), {self._name}, copy it again"
        )
