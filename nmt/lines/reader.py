"""Reads lines as they arrive and collects them in windows; a pause in the input ends a window.

Only a line feed (LF) ends a line. The input is read as bytes, so that the result does not depend on
the locale or on Python's universal newlines.
"""

import contextlib
import io
import os
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from nmt.errors import ArgumentError, InputError, naming
from nmt.storage.opening import Rest, decompressed, is_begun

PAUSE_S = 0.05  # seconds without input after which a window ends
_OLDEST_S = 0.5  # maximum duration of a window in seconds
_WINDOW_LINES = 2048
_WINDOW_CHARACTERS = 4_000_000
_PART_BYTES = 1_000_000  # longer lines are read in parts
_READ_BYTES = 1 << 16
_NAMED_LINES = 10  # maximum number of line numbers in a warning


class Readable(Protocol):
    """A binary file or a similar source of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Returns at least one byte, or b"" at the end of the input."""


@dataclass(frozen=True)
class LinePart:
    """A complete line, or a part of a line that is too long to be read at once."""

    text: str
    ends_line: bool


_HTML = ("<!doctype html", "<html")


class LineNumbers:
    """Counts lines, and keeps the first ten line numbers for a warning."""

    def __init__(self) -> None:
        self.count, self.first, self._last = 0, list[int](), 0

    def add(self, number: int) -> None:
        """Adds a line number, unless it was the last number that was added."""
        if number == self._last:
            return
        self._last = number
        self.count += 1
        if self.count <= _NAMED_LINES:
            self.first.append(number)


