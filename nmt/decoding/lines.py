"""`nmt translate`: a filter from lines to lines, in order, without delay, in bounded memory.

It reads and writes bytes, so that neither the locale nor Python decides what a line is: lines end
at LF alone. While input keeps coming, lines are gathered into a window, which the translator sorts
by length; when the input pauses, the window is translated as it is.
"""

import contextlib
import io
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol

from nmt.decoding.translator import SearchOptions, Translation, Translator, combine
from nmt.errors import ArgumentError, InputError, Note, count
from nmt.model.prepacking import Precision
from nmt.runs.run_directory import owner
from nmt.storage.atomic import new_file
from nmt.storage.opening import compressed, opened, read_lines

PAUSE_S = 0.05  # after so long without input, the window is translated
_OLDEST_S = 0.5  # no line waits for longer than this, even while input keeps coming
_WINDOW_LINES = 2048
_WINDOW_CHARACTERS = 4_000_000
_PART_BYTES = 1_000_000  # a longer line is read in parts
_READ_BYTES = 1 << 16


class TranslatesLines(Protocol):
    """The part of Translator that is used here."""

    def n_best(
        self,
        sentences: Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | Sequence[str] = "",
    ) -> list[list[Translation]]:
        """See `Translator.n_best`."""


@dataclass(frozen=True)
class LineOptions:
    """How to translate lines, and what to write for each."""

    search: SearchOptions = field(default_factory=SearchOptions)
    numbered: bool = False  # n_best lines for each: index, score, text; else only the best text
    strict: bool = False  # invalid UTF-8 is an error
    prefix: str = ""  # how every translation begins


@dataclass(frozen=True)
class LinePart:
    """A line, or a part of a very long one."""

    text: str
    ends_line: bool


def run_translate(
    model: str | Path,
    *,
    input: str | Path | None,
    output: str | Path | None,
    options: LineOptions,
    device: str | None,
    precision: Precision | None,
    note: Note,
    ensemble: Sequence[str | Path] = (),
    prefix_file: str | Path | None = None,
    alignment: str | Path | None = None,
) -> None:
    """Translates a file or standard input line by line into a file or standard output.

    The output file appears when it is complete.

    Args:
        model: a model, checkpoint or run directory.
        input, output: None: standard input and output.
        ensemble: more models, see `Translator.load`.
        prefix_file: for each line the beginning of its translation, empty where it is free.
        alignment: file for links such as "0-0 1-2", a line for each line of the output: source
            word and word of the translation, see `nmt.decoding.alignment`.
        note: is told what a person should read, a line at a time.

    Raises:
        InputError: a file that cannot be opened, options out of range, invalid UTF-8 if strict,
            fewer or more prefixes than lines.
        NoModelError: no sound model (status 3).
        BrokenPipeError: nobody reads the output any more.
    """
    if options.prefix and prefix_file is not None:
        raise ArgumentError("two prefixes for each line, {prefix} and {prefix_file}, leave one out")
    if alignment is not None:
        _check_different(output, alignment)
        options = replace(options, search=replace(options.search, align=True))
    with (
        _opened_input(input) as source,
        opened_output(output) as target,
        contextlib.nullcontext() if alignment is None else opened_output(alignment) as links,
    ):
        translator = Translator.load(
            model, device=device, precision=precision, ensemble=ensemble, note=note
        )
        translator.beam(options.search)  # refuses too small a beam before the first line is read
        name = "standard input" if input is None else str(input)
        translate_stream(
            translator, source, target, options=options, name=name, note=note,
            prefix_file=prefix_file, links=links,
        )  # fmt: skip


