"""Implements `nmt translate`, which translates a stream line by line in bounded memory.

Lines are collected in windows, and the translator sorts the sentences of each window by length. A
window is translated when it is full or when the input pauses.
"""

import codecs
import contextlib
import io
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tqdm import tqdm

from nmt.decoding.ctranslate2_search import refuse_search
from nmt.decoding.engine import Progress
from nmt.decoding.glossary import Glossary
from nmt.decoding.translation import Term
from nmt.documents.doubtful import is_doubtful
from nmt.documents.markup import Form, Markup
from nmt.documents.passages import Passage, Translates, translate_passages
from nmt.errors import ArgumentError, InputError, Note, count
from nmt.lines.files import check_output, input_file, is_stream, opened_input, opened_output
from nmt.lines.reader import LineNumbers, LinePart, LineReader, Readable, Slice, Typed, not_utf8
from nmt.lines.writer import LineOptions, LineWriter, TranslatedWindow
from nmt.runs.exported_model import is_exported, read_exported_config
from nmt.storage.opening import count_lines, read_lines, unpacked
from nmt.translator import SearchOptions, Translator

if TYPE_CHECKING:
    from nmt.model.kernels.prepacking import Precision

_UNSPLIT = (
    "with several sentences, and each line was translated as a single sentence. To translate the "
    "sentences separately, use --document (in Python, document=True)"
)
_INVALID = "with invalid UTF-8, which was replaced by U+FFFD. Convert the text to UTF-8"
_IN_PARTS = "above the maximum length, translated in parts"
_LOST = "with a sentence whose translation is empty"
_SHOWN = 60  # maximum number of characters of a glossary term in a warning
_DOUBTFUL = "whose translation repeats itself or is far longer than the source"

# the declaration in XML, or in an HTML page, which must contain it in its first 1,024 bytes
_ENCODING = re.compile(rb"<(?:\?xml|meta)\s[^>]*(?:encoding|charset)\s*=\s*[\"']?([\w-]+)", re.I)
_DECLARED_BYTES = 1024

Shard = tuple[int, int]  # (i, n): part i of the n parts of the input, counted from 1


def run_translate(
    model: str | Path,
    *,
    input: str | Path | None,
    output: str | Path | None,
    options: LineOptions,
    device: str | None,
    precision: "Precision | None",
    note: Note,
    ensemble: Sequence[str | Path] = (),
    prefix_file: str | Path | None = None,
    alignment: str | Path | None = None,
    shard: Shard | None = None,
    shortlist: bool = False,
) -> None:
    """Translates a file or standard input line by line, to a file or standard output.

    An output file is created only when the output is complete. If lines are read from and written
    to a terminal, the user is prompted for each line.

    Args:
        model: the directory of a model, a checkpoint, a run or a CTranslate2 export.
        input, output: the paths of the files, or None for standard input and standard output.
        ensemble: the models that form an ensemble with `model` (see `Translator.load`).
        prefix_file: a file with one prefix per input line. The translation of an input line begins
            with its prefix. An empty line in the prefix file stands for no prefix.
        alignment: an output file for word alignments, with one line per output line. A line such as
            "0-0 1-2" lists pairs of a source word's index and a target word's index (see
            `nmt.decoding.alignment`). If the value is "-", no file is written, and only the `jsonl`
            output format contains the word alignments.
        shard: (i, n) to translate only the i-th of n parts of the input lines, counted from 1, or
            None to translate all lines. The concatenated outputs of all n parts are equal to the
            output for the whole input.
        shortlist: see `Translator.load`.
        note: called with each user-facing message.

    Raises:
        InputError: a file cannot be opened, an option is out of range or conflicts with another
            option, the number of prefixes differs from the number of input lines, or the input
            contains invalid UTF-8 and `options.strict` is set.
        NoModelError: the model does not exist or is unusable.
        BrokenPipeError: the program that reads the output has closed the pipe.
    """
    _check_together(options, input, output, prefix_file, alignment, shard)
    if is_exported(model):
        refuse_search(options.search)
    _check_beam(Path(model), options.search)
    if alignment is not None:
        options = replace(options, search=replace(options.search, align=True))
    links_path = None if str(alignment) == "-" else alignment
    is_typed = input is None and output is None and _is_terminal() and options.format == "text"
    with (
        _reader_of_links(output, links_path),
        contextlib.nullcontext(Typed()) if is_typed else opened_input(input) as stream,
        opened_output(output) as target,
        contextlib.nullcontext() if links_path is None else opened_output(links_path) as links,
    ):
        source: Readable = stream
        translator = Translator.load(
            model, device=device, precision=precision, ensemble=ensemble, shortlist=shortlist,
            note=note,
        )  # fmt: skip
        name = "standard input" if input is None else str(input)
        if options.format in ("html", "xml"):
            is_pipe = input is None or is_stream(Path(input))
            if is_pipe and isinstance(stream, io.BufferedReader):
                source = unpacked(stream, name)
            _translate_markup(translator, source, target, options, name, note)
            return
        is_shown = output is not None and sys.stderr.isatty()
        total: int | None = None  # number of lines to translate
        if input is not None and (shard or is_shown) and Path(input).is_file():
            total = count_lines(Path(input))
        lines: tuple[int, int | None] = 0, None
        if shard and total is not None:
            i, n = shard
            begin, end = total * (i - 1) // n, total * i // n
            assert isinstance(stream, io.BufferedReader)  # `_check_together` requires a file
            source, lines, total = Slice(stream, begin, end), (begin, end), end - begin
        if is_typed:
            note("nmt: Type a line to translate it. End with Ctrl-D.")
        with _bar(total) if is_shown else contextlib.nullcontext() as bar:
            translate_stream(
                translator, source, target, options=options, name=name, note=note,
                prefix_file=prefix_file, links=links, lines=lines, bar=bar,
            )  # fmt: skip