class LineReader:
    """Splits a stream of bytes into lines and collects them in windows.

    Attributes:
        invalid_lines: the numbers of the lines read so far in which invalid UTF-8 was replaced by
            U+FFFD.
        begins_as_html: whether the first line looks like the beginning of an HTML page.
    """

    def __init__(self, source: Readable, name: str, strict: bool, before: int = 0):
        """Prepares to read `source`, whose lines are numbered from `before` + 1 in messages."""
        self.name, self.strict = name, strict
        self.invalid_lines, self.begins_as_html = LineNumbers(), False
        self._arrivals = _Arrivals(source, name)
        self._rest = b""  # incomplete last line
        self._first = self._line = before + 1  # line numbers

    def windows(self) -> Iterator[list[LinePart]]:
        """Yields the lines in windows, in input order; a pause in the input ends a window early."""
        window: list[LinePart] = []
        size, began_s = 0, 0.0
        while True:
            data = self._arrivals.read(PAUSE_S if window else None)
            for part in self._parts(data):
                if not window:
                    size, began_s = 0, time.monotonic()
                window.append(part)
                size += len(part.text)
                if len(window) == _WINDOW_LINES or size >= _WINDOW_CHARACTERS:
                    yield window
                    window = []
            if window and (not data or time.monotonic() - began_s > _OLDEST_S):
                yield window
                window = []
            if data == b"":
                return

    def _parts(self, data: bytes | None) -> Iterator[LinePart]:
        """Yields each line that `data` completes; a very long line is yielded in several parts.

        `data` is None if the input pauses, and b"" if the input has ended.
        """
        *lines, self._rest = (self._rest + (data or b"")).split(b"\n")
        for line in lines:
            yield self._part(line.removesuffix(b"\r"), True)
        while len(self._rest) > _PART_BYTES:
            end = _end_of_part(self._rest)
            head, self._rest = self._rest[:end], self._rest[end:]
            yield self._part(head, False)
        if data == b"" and self._rest:
            yield self._part(self._rest.removesuffix(b"\r"), True)

    def _part(self, data: bytes, ends_line: bool) -> LinePart:
        """Decodes a part of the current line, and counts the line if it contains invalid UTF-8."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if self.strict:
                raise not_utf8(data[error.start], self.name, self._line) from None
            text = data.decode(errors="replace")
            self.invalid_lines.add(self._line)
        if self._line == self._first and not self.begins_as_html:
            self.begins_as_html = text.lstrip("\ufeff \t").lower().startswith(_HTML)
        self._line += ends_line
        return LinePart(text, ends_line)


class Typed:
    """Reads lines that the user types at a prompt, with line editing and history."""

    def __init__(self) -> None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # used by input()
        if isinstance(sys.stdin, io.TextIOWrapper):  # preserves the typed bytes in any locale
            sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")

    def read(self, size: int = -1, /) -> bytes:
        """Returns the next line, or b"" if the user presses Ctrl-D."""
        try:
            return f"{input('> ')}\n".encode(errors="surrogateescape")
        except EOFError:
            print(flush=True)  # ends the line of the prompt
            return b""


class Slice:
    """Reads the lines from `begin` (inclusive) to `end` (exclusive) of a file, counted from 0."""

    def __init__(self, file: BinaryIO, begin: int, end: int):
        self._file, self._left = file, end - begin
        while begin and (data := file.readline(_READ_BYTES)):  # skips the lines before `begin`
            begin -= data.endswith(b"\n")

    def read(self, size: int = -1, /) -> bytes:
        """Returns a line, a part of a long line, or b"" after the last line."""
        data = self._file.readline(_READ_BYTES) if self._left else b""
        self._left -= data.endswith(b"\n")
        return data


class _Arrivals:
    """Reads a stream's bytes as they arrive and detects pauses; decompresses gzip, bzip2 and xz.

    Pipes and terminals are read without Python's buffering, which would wait for a full buffer.
    Streams without a file descriptor, such as compressed files and bytes in memory, never pause.
    """

    def __init__(self, source: Readable, name: str):
        self.source, self.name = source, name
        self.descriptor: int | None = None
        self._begin: bytes | None = b""  # the first bytes, until compression has been detected
        if isinstance(source, io.BufferedReader | io.FileIO):
            with contextlib.suppress(OSError):
                self.descriptor = source.fileno()

    def read(self, patience_s: float | None) -> bytes | None:
        """Returns the next bytes, or b"" at the end of the stream.

        The result is None if no bytes arrive for `patience_s` seconds.
        """
        if isinstance(self.source, Typed) and patience_s is not None:
            return None  # the line is translated before the next prompt
        try:
            if self.descriptor is None:
                return self.source.read(_READ_BYTES)
            if not select.select([self.descriptor], [], [], patience_s)[0]:
                return None
            with naming(self.name):
                data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:  # another process has read from the same pipe
            return None
        return data if self._begin is None else self._begun(data)

    def _begun(self, data: bytes) -> bytes | None:
        """Returns the first bytes of the stream, decompressed if necessary.

        The result is None if more bytes are needed to detect compression.
        """
        assert self._begin is not None and isinstance(self.source, io.BufferedReader | io.FileIO)
        self._begin += data
        if data and not is_begun(self._begin):
            return None
        begin, self._begin = self._begin, None
        unpacked = decompressed(begin, Rest(begin, self.source), self.name)
        if unpacked is None:
            return begin
        self.source, self.descriptor = unpacked, None
        return unpacked.read(_READ_BYTES)


def _end_of_part(line: bytes) -> int:
    """Returns the index at which to split a long line, preferably after a space."""
    space = line.rfind(b" ", _PART_BYTES // 2, _PART_BYTES)
    if space >= 0:
        return space + 1
    end = _PART_BYTES
    while end > _PART_BYTES - 4 and line[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return end


def not_utf8(byte: int, name: str, line: int) -> InputError:
    """Returns the error for a line that is not valid UTF-8."""
    return ArgumentError(
        "{}:{} is not valid UTF-8 (byte 0x{}). Convert the text to UTF-8, or leave out {strict} to "
        "replace invalid bytes.",
        name,
        line,
        f"{byte:02x}",
    )