def translate_stream(
    translator: TranslatesLines,
    source: BinaryIO,
    target: BinaryIO,
    *,
    options: LineOptions,
    name: str = "standard input",
    note: Note = lambda message: None,
    prefix_file: str | Path | None = None,
    links: BinaryIO | None = None,
) -> None:
    """Writes the translation of each line of `source` to `target`, in order.

    Args:
        name: of the source, for messages.
        note: is told of lines with invalid UTF-8 and of lines translated in parts.
        prefix_file: see `run_translate`.
        links: receives the alignment, which `options.search.align` asks for.

    Raises:
        InputError: invalid UTF-8 and `options.strict`; a damaged compressed file; fewer or more
            prefixes than lines.
        BrokenPipeError: nobody reads `target` any more.
    """
    reader = LineReader(source, name, options.strict)
    writer = LineWriter(target, options, links)
    prefixes = _Prefixes(options.prefix, prefix_file)
    for window in reader.windows():
        texts = [part.text for part in window]
        best = translator.n_best(texts, options.search, prefix=prefixes.of(window))
        writer.write(window, best)
    prefixes.check_end()
    if reader.invalid_lines:
        found = count(reader.invalid_lines, "line")
        note(f"nmt: warning: invalid UTF-8 replaced in {found}, {name}")
    if writer.lines_in_parts:
        found = count(writer.lines_in_parts, "line")
        note(f"nmt: warning: translated in parts, longer than the model takes: {found}, {name}")