def _check_beam(model: Path, search: SearchOptions) -> None:
    """Raises ArgumentError if `n_best` exceeds the model's default beam size.

    This check reads only the model's configuration and does not load the model.
    """
    if search.n_best == 1 or search.beam is not None or search.samples:
        return
    if is_exported(model):
        config = read_exported_config(model)
    else:
        from nmt.runs.model_directory import find_model  # imports torch

        config = find_model(model).config
    search.width(config.decoding.beam)


def _bar(lines: int | None) -> "tqdm[Any]":
    return tqdm(desc="translated", unit=" lines", total=lines, leave=False)


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
    """Writes the translation of each line of `source` to `target`, in input order.

    Args:
        name: the name of `source` in messages.
        note: called with each warning, for example about invalid UTF-8, about lines that were
            translated in parts, or about suspicious translations.
        prefix_file: see `run_translate`.
        links: the file to which word alignments are written. If `links` is given,
            `options.search.align` must be True.
        lines: the half-open range of the input lines that `source` contains, counted from 0. The
            end of the range is None if `source` extends to the end of the input.
        bar: a progress bar that counts the translated lines.

    Raises:
        InputError: a compressed file is damaged, the number of prefixes differs from the number of
            input lines, or the input contains invalid UTF-8 and `options.strict` is set.
        BrokenPipeError: the program that reads `target` has closed the pipe.
    """
    reader = LineReader(source, name, options.strict, before=lines[0])
    language = None if options.document else translator.config.data.source_language
    writer = LineWriter(target, options, links, before=lines[0], language=language)
    prefixes = _Prefixes(options.prefix, prefix_file, lines)
    writer.write(_translated(translator, reader, prefixes, options, bar))
    if bar is not None:
        bar.close()
    if reader.begins_as_html:
        note(
            f"nmt: warning: {name} seems to be an HTML page, but was translated as lines of text. "
            "To keep its tags, choose the format html."
        )
    _warn_of_lines(note, name, reader.invalid_lines, _INVALID)
    if writer.lines_in_parts:
        _warn(note, name, writer.lines_in_parts, _IN_PARTS)
    _warn_of_lines(note, name, writer.unsplit, _UNSPLIT)
    _warn_of_lines(note, name, writer.lost, _LOST)
    _warn_of_lines(note, name, writer.doubtful, _DOUBTFUL)
    _warn_of_unmet_terms(note, writer.unmet_terms, name)


