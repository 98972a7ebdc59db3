"""Opens files for reading, and lists directories.

Compressed input files are recognized by their content rather than by their names.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import InputError, of_system

_DECOMPRESSORS: dict[str, Callable[..., Any]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "bzip2": lambda file: _Streams(file, bz2.BZ2Decompressor),
    "xz": lambda file: _Streams(file, lzma.LZMADecompressor, padding=4),
}
_COMPRESSORS: dict[str, Callable[[BinaryIO], Any]] = {  # by suffix; the output is deterministic
    ".gz": lambda file: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".xz": partial(lzma.LZMAFile, mode="wb"),
}
_SIGNATURES = {  # patterns for the first bytes of a file; none contains a line ending
    "gzip": rb"\x1f\x8b",
    "bzip2": rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)",
    "xz": rb"\xfd7zXZ\x00",
    "zstd": rb"\x28\xb5\x2f\xfd",
    "zip": rb"PK\x03\x04",
}
_LONGEST = 10  # number of bytes in the longest signature above
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError)
_BUFFER_BYTES = 1 << 18

MAX_LINE_BYTES = 10_000_000  # limits memory use for a file without line endings


@contextlib.contextmanager
def opened(path: Path, name: str | None = None) -> Iterator[BinaryIO]:
    """Opens a file or a pipe for reading; decompresses gzip, bzip2 and xz.

    Args:
        name: the name of the file in messages, or None to use `path`.

    Raises:
        InputError: the file does not exist, or it is a directory, a zip file or a zstd file.
            Reading from the opened file also raises InputError if compressed data is damaged or
            truncated.
        DeniedError: the user has no permission to read the file.
    """
    name = name or str(path)
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        start = "" if path.is_absolute() else ", which is relative to the current directory"
        raise InputError(f"{name} does not exist. Check the path{start}.") from None
    except IsADirectoryError:
        raise InputError(f"{name} is a directory, not a file. Check the path.") from None
    except PermissionError as error:
        raise of_system(PermissionError(error.errno, error.strerror, name)) from None
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            yield unpacked(file, name)
            return
        begin = file.raw.read(_LONGEST) or b""
        file.raw.seek(0, os.SEEK_SET)
        yield decompressed(begin, file, name) or file


def unpacked(file: io.BufferedReader, name: str) -> BinaryIO:
    """Returns a stream of a pipe's content; decompresses gzip, bzip2 and xz.

    Args:
        name: the name of the pipe in messages.
    """
    return io.BufferedReader(_Pipe(file, name))


def is_begun(begin: bytes) -> bool:
    """Returns whether `begin` is long enough for `decompressed` to recognize compressed data."""
    return len(begin) >= _LONGEST or b"\n" in begin


def decompressed(begin: bytes, file: "BinaryIO | Rest", name: str) -> BinaryIO | None:
    """Returns a stream that decompresses a file, or None if the file is not compressed.

    Args:
        begin: the first bytes of the file. The position of `file` must still be at its beginning,
            so that the next read returns these bytes again.
        name: the name of the file in messages.

    Raises:
        InputError: the compression format of the file is not supported.
    """
    kinds = (kind for kind, form in _SIGNATURES.items() if re.match(form, begin))
    kind = next(kinds, None)
    if kind is None:
        return None
    if kind not in _DECOMPRESSORS:
        raise InputError(
            f"{name} is a {kind} file, which nmt cannot read. Decompress it, or recompress it with "
            "gzip, bzip2 or xz."
        )
    return io.BufferedReader(_Decompressed(_DECOMPRESSORS[kind](file), kind, name), _BUFFER_BYTES)


def refuse_not_utf8(path: Path) -> None:
    """Raises InputError if a path is not valid UTF-8, because safetensors requires UTF-8 paths."""
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        raise InputError(
            f"The path {path} is not valid UTF-8. Rename the file or directory."
        ) from None


@contextlib.contextmanager
def compressed(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    """Yields a file object that compresses the data written to it and writes it to `file`.

    Args:
        suffix: the suffix of the file name. The suffixes .gz, .bz2 and .xz select the compression
            format. With any other suffix, the data is not compressed.
    """
    if compress := _COMPRESSORS.get(suffix):
        with compress(file) as compressor:
            yield compressor
    else:
        yield file


def small_file(path: Path, at_most: int) -> bytes:
    """Returns the content of a file, which must not have more than `at_most` bytes.

    Pipes are rejected because reading from them may block. Larger files are rejected because memory
    might run out.

    Raises:
        InputError: the file is a pipe or device, or has more than `at_most` bytes.
        OSError: the file does not exist or cannot be read.
    """
    check_regular(path)
    with path.open("rb") as file:
        data = file.read(at_most + 1)
    if len(data) > at_most:
        raise InputError(
            f"{path} is larger than {at_most:,} bytes, the maximum for this kind of file. Check "
            "that it is the right file."
        )
    return data


def entries(folder: Path) -> list[Path]:
    """Returns the sorted paths in a directory, or an empty list if there is no such directory.

    Unlike `Path.glob`, this function raises an error if a directory cannot be listed.

    Raises:
        OSError: the directory cannot be listed.
    """
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def below(folder: Path) -> Iterator[Path]:
    """Yields all paths in a directory and its subdirectories, without following symbolic links."""
    for path in entries(folder):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from below(path)


def check_regular(path: Path) -> None:
    """Rejects pipes, devices and sockets, which cannot be read twice and may block.

    Raises:
        InputError: `path` exists but is neither a regular file nor a directory.
    """
    with contextlib.suppress(OSError, ValueError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise InputError(
                f"{path} is a pipe or device, but must be a file. Save its content as a file."
            )


def read_lines(path: Path) -> Iterator[str]:
    r"""Yields the lines of a UTF-8 file, plain or compressed, without \n or \r\n.

    Only \n ends a line. Some programs also treat other characters, such as U+2028, VT or a lone \r,
    as line endings. Splitting lines at these other characters could misalign the two sides of a
    corpus. A byte order mark at the beginning of the file is removed.

    Raises:
        InputError: the file does not exist or is damaged, or a line is too long or not valid UTF-8.
            If the problem is in a line, the message contains the line number.
    """
    number = 0
    with opened(path) as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise InputError(
                    f"{path}:{number}: The line has more than {MAX_LINE_BYTES:,} bytes. Check that "
                    "the file is text with one sentence per line."
                )
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                found = line[error.start : error.start + 1].hex()
                raise InputError(
                    f"{path}:{number}: The line is not UTF-8 (byte 0x{found} at position "
                    f"{error.start + 1}). Convert the file to UTF-8."
                ) from None
            if number == 1:
                text = text.removeprefix("\ufeff")
            yield text.removesuffix("\n").removesuffix("\r")


def count_lines(path: Path) -> int:
    """Returns the number of lines that `read_lines` yields, without decoding the lines."""
    lines, last = 0, b"\n"
    with opened(path) as file:
        while block := file.read(1 << 20):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


class Rest:
    """A stream that consists of the bytes in `begin`, followed by the rest of a pipe.

    The bytes `begin` have already been read from the pipe.
    """

    def __init__(self, begin: bytes, file: io.BufferedReader | io.FileIO):
        self._begin = begin
        self._read = file.read if isinstance(file, io.FileIO) else file.read1

    def read(self, size: int) -> bytes:
        """Returns up to `size` bytes, or b"" at the end of the pipe."""
        data, self._begin = self._begin[:size], self._begin[size:]
        return data or self._read(size) or b""


class _Pipe(io.RawIOBase):
    """A stream that reads a pipe on demand and decompresses the data if necessary."""

    def __init__(self, file: io.BufferedReader, name: str):
        self._file, self._name = file, name
        self._stream: BinaryIO | Rest | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._stream is None:
            begin = b""
            while not is_begun(begin) and (data := self._file.read1(_LONGEST)):
                begin += data
            rest = Rest(begin, self._file)
            self._stream = decompressed(begin, rest, self._name) or rest
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Streams:
    """Decompresses the concatenated streams of a bzip2 or xz file.

    `BZ2File` and `LZMAFile` ignore invalid data after the first stream, so that text in a damaged
    second or later stream would be lost without an error.

    Args:
        new: a function that returns a decompressor for one stream.
        padding: the number of zero bytes after a stream must be a multiple of this number. Use 0
            if the format does not allow padding.
    """

    def __init__(
        self,
        file: "BinaryIO | Rest",
        new: "Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]",
        padding: int = 0,
    ):
        self._file, self._new, self._padding = file, new, padding
        self._stream = new()

    def read(self, size: int) -> bytes:
        """Returns up to `size` bytes, or b"" at the end of the file."""
        while True:
            packed = b""
            if self._stream.eof:
                packed = self._next_stream()
                if not packed:
                    return b""
                self._stream = self._new()
            elif self._stream.needs_input:
                packed = self._file.read(_BUFFER_BYTES)
                if not packed:
                    raise EOFError("it ends within a stream")
            if data := self._stream.decompress(packed, size):
                return data

    def _next_stream(self) -> bytes:
        """Returns the first bytes of the next stream, or b"" at the end of the file."""
        data, zeros = self._stream.unused_data or self._file.read(_BUFFER_BYTES), 0
        while self._padding and data.startswith(b"\0"):
            stream = data.lstrip(b"\0")
            zeros += len(data) - len(stream)
            data = stream or self._file.read(_BUFFER_BYTES)
        if self._padding and zeros % self._padding:
            raise lzma.LZMAError("its padding has a wrong length")
        return data


class _Decompressed(io.RawIOBase):
    """A stream of decompressed bytes, which raises InputError if the compressed data is damaged."""

    def __init__(self, file: "BinaryIO | _Streams", kind: str, name: str):
        self._file, self._kind, self._name = file, kind, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except OSError as error:
            if error.errno is not None:  # an operating-system error, not damaged data
                raise
            raise self._damaged(error) from None
        except _DAMAGE as error:
            raise self._damaged(error) from None
        buffer[: len(data)] = data
        return len(data)

    def _damaged(self, error: Exception) -> InputError:
        return InputError(
            f"{self._name} is a damaged or truncated {self._kind} file ({error}). "
            "Download or copy it again."
        )