class LineReader:
    """Splits a stream of bytes into lines, and gathers lines into windows.

    Attributes:
        invalid_lines: lines so far in which invalid UTF-8 was replaced by U+FFFD.
    """

    def __init__(self, source: BinaryIO, name: str, strict: bool):
        self.name, self.strict = name, strict
        self.invalid_lines = 0
        self._arrivals = _Arrivals(source, name)
        self._rest = b""  # the beginning of a line whose end has not arrived
        self._line, self._last_invalid_line = 1, 0  # numbers

    def windows(self) -> Iterator[list[LinePart]]:
        """Windows of lines, in order: full ones, and what is at hand when the input pauses."""
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
        """The lines that `data` completes: none for None (a pause), the last for b"" (the end)."""
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
        """Decodes a part of the current line; counts the line if it is not valid UTF-8."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            if self.strict:
                raise InputError(
                    f"not UTF-8 (byte 0x{data[error.start]:02x}), {self.name}:{self._line}, "
                    "convert it to UTF-8, or let it be replaced"
                ) from None
            text = data.decode(errors="replace")
            self.invalid_lines += self._line != self._last_invalid_line
            self._last_invalid_line = self._line
        self._line += ends_line
        return LinePart(text, ends_line)


class LineWriter:
    """Writes one line for each line read, or `n_best` numbered ones.

    Attributes:
        lines_in_parts: lines so far that were too long to be translated in one part.
    """

    def __init__(self, target: BinaryIO, options: LineOptions, links: BinaryIO | None = None):
        self.target, self.options, self.links = target, options, links
        self.lines_in_parts = 0
        self._index = 0  # of the input line, from 1
        self._parts: list[list[Translation]] = []  # of a line not yet complete
        self._words = 0  # of its source, so far

    def write(self, window: Sequence[LinePart], found: Sequence[list[Translation]]) -> None:
        """Writes the lines that end in `window`; `found` are the translations of its parts."""
        complete: list[Translation] = []
        lines: list[str] = []
        for part, translations in zip(window, found, strict=True):
            self._parts.append([_later(each, self._words) for each in translations])
            self._words += len(f"{part.text}.".split()) - 1  # the last word may go on
            if part.ends_line:
                best = combine(self._parts)
                self._parts, self._words = [], 0
                self._index += 1
                self.lines_in_parts += best[0].parts > 1
                wanted = self._wanted(best)
                lines += map(self._formatted, wanted)
                complete += wanted
        self.target.write("".join(lines).encode())
        self.target.flush()
        if self.links:
            self.links.write("".join(map(_pharaoh, complete)).encode())
            self.links.flush()

    def _wanted(self, best: list[Translation]) -> list[Translation]:
        n = self.options.search.n_best if self.options.numbered else 1
        return (best + best[-1:] * (n - len(best)))[:n]

    def _formatted(self, found: Translation) -> str:
        if not self.options.numbered:
            return f"{found.text}\n"
        return f"{self._index}\t{found.score:z.6f}\t{found.text}\n"


def _later(translation: Translation, words: int) -> Translation:
    """The same, of a part of a line that comes after so many source words."""
    if not words or translation.alignment is None:
        return translation
    later = [(source + words, target) for source, target in translation.alignment]
    return replace(translation, alignment=later)


def _pharaoh(translation: Translation) -> str:
    """Its links as a line of what Moses and others call Pharaoh format."""
    return " ".join(f"{source}-{target}" for source, target in translation.alignment or []) + "\n"


class _Prefixes:
    """How the translation of each line begins: all alike, or as the lines of a file say."""

    def __init__(self, prefix: str, path: str | Path | None):
        self.path, self.prefix = path, prefix
        self._lines = iter([]) if path is None else read_lines(Path(path))
        self._begins_line = True

    def of(self, window: Sequence[LinePart]) -> str | list[str]:
        """The prefixes of the next parts; only the first part of a line has one."""
        if self.path is None and not self.prefix:
            return ""
        prefixes = []
        for part in window:
            prefixes.append(self._next() if self._begins_line else "")
            self._begins_line = part.ends_line
        return prefixes

    def _next(self) -> str:
        if self.path is None:
            return self.prefix
        line = next(self._lines, None)
        if line is None:
            raise ArgumentError(
                "fewer lines than the text, {prefix_file} {}, give one for each", self.path
            )
        return line

    def check_end(self) -> None:
        """Raises ArgumentError if there are more prefixes than lines."""
        if next(self._lines, None) is not None:
            raise ArgumentError(
                "more lines than the text, {prefix_file} {}, give one for each", self.path
            )


class _Arrivals:
    """Reads a stream's bytes as they arrive, and notices when none do.

    A pipe or terminal is read without Python's buffer, which would wait until it is full. Other
    streams (compressed files, bytes in memory) never pause.
    """

    def __init__(self, source: BinaryIO, name: str):
        self.source, self.name = source, name
        self.descriptor: int | None = None
        if isinstance(source, io.BufferedReader | io.FileIO):
            with contextlib.suppress(OSError):
                self.descriptor = source.fileno()

    def read(self, patience_s: float | None) -> bytes | None:
        """Some bytes; b"" at the end; None if none came within `patience_s` (None: no limit)."""
        try:
            if self.descriptor is None:
                return self.source.read(_READ_BYTES)
            if not select.select([self.descriptor], [], [], patience_s)[0]:
                return None
            return os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:  # another process has emptied the pipe, which it shares with us
            return None


def _end_of_part(line: bytes) -> int:
    """Where to split a line that is too long: after a space, else between characters."""
    space = line.rfind(b" ", _PART_BYTES // 2, _PART_BYTES)
    if space >= 0:
        return space + 1
    end = _PART_BYTES
    while end > _PART_BYTES - 4 and line[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return end


def _check_different(output: str | Path | None, alignment: str | Path) -> None:
    if output is not None and os.path.realpath(output) == os.path.realpath(alignment):
        raise ArgumentError("the same file, {output} and {alignment} {}, name two", alignment)


@contextlib.contextmanager
def _opened_input(path: str | Path | None) -> Iterator[BinaryIO]:
    if path is None:
        if sys.stdin is None:
            raise ArgumentError("standard input is closed, {input}, name a file")
        yield sys.stdin.buffer
        return
    with opened(Path(path)) as file:
        yield file


def check_output(path: Path) -> None:
    """Raises ArgumentError, of a parameter `output`, if no file of a person can have that name."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ArgumentError("a folder, {output} {}, name a file", path)
    if target.is_symlink():  # else it would be resolved
        raise ArgumentError("a link that leads back to itself, {output} {}, name a file", path)
    if not target.parent.is_dir():
        raise ArgumentError("no such folder, {output} {}, make {} first", path, target.parent)
    if own := owner(target):
        raise ArgumentError("among nmt's own files in {}, {output} {}, name another", own, path)


@contextlib.contextmanager
def opened_output(path: str | Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that takes its name when the block ends without an exception.

    It is compressed if its name ends in .gz, .bz2 or .xz.
    """
    if path is None:
        if sys.stdout is None:
            raise ArgumentError("standard output is closed, {output}, name a file")
        yield sys.stdout.buffer
        return
    check_output(Path(path))
    suffix = Path(path).suffix
    path = Path(os.path.realpath(path))  # a symlink stays one
    is_device = path.exists() and not path.is_file()  # or a named pipe: never renamed over
    with (
        contextlib.nullcontext(path) if is_device else new_file(path) as place,
        place.open("wb") as file,
        compressed(file, suffix) as compressor,
    ):
        yield compressor
