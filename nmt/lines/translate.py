"""`nmt translate`: a filter from lines to lines, in order, without delay, in bounded memory.

While input keeps coming, lines are gathered into a window, which the translator sorts by length;
when the input pauses, the window is translated as it is.
"""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from tqdm import tqdm

from nmt.decoding.translation import Term
from nmt.documents.markup import Form, Markup
from nmt.documents.passages import Passage, Progress, Translates, translate_passages
from nmt.errors import ArgumentError, Note, count, naming
from nmt.lines.reader import LinePart, LineReader, Readable, Slice, Typed, not_utf8
from nmt.lines.writer import LineOptions, LineWriter
from nmt.model.kernels.prepacking import Precision
from nmt.runs.run_directory import owner
from nmt.storage.atomic import new_file
from nmt.storage.opening import compressed, count_lines, opened, read_lines
from nmt.translator import Translator

_TOLD = 10  # numbers of lines that a warning names

Shard = tuple[int, int]  # (i, n): the i-th, counted from 1, of n parts of the input


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
    shard: Shard | None = None,
    shortlist: bool = False,
) -> None:
    """Translates a file or standard input line by line into a file or standard output.

    The output file appears when it is complete. A person at a terminal is asked for each line.

    Args:
        model: a model, checkpoint or run directory.
        input, output: None: standard input and output.
        ensemble: more models, see `Translator.load`.
        prefix_file: for each line the beginning of its translation, empty where it is free.
        alignment: file for links such as "0-0 1-2", a line for each line of the output: source
            word and word of the translation, see `nmt.decoding.alignment`; "-": with `jsonl`, in
            its lines alone.
        shard: translates this part of the input's lines as if it were all of them; the outputs of
            all parts, one after the other, are the output for the whole.
        shortlist: see `Translator.load`.
        note: is told what a person should read, a line at a time.

    Raises:
        InputError: a file that cannot be opened, options out of range, invalid UTF-8 if strict,
            fewer or more prefixes than lines.
        NoModelError: no sound model (status 3).
        BrokenPipeError: nobody reads the output any more.
    """
    _check_together(options, input, output, prefix_file, alignment, shard)
    if alignment is not None:
        options = replace(options, search=replace(options.search, align=True))
    links_path = None if str(alignment) == "-" else alignment
    is_typed = input is None and output is None and _is_terminal() and options.format == "text"
    with (
        _reader_of_links(output, links_path),
        contextlib.nullcontext(Typed()) if is_typed else _opened_input(input) as stream,
        opened_output(output) as target,
        contextlib.nullcontext() if links_path is None else opened_output(links_path) as links,
    ):
        source: Readable = stream
        translator = Translator.load(
            model, device=device, precision=precision, ensemble=ensemble, shortlist=shortlist,
            note=note,
        )  # fmt: skip
        translator.beam(options.search)  # refuses too small a beam before the first line is read
        name = "standard input" if input is None else str(input)
        if options.format in ("html", "xml"):
            _translate_markup(translator, source, target, options, name, note)
            return
        is_shown = output is not None and sys.stderr.isatty()
        lines = None if input is None or not (shard or is_shown) else _count_lines(Path(input))
        begin, end = _range(shard, lines)
        if shard:
            source = Slice(source, begin, end or 0)
        if is_typed:
            note("nmt: a line in, its translation out; Ctrl-D ends")
        with tqdm(
            desc="translated", unit=" lines", total=end and end - begin, leave=False,
            disable=not is_shown,
        ) as bar:  # fmt: skip
            translate_stream(
                translator, source, target, options=options, name=name, note=note,
                prefix_file=prefix_file, links=links, lines=(begin, end), bar=bar,
            )  # fmt: skip