def _translated(
    translator: Translates,
    reader: LineReader,
    prefixes: "_Prefixes",
    options: LineOptions,
    bar: "tqdm[Any] | None",
) -> Iterator[TranslatedWindow]:
    """Yields each window of the input with its translations."""
    passages, ended = _Passages(translator, options), 0
    for window in reader.windows():
        some = passages.of(window)
        with prefixes.named():
            found = translate_passages(
                translator, some, options.search, prefixes=prefixes.of(window),
                progress=_progress(bar, window, some),
            )  # fmt: skip
        if bar is not None:  # blank lines are not translated, so `progress` has not counted them
            ended += sum(part.ends_line for part in window)
            bar.update(ended - bar.n)
        joined = [
            (
                passage.joined(each),
                any(best[0].parts > 1 for best in each),
                any(best[0].is_lost for best in each),
            )
            for passage, each in zip(some, found, strict=True)
        ]
        yield window, joined
    prefixes.check_end()


def _warn(note: Note, name: str, lines: int, which: str) -> None:
    note(f"nmt: warning: {name} has {count(lines, 'line')} {which}.")


def _warn_of_lines(note: Note, name: str, lines: LineNumbers, which: str) -> None:
    if not lines.count:
        return
    numbers = ", ".join(map(str, lines.first))
    if lines.count > len(lines.first):
        numbers += ", ..."
    _warn(note, name, lines.count, f"({numbers}) {which}")


def _warn_of_unmet_terms(note: Note, unmet: list[tuple[int, Term]], name: str) -> None:
    """Writes a separate warning for each line and term."""
    for line, term in dict.fromkeys(unmet):
        source, target = (
            text if len(text) <= _SHOWN else f"{text[:_SHOWN].rstrip()}…" for text in term
        )
        note(
            f"nmt: warning: Line {line} of {name}: The translation does not contain "
            f'"{target}" for "{source}".'
        )


