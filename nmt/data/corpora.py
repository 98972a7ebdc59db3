"""Parallel text as streams of (source, target) pairs, exactly as it stands in its place.

A corpus is one entry of `data.train`, `data.validation` or `data.test`: a dataset of the hub, two
text files, tab-separated columns, parquet, JSON lines, or sentences of the demo grammar. Whatever
cannot be read stops with file and line; nothing is left out and nothing is cleaned here.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nmt import config
from nmt.config import (
    ColumnsFile,
    Corpus,
    Demo,
    Hub,
    JsonLines,
    Parquet,
    Text,
    TextFiles,
    Tsv,
    TsvFile,
)
from nmt.errors import InputError, StorageError
from nmt.storage.opening import check_regular, opened

MAX_LINE_BYTES = 10_000_000  # a file without line ends must not fill the memory
_CHUNK_CHARACTERS = 200_000_000  # lines as long as documents make smaller chunks
_BATCH = 10_000  # rows of a columnar file in memory at a time

Pairs = Iterator[tuple[str, str]]


def read_corpus(corpus: Corpus, data: config.Data, split: str) -> Pairs:
    """The pairs of a corpus in order, raw.

    Args:
        corpus: one entry of the lists in `data`.
        data: tells the two languages.
        split: train, validation or test: the list that the entry stands in.

    Raises:
        InputError: something cannot be read; names file and line. Raised on the way, so a caller
            that must not act on half a corpus calls `check_corpus` first.
    """
    for file in _named_files(corpus):
        check_regular(file)
    empty = True
    for pair in _pairs(corpus, data, split):
        empty = False
        yield pair
    if empty:
        raise InputError(f"no sentence pairs, {describe(corpus)}, name a corpus that holds some")


def read_chunks(
    corpus: Corpus, data: config.Data, split: str, size: int
) -> Iterator["list[tuple[str, str]] | DemoChunk"]:
    """What `read_corpus` gives, at most `size` pairs at a time, for other processes to work on.

    Files are read here. The demo grammar needs ten times as long for a pair as cleaning does, so
    its chunks are written by whoever loops over them.
    """
    if isinstance(corpus, Demo):
        for first in range(0, corpus.demo.pairs, size):
            last = min(first + size, corpus.demo.pairs)
            yield _demo(corpus.demo, data, split, first, last)
        return
    chunk: list[tuple[str, str]] = []
    characters = 0
    for pair in read_corpus(corpus, data, split):
        chunk.append(pair)
        characters += len(pair[0]) + len(pair[1])
        if len(chunk) == size or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def describe(corpus: Corpus) -> str:
    """A corpus in a few words, for messages and the manifest."""
    match corpus:
        case Hub():
            return " ".join(filter(None, ("hub", corpus.hub, corpus.name, corpus.split)))
        case Text():
            return f"text {corpus.text.source} {corpus.text.target}"
        case Demo():
            return f"demo {corpus.demo.pairs} pairs, seed {corpus.demo.seed}"
        case _:
            kind, file = _one_file(corpus)
            return f"{kind} {file.path}"


def input_files(corpus: Corpus) -> list[Path]:
    """The local files that a corpus is read from; none for the hub itself and for the demo.

    Raises:
        InputError: a file does not exist, or is a pipe or device.
    """
    if isinstance(corpus, Hub):
        folder = Path(corpus.hub)
        inside = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return [p for p in inside if not _is_hidden(p.relative_to(folder))]
    files = _named_files(corpus)
    for file in files:
        check_regular(file)
        with opened(file):
            pass
    return files


def _named_files(corpus: Corpus) -> list[Path]:
    match corpus:
        case Demo() | Hub():
            return []
        case Text():
            return [Path(corpus.text.source), Path(corpus.text.target)]
        case _:
            return [Path(_one_file(corpus)[1].path)]


def check_corpus(corpus: Corpus, data: config.Data) -> None:
    """Checks what can be checked before anything is written; a dataset of the hub is fetched.

    Raises:
        InputError: a file is missing, damaged or empty, a dataset or a column is missing, or the
            two text files differ in their number of lines.
    """
    for file in input_files(corpus):
        if file.stat().st_size == 0 and not isinstance(corpus, Hub):  # there they mean nothing
            raise _empty(file)
    match corpus:
        case Hub():
            _hub_columns(_load_hub(corpus), corpus, data)
        case Demo():
            _check_demo_languages(data)
        case Text():
            _check_line_counts(corpus.text)
        case Parquet():
            with _parquet(Path(corpus.parquet.path)) as file:
                _resolve(file.schema_arrow, corpus.parquet.source_column, corpus.parquet.path)
                _resolve(file.schema_arrow, corpus.parquet.target_column, corpus.parquet.path)


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


def _pairs(corpus: Corpus, data: config.Data, split: str) -> Pairs:
    match corpus:
        case Hub():
            return _hub(corpus, data)
        case Text():
            return _text(corpus.text)
        case Tsv():
            return _tsv(corpus.tsv)
        case Parquet():
            return _parquet_pairs(corpus.parquet)
        case JsonLines():
            return _json_lines(corpus.jsonl)
        case Demo():
            return iter(_demo(corpus.demo, data, split, 0, corpus.demo.pairs))


def _one_file(corpus: Corpus) -> tuple[str, Any]:
    kind = next(kind for kind in ("tsv", "parquet", "jsonl") if hasattr(corpus, kind))
    return kind, getattr(corpus, kind)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _empty(path: Path) -> InputError:
    return InputError(f"empty file, {path}, name a file that holds text")


def _text(files: TextFiles) -> Pairs:
    for source, target in zip_longest(
        read_lines(Path(files.source)), read_lines(Path(files.target))
    ):
        if source is None or target is None:
            _check_line_counts(files)
        yield source, target


def _check_line_counts(files: TextFiles) -> None:
    counts = []
    for path in (Path(files.source), Path(files.target)):
        counts.append(count_lines(path))
        if counts[-1] == 0:
            raise _empty(path)
    if counts[0] != counts[1]:
        raise InputError(
            f"{counts[0]:,} lines and {counts[1]:,} lines, {files.source} and {files.target}, "
            "line i of one must translate line i of the other"
        )


def _tsv(file: TsvFile) -> Pairs:
    path, columns = Path(file.path), (file.source_column, file.target_column)
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        if max(columns) >= len(fields):
            raise InputError(
                f"no column {max(columns)} (columns count from 0; this line has {len(fields)}), "
                f"{path}:{number}, correct the line or the column number"
            )
        yield fields[columns[0]], fields[columns[1]]


def _json_lines(file: ColumnsFile) -> Pairs:
    path = Path(file.path)
    for number, line in enumerate(read_lines(path), 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"not JSON ({error}), {path}:{number}, one JSON object a line was expected"
            ) from None
        where = f"{path}:{number}"
        yield _json_text(row, file.source_column, where), _json_text(row, file.target_column, where)


def _json_text(row: Any, dotted: str, where: str) -> str:
    value = row
    for key in [dotted] if isinstance(row, dict) and dotted in row else dotted.split("."):
        if not isinstance(value, dict) or key not in value:
            raise InputError(f"no key {dotted}, {where}, correct the line or the column's name")
        value = value[key]
    if not isinstance(value, str | None):
        raise InputError(f"{dotted} is not text, {where}, correct the line or the column's name")
    return value or ""  # null: an empty side, which cleaning drops and counts


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[pq.ParquetFile]:
    with opened(path):  # for its messages
        pass
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(f"damaged parquet ({reason}), {path}, copy it again") from None


def _parquet_pairs(file: ColumnsFile) -> Pairs:
    with _parquet(Path(file.path)) as parquet:
        source = _resolve(parquet.schema_arrow, file.source_column, file.path)
        target = _resolve(parquet.schema_arrow, file.target_column, file.path)
        for batch in parquet.iter_batches(_BATCH, columns=sorted({source[0], target[0]})):
            sides = (_strings(batch, column, file.path) for column in (source, target))
            yield from zip(*sides, strict=True)


def _leaves(fields: Any, above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], pa.DataType]]:
    """Every column of a schema with its type, those inside structs included."""
    found: list[tuple[tuple[str, ...], pa.DataType]] = []
    for field in fields:
        path = (*above, field.name)
        if pa.types.is_struct(field.type):
            found += _leaves([field.type.field(i) for i in range(field.type.num_fields)], path)
        else:
            found.append((path, field.type))
    return found


def _resolve(schema: pa.Schema, dotted: str, where: str) -> tuple[str, ...]:
    """The path of the text column that `dotted` names."""
    leaves = _leaves(schema)
    matching = [(path, kind) for path, kind in leaves if ".".join(path) == dotted]
    if not matching:
        known = ", ".join(".".join(path) for path, _ in leaves)
        raise InputError(f"no column {dotted}, {where}, the columns are: {known}")
    path, kind = matching[0]
    if len(matching) > 1 or schema.names.count(path[0]) > 1:
        raise InputError(f"two columns are called {dotted}, {where}, rename one of them")
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"column {dotted} is {kind}, {where}, name a column of text")
    return path


def _strings(rows: pa.Table | pa.RecordBatch, path: tuple[str, ...], where: str) -> list[str]:
    column = rows.column(path[0])
    for key in path[1:]:
        column = pc.struct_field(column, key)
    try:
        return [text or "" for text in column.to_pylist()]  # null: an empty side, dropped, counted
    except UnicodeDecodeError as error:
        raise InputError(
            f"column {'.'.join(path)} is not UTF-8 ({error.reason}), {where}, write it as UTF-8"
        ) from None


def _hub(corpus: Hub, data: config.Data) -> Pairs:
    dataset = _load_hub(corpus)
    columns = _hub_columns(dataset, corpus, data)
    for rows in dataset.with_format("arrow").iter(_BATCH):
        sides = (_strings(rows, column, describe(corpus)) for column in columns)
        yield from zip(*sides, strict=True)


def _hub_columns(dataset: Any, corpus: Hub, data: config.Data) -> list[tuple[str, ...]]:
    """The columns of the two languages: in a struct `translation`, or each by itself."""
    schema = dataset.data.schema
    known = {".".join(path) for path, _ in _leaves(schema)}
    inside = [
        f"translation.{language}" for language in (data.source_language, data.target_language)
    ]
    names = [name if name in known else name.removeprefix("translation.") for name in inside]
    return [_resolve(schema, name, describe(corpus)) for name in names]


def _load_hub(corpus: Hub) -> Any:
    """The dataset, memory-mapped from the cache that the `datasets` library keeps."""
    import datasets
    import huggingface_hub

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    huggingface_hub.logging.set_verbosity(50)  # it logs every retry as a warning
    try:
        return datasets.load_dataset(corpus.hub, corpus.name, split=corpus.split)
    except Exception as error:  # the library raises dozens of kinds: everything becomes one line
        reason = str(error).split("\n")[0].rstrip(".") or type(error).__name__
        hint, kind = "correct the entry", InputError
        if isinstance(error, ConnectionError):
            hint, kind = "check the network, or name a local folder", StorageError
        elif any(map(_is_of_storage, (error, error.__cause__))):
            hint, kind = "make room or allow access", StorageError
        raise kind(f"{reason}, {describe(corpus)}, {hint}") from None


def _is_of_storage(error: BaseException | None) -> bool:
    if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
        return False
    return error.errno is not None or "disk space" in str(error)  # so `datasets` words its own


@dataclass(frozen=True)
class DemoChunk:
    """The pairs `first`, ..., `last` - 1 of a demo corpus; each loop over it writes them anew."""

    seed: int
    split: str
    english_first: bool
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def __iter__(self) -> Pairs:
        from nmt.demo_language import OutOfSentences, demo_pairs  # its lexicon is loaded here only

        try:
            for pair in demo_pairs(self.last, self.seed, self.split, self.first):
                english, german = pair.source, pair.target
                yield (english, german) if self.english_first else (german, english)
        except OutOfSentences as error:
            where = f"data.{self.split}, demo, seed {self.seed}"
            raise InputError(f"{error}, {where}, ask for fewer pairs") from None


def _demo(
    demo: config.DemoPairs, data: config.Data, split: str, first: int, last: int
) -> DemoChunk:
    _check_demo_languages(data)
    return DemoChunk(demo.seed, split, data.source_language == "en", first, last)


def _check_demo_languages(data: config.Data) -> None:
    languages = (data.source_language, data.target_language)
    if languages not in (("en", "de"), ("de", "en")):
        raise InputError(
            f"the demo grammar knows en and de, not {languages[0]} and {languages[1]}, "
            "data.source_language and data.target_language, set them to en and de"
        )