def translate_stream(
    translator: Translates,
    source: Readable,
    target: BinaryIO,
    *,
    options: LineOptions,
    name: str = "standard input",
    note: Note = lambda message: None,
    prefix_file: str | Path | None = None,
    links: BinaryIO | None = None,
    lines: tuple[int, int | None] = (0, None),
    bar: "tqdm[Any] | None" = None,
) -> None:
    """Writes the translation of each line of `source` to `target`, in order.

    Args:
        name: of the source, for messages.
        note: is told of lines with invalid UTF-8, of lines translated in parts, and of those
            whose translation looks wrong.
        prefix_file: see `run_translate`.
        links: receives the alignment, which `options.search.align` asks for.
        lines: which ones of a longer text `source` gives, begin and end; None: to its end.
        bar: shows how many are done.

    Raises:
        InputError: invalid UTF-8 and `options.strict`; a damaged compressed file; fewer or more
            prefixes than lines.
        BrokenPipeError: nobody reads `target` any more.
    """
    reader = LineReader(source, name, options.strict, before=lines[0])
    writer = LineWriter(target, options, links, before=lines[0])
    prefixes = _Prefixes(options.prefix, prefix_file, lines)
    passages = _Passages(translator, options)
    for window in reader.windows():
        some = passages.of(window)
        found = translate_passages(
            translator, some, options.search, prefixes=prefixes.of(window),
            progress=_progress(bar, window, some),
        )  # fmt: skip
        writer.write(
            window,
            [
                (passage.joined(each), any(best[0].parts > 1 for best in each))
                for passage, each in zip(some, found, strict=True)
            ],
        )
    prefixes.check_end()
    if bar is not None:
        bar.close()
    if reader.invalid_lines:
        _warn(note, "invalid UTF-8 replaced in", reader.invalid_lines, name)
    if writer.lines_in_parts:
        told = "translated in parts, longer than the model takes:"
        _warn(note, told, writer.lines_in_parts, name)
    _warn_of_doubtful(note, writer.doubtful, name)
    _warn_of_unmet_terms(note, writer.unmet_terms, name)


def _warn(note: Note, what: str, lines: int, name: str) -> None:
    note(f"nmt: warning: {what} {count(lines, 'line')}, {name}")


def _warn_of_doubtful(note: Note, lines: list[int], name: str) -> None:
    if not lines:
        return
    numbers = ", ".join(map(str, lines[:_TOLD])) + (", ..." if len(lines) > _TOLD else "")
    what = "translations that repeat themselves or are far longer than their source:"
    note(f"nmt: warning: {what} {count(len(lines), 'line')} ({numbers}), {name}")


def _warn_of_unmet_terms(note: Note, unmet: list[tuple[int, Term]], name: str) -> None:
    """Names each line and term once: the user has to correct all of them."""
    for line, (source, target) in dict.fromkeys(unmet):
        note(
            f"nmt: warning: Line {line} of {name}: The translation does not contain "
            f'"{target}" for "{source}".'
        )