def _progress(
    bar: "tqdm[Any] | None", window: Sequence[LinePart], passages: Sequence[Passage]
) -> Progress | None:
    """Returns a callback that advances `bar` as sentences are translated.

    The result is None if `bar` is None.
    """
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
    """Converts parts of lines to passages.

    The target-language tag of a line applies to all parts of the line.
    """

    def __init__(self, translator: Translates, options: LineOptions):
        self.tokenizer = translator.tokenizer
        self.language = translator.config.data.source_language if options.document else None
        self._tag = ""

    def of(self, window: Sequence[LinePart]) -> list[Passage]:
        """Returns one passage for each part of the next window."""
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
    """Translates an HTML or XML document, after reading all of `source`."""
    data = source.read()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{name} is UTF-16. Convert it to UTF-8, for example with iconv.")
    declared = _ENCODING.search(data[:_DECLARED_BYTES])
    if declared and declared[1].lower() not in (b"utf-8", b"utf8", b"us-ascii", b"ascii"):
        raise InputError(
            f"{name} declares the encoding {declared[1].decode()}. Convert it to UTF-8, and change "
            "the declaration."
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if options.strict:
            line = data.count(b"\n", 0, error.start) + 1
            raise not_utf8(data[error.start], name, line) from None
        text = data.decode(errors="replace")
        invalid = LineNumbers()
        for number, raw in enumerate(data.split(b"\n"), start=1):
            if raw.decode(errors="replace").count("\ufffd") > raw.count("\ufffd".encode()):
                invalid.add(number)
        _warn_of_lines(note, name, invalid, _INVALID)
    form: Form = "xml" if options.format == "xml" else "html"
    markup = Markup(text, translator.tokenizer, translator.config.data.source_language, form)
    search = replace(options.search, align=True)
    found = translator.translate(markup.sentences, search)
    target.write(markup.written(found).encode())
    target.flush()
    lost, doubtful = LineNumbers(), LineNumbers()
    unmet, in_parts = list[tuple[int, Term]](), set[int]()
    for line, passage, best, whole in markup.passages(found):
        if any(each.parts > 1 for each in best):
            in_parts.add(line)
        unmet += [(line, term) for term in whole.unmet_terms]
        if any(each.is_lost for each in best):
            lost.add(line)
        if is_doubtful(passage, whole.text):
            doubtful.add(line)
    if in_parts:
        _warn(note, name, len(in_parts), _IN_PARTS)
    _warn_of_lines(note, name, lost, _LOST)
    _warn_of_lines(note, name, doubtful, _DOUBTFUL)
    _warn_of_unmet_terms(note, unmet, name)


def _check_together(
    options: LineOptions,
    input: str | Path | None,
    output: str | Path | None,
    prefix_file: str | Path | None,
    alignment: str | Path | None,
    shard: Shard | None,
) -> None:
    """Raises ArgumentError if options conflict or if an output file cannot be used."""
    if options.prefix and prefix_file is not None:
        raise ArgumentError("{prefix} conflicts with {prefix_file}. Remove one of them.")
    if str(alignment) == "-" and options.format != "jsonl":
        raise ArgumentError(
            '{alignment} "-" requires {format} jsonl. Set {format} to jsonl, or specify a file '
            "with {alignment}."
        )
    glossary = options.search.glossary
    read = [
        ("input", input_file(input)),
        ("prefix_file", prefix_file),
        ("glossary", glossary.path if isinstance(glossary, Glossary) else None),
    ]
    if output is not None:
        check_output(Path(output), read=read)
    if alignment is not None and str(alignment) != "-":
        check_output(Path(alignment), "alignment", [("output", output), *read])
    if options.format in ("html", "xml"):
        for name, value in (
            ("n_best", options.numbered), ("prefix", options.prefix), ("shard", shard),
            ("prefix_file", prefix_file), ("alignment", alignment), ("document", options.document),
        ):  # fmt: skip
            if value:
                raise ArgumentError(
                    f"{{{name}}} conflicts with {{format}} {{}}. Remove one of them.",
                    options.format,
                )
    if shard and (input is None or (Path(input).exists() and not Path(input).is_file())):
        raise ArgumentError(
            "{shard} {} requires an input file, because the lines are counted first. Specify a "
            "file with {input}.",
            "{}/{}".format(*shard),
        )


def _is_terminal() -> bool:
    """Returns whether standard input and standard output are terminals."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


class _Prefixes:
    """Provides the prefix for each translation, from an option or from a prefix file."""

    def __init__(self, prefix: str, path: str | Path | None, lines: tuple[int, int | None]):
        self.path, self.prefix = path, prefix
        of_file: Iterator[str] = iter([]) if path is None else read_lines(Path(path))
        self._lines = islice(of_file, *lines)
        self._begins_line = True

    def of(self, window: Sequence[LinePart]) -> list[str] | None:
        """Returns one prefix per part in `window`, or None if no prefixes were specified.

        The prefix is empty for all parts of a line except the first part.
        """
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
                "{prefix_file} {} has fewer lines than the input. Provide one prefix per input "
                "line.",
                self.path,
            )
        return line

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Makes errors name the prefix file, if there is one, instead of the parameter `prefix`."""
        try:
            yield
        except ArgumentError as error:
            if self.path is None:
                raise
            raise ArgumentError(*error.naming({"prefix": "{prefix_file}"})) from None

    def check_end(self) -> None:
        """Raises ArgumentError if there are more prefixes than input lines."""
        if next(self._lines, None) is not None:
            raise ArgumentError(
                "{prefix_file} {} has more lines than the input. Provide one prefix per input "
                "line.",
                self.path,
            )


@contextlib.contextmanager
def _reader_of_links(output: str | Path | None, alignment: str | Path | None) -> Iterator[None]:
    """Converts BrokenPipeError to ArgumentError if the output is a regular file.

    If the output is a regular file, a broken pipe can only be the pipe for the word alignments. In
    this case, raises an ArgumentError whose message says that no translations were written. If the
    output is standard output or a pipe, the BrokenPipeError is re-raised.
    """
    try:
        yield
    except BrokenPipeError:
        if output is None or is_stream(Path(output)):
            raise
        raise ArgumentError(
            "The program that reads the alignments from {alignment} {} exited before it had read "
            "all of them. No translations were written to {}. Choose a regular file for "
            "{alignment}.",
            alignment,
            output,
        ) from None