def _progress(
    bar: "tqdm[Any] | None", window: Sequence[LinePart], passages: Sequence[Passage]
) -> Progress | None:
    """Moves the bar on by a window's lines, while its sentences are translated."""
    if bar is None:
        return None
    lines = sum(part.ends_line for part in window)
    sentences = sum(len(passage.sentences) for passage in passages)
    begin, done = bar.n, 0

    def progress(parts: int) -> None:
        nonlocal done
        done = min(done + parts, sentences)
        bar.update(begin + lines * done // max(sentences, 1) - bar.n)

    return progress


class _Passages:
    """The parts of lines as passages: each part of a line has the tag that the line begins with."""

    def __init__(self, translator: Translates, options: LineOptions):
        self.tokenizer = translator.tokenizer
        self.language = translator.config.data.source_language if options.document else None
        self._tag = ""

    def of(self, window: Sequence[LinePart]) -> list[Passage]:
        """The next ones."""
        passages = []
        for part in window:
            passage = Passage(part.text, self.tokenizer, self._tag, self.language)
            self._tag = "" if part.ends_line else passage.tag
            passages.append(passage)
        return passages


def _translate_markup(
    translator: Translator,
    source: Readable,
    target: BinaryIO,
    options: LineOptions,
    name: str,
    note: Note,
) -> None:
    """Writes `source`, which is HTML or XML, in translation; it is read as a whole."""
    data = source.read()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if options.strict:
            line = data.count(b"\n", 0, error.start) + 1
            raise not_utf8(data[error.start], name, line) from None
        text = data.decode(errors="replace")
        lines = sum("\ufffd" in line for line in text.split("\n"))
        _warn(note, "invalid UTF-8 replaced in", lines, name)
    form: Form = "xml" if options.format == "xml" else "html"
    markup = Markup(text, translator.tokenizer, translator.config.data.source_language, form)
    search = replace(options.search, align=True)
    found = translator.translate(markup.sentences, search)
    target.write(markup.written(found).encode())
    target.flush()
    _warn_of_doubtful(note, markup.doubtful_lines(found), name)
    _warn_of_unmet_terms(note, markup.unmet_terms(found), name)


def _check_together(
    options: LineOptions,
    input: str | Path | None,
    output: str | Path | None,
    prefix_file: str | Path | None,
    alignment: str | Path | None,
    shard: Shard | None,
) -> None:
    """Raises ArgumentError for options that do not go together."""
    if options.prefix and prefix_file is not None:
        raise ArgumentError("two prefixes for each line, {prefix} and {prefix_file}, leave one out")
    if str(alignment) == "-" and options.format != "jsonl":
        raise ArgumentError("only in JSON, {alignment} -, add {format} jsonl or name a file")
    read = [("prefix_file", prefix_file), *([("input", input)] if shard else [])]
    if output is not None:
        check_output(Path(output), read=read)
    if alignment is not None and str(alignment) != "-":
        read = [("output", output), ("input", input), ("prefix_file", prefix_file)]
        check_output(Path(alignment), "alignment", read)
    if options.format in ("html", "xml"):
        for name, value in (
            ("n_best", options.numbered), ("prefix", options.prefix), ("shard", shard),
            ("prefix_file", prefix_file), ("alignment", alignment), ("document", options.document),
        ):  # fmt: skip
            if value:
                raise ArgumentError(
                    f"not for markup, {{format}} {{}} with {{{name}}}, leave one out",
                    options.format,
                )
    if shard and (input is None or (Path(input).exists() and not Path(input).is_file())):
        raise ArgumentError(
            "lines are counted before they are read, {shard} {}, name a file as {input}",
            "{}/{}".format(*shard),
        )


def _is_terminal() -> bool:
    """Whether a person types, and reads what is written."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _count_lines(path: Path) -> int | None:
    """How many lines a file has; None if it can be read but once."""
    return count_lines(path) if path.is_file() else None


def _range(shard: Shard | None, lines: int | None) -> tuple[int, int | None]:
    """Which lines are translated, begin and end, counted from 0."""
    if shard is None or lines is None:
        return 0, lines
    i, n = shard
    return lines * (i - 1) // n, lines * i // n


class _Prefixes:
    """How the translation of each line begins: all alike, or as the lines of a file say."""

    def __init__(self, prefix: str, path: str | Path | None, lines: tuple[int, int | None]):
        self.path, self.prefix = path, prefix
        of_file: Iterator[str] = iter([]) if path is None else read_lines(Path(path))
        self._lines = islice(of_file, *lines)
        self._begins_line = True

    def of(self, window: Sequence[LinePart]) -> list[str] | None:
        """The prefixes of the next parts; only the first part of a line has one."""
        if self.path is None and not self.prefix:
            return None
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


@contextlib.contextmanager
def _reader_of_links(output: str | Path | None, alignment: str | Path | None) -> Iterator[None]:
    """Tells if nobody reads the alignment to its end: the output's file would be missing silently.

    Where the output is a pipe itself, its reader may have gone, which is its right.
    """
    try:
        yield
    except BrokenPipeError:
        if output is None or _is_stream(Path(output)):
            raise
        raise ArgumentError(
            "not read to its end, {alignment} {}, nothing was written: name a file", alignment
        ) from None


@contextlib.contextmanager
def _opened_input(path: str | Path | None) -> Iterator[BinaryIO]:
    if path is None:
        if sys.stdin is None:
            raise ArgumentError("standard input is closed, {input}, name a file")
        yield sys.stdin.buffer
        return
    with opened(Path(path)) as file:
        yield file


def check_output(
    path: Path, name: str = "output", read: Iterable[tuple[str, str | Path | None]] = ()
) -> None:
    """Raises ArgumentError if no file of a person can have that path, or if it is read from.

    Args:
        name: of the parameter that the path comes from.
        read: other parameters and their files, which must not be replaced; None: not given.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ArgumentError(f"a folder, {{{name}}} {{}}, name a file", path)
    if target.is_symlink():  # else it would be resolved
        raise ArgumentError(f"a link that leads back to itself, {{{name}}} {{}}, name a file", path)
    if not target.parent.is_dir():
        raise ArgumentError(
            f"no such folder, {{{name}}} {{}}, make {{}} first", path, target.parent
        )
    if own := owner(target):
        raise ArgumentError(
            f"among nmt's own files in {{}}, {{{name}}} {{}}, name another", own, path
        )
    for other, file in read:
        if file is not None and os.path.realpath(file) == str(target):
            raise ArgumentError(f"the same file, {{{other}}} and {{{name}}} {{}}, name two", path)


@contextlib.contextmanager
def opened_output(path: str | Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that takes its name when the block ends without an exception.

    It is compressed if its name ends in .gz, .bz2 or .xz.
    """
    if path is None:
        if sys.stdout is None:
            raise ArgumentError("standard output is closed, {output}, name a file")
        with naming("standard output"):
            yield sys.stdout.buffer
        return
    path = Path(path)
    check_output(path)
    whole = Path(os.path.realpath(path))  # a symlink stays one
    with (
        naming(str(path)),
        contextlib.nullcontext(path) if _is_stream(path) else new_file(whole) as place,
        place.open("wb") as file,
        compressed(file, path.suffix) as compressor,
    ):
        yield compressor


def _is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe, perhaps without a name, such as /dev/stdout: written to.

    All others are replaced by a file that is complete.
    """
    return path.exists() and not path.is_file()
