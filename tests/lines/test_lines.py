"""Translation of lines with a fake translator: content, order and latency of the output."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import select
import sys
import threading
import time
from dataclasses import replace
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tqdm import tqdm

from nmt.config import load
from nmt.data.cleaning import normalize
from nmt.documents.documents import translate_documents
from nmt.errors import InputError
from nmt.lines import reader as line_reader
from nmt.lines.translate import LineOptions, run_translate, translate_stream
from nmt.translator import EMPTY, SearchOptions, Translation, Translator
from tests.fixtures.make import TRAINED
from tests.hostile import fuzzed_lines
from tests.manual import ROOT
from tests.patience import PATIENCE_S, wait_until

SPACES = [b"\n", b"\r\n", b" ", b"\t", b"\x00", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xc2\x85"]


class Tags:
    """The one method of the tokenizer that is needed, with the symbol <2de>."""

    def split_tag(self, text):
        tag = re.match("(<2de> ?)*", text)[0]
        return tag, text[len(tag) :]


class Upper:
    """Translates to upper case and records the sentences of each call."""

    tokenizer = Tags()
    config = load(ROOT / "configs" / "demo.yaml")

    def __init__(self, found: int = 2):
        self.windows: list[list[str]] = []
        self.found = found  # number of translations per sentence

    def n_best(self, sentences, options=None, *, prefix="", progress=None):
        self.windows.append(list(sentences))
        prefixes = [prefix] * len(sentences) if isinstance(prefix, str) else prefix
        found = [self._one(p + normalize(s)) for p, s in zip(prefixes, sentences, strict=True)]
        if not options.align:
            return found
        return [
            [self._aligned(each, s) for each in f] for f, s in zip(found, sentences, strict=True)
        ]

    def _aligned(self, found, sentence):
        links = [(n, n) for n in range(len(sentence.split()))]
        return replace(found, alignment=links) if found.parts else found

    def beam(self, options):
        return 4

    def _one(self, sentence):
        if not sentence.strip():
            return [EMPTY]
        ranks = range(self.found)
        return [Translation(f"{sentence.upper()}{'!' * r}", -r / 3, -r, [2], 1) for r in ranks]


def translated(data: bytes, **options) -> bytes:
    target = io.BytesIO()
    translate_stream(Upper(), io.BytesIO(data), target, options=LineOptions(**options))
    return target.getvalue()


def assert_answers(output: bytes, sent: list[bytes]) -> None:
    answers = output.removesuffix(b"\n").split(b"\n")
    assert len(answers) == len(sent)
    for answer, line in zip(answers, sent, strict=True):
        text = normalize(line.removesuffix(b"\r").decode(errors="replace"))
        assert answer.decode() == ("" if not text.strip() else text.upper())
        assert len(answer.decode().splitlines()) <= 1


@pytest.mark.parametrize("end", [b"\n", b""])
def test_r19_as_many_lines_out_as_in(end):
    sent = [*fuzzed_lines(2000, seed=1), b"last"]
    assert_answers(translated(b"\n".join(sent) + end), sent)


@given(st.lists(st.one_of(st.binary(), st.text().map(str.encode), st.sampled_from(SPACES))))
def test_r19_any_bytes(parts: list[bytes]):
    data = b"".join(parts)
    sent = data.split(b"\n")
    if sent[-1] == b"":
        sent.pop()
    output = translated(data)
    assert output.count(b"\n") == data.count(b"\n") + (data != b"" and not data.endswith(b"\n"))
    if sent:
        assert_answers(output, sent)


@pytest.mark.parametrize(
    ("data", "output"),
    [(b"", b""), (b"\n", b"\n"), (b"\n\n", b"\n\n"), (b"a", b"A\n"), (b"a\r\nb", b"A\nB\n"),
     (b"\xef\xbb\xbf\n", b"\n"), (b"\r\n", b"\n")],
)  # fmt: skip
def test_r19_line_ends(data, output):
    assert translated(data) == output


class Pipes:
    """Runs `translate_stream` in a thread between two pipes."""

    def __init__(self, translator: Upper | None = None):
        self.translator = translator or Upper()
        source, self._into = os.pipe()
        self._out_of, target = os.pipe()
        self.error: Exception | None = None
        # a daemon thread, so that a failed test does not hang
        self._thread = threading.Thread(target=self._run, args=(source, target), daemon=True)
        self._thread.start()

    def _run(self, source: int, target: int) -> None:
        with os.fdopen(source, "rb") as reading, os.fdopen(target, "wb") as writing:
            try:
                translate_stream(self.translator, reading, writing, options=LineOptions())
            except BrokenPipeError as error:
                self.error = error
                os.dup2(os.open(os.devnull, os.O_WRONLY), target)

    def send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._into, data) :]

    def has_answer(self) -> bool:
        return bool(select.select([self._out_of], [], [], 0)[0])

    def receive(self) -> bytes:
        return os.read(self._out_of, 1 << 20)

    def end(self) -> bytes:
        os.close(self._into)
        rest = b"".join(iter(self.receive, b""))
        self._thread.join()
        os.close(self._out_of)
        return rest

    def stop_reading(self) -> None:
        os.close(self._out_of)
        self.send(b"more\n" * 10)
        os.close(self._into)
        self._thread.join()


def test_fuzzed_lines_through_a_real_pipe():
    sent = fuzzed_lines(2000, seed=2)
    data, pipes, rng = b"".join(line + b"\n" for line in sent), Pipes(), random.Random(3)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.extend(iter(pipes.receive, b"")))
    reader.start()
    while data:
        size = rng.choice([1, 10, 5000, 200_000])
        pipes.send(data[:size])
        data = data[size:]
    os.close(pipes._into)
    reader.join()
    assert_answers(b"".join(received), sent)


def test_one_line_and_wait():
    pipes = Pipes()
    for number in range(3):
        pipes.send(b"line %d\n" % number)
        assert pipes.receive() == b"LINE %d\n" % number
    pipes.send(b"half a ")
    time.sleep(4 * line_reader.PAUSE_S)
    pipes.send(b"line\nand\n")
    answer = pipes.receive()
    assert answer in (b"HALF A LINE\nAND\n", b"HALF A LINE\n")
    assert pipes.end() in (b"", b"AND\n")


def test_lines_that_come_together_are_translated_together():
    translator = Upper()
    pipes = Pipes(translator)
    pipes.send(b"a\n" * 500)
    pipes.receive()
    pipes.end()
    assert len(translator.windows) <= 2


def test_a_line_does_not_wait_for_a_pause_for_ever(monkeypatch):
    monkeypatch.setattr(line_reader, "PAUSE_S", 3600.0)
    monkeypatch.setattr(line_reader, "_OLDEST_S", 0.05)
    pipes = Pipes()

    def is_answered() -> bool:
        pipes.send(b"a\n")
        return pipes.has_answer()

    wait_until(is_answered)
    assert pipes.receive().startswith(b"A\n")
    pipes.end()


def test_windows_are_bounded():
    translator = Upper()
    data = b"a\n" * 5000 + (b"b" * 900_000 + b"\n") * 6
    translate_stream(translator, io.BytesIO(data), io.BytesIO(), options=LineOptions())
    assert max(map(len, translator.windows)) == 2048
    assert max(sum(map(len, window)) for window in translator.windows) < 5_000_000


@pytest.mark.parametrize("word", ["word ", "€€€", "😀", "x"])
def test_r19_a_line_of_megabytes_is_one_line(word):
    translator, target = Upper(), io.BytesIO()
    text = word * (3_500_000 // len(word.encode()))
    notes: list[str] = []
    data = b"first\n" + text.encode() + b"\nlast\n"
    translate_stream(translator, io.BytesIO(data), target, options=LineOptions(), note=notes.append)
    first, long, last = target.getvalue().decode().removesuffix("\n").split("\n")
    assert (first, last) == ("FIRST", "LAST")
    assert long.replace(" ", "") == text.upper().replace(" ", "")
    parts = [part for window in translator.windows for part in window]
    assert max(len(part.encode()) for part in parts) <= 1_070_000
    assert not any(part.startswith(" ") for part in parts)  # the model reads no leading spaces
    [note] = notes
    assert note.startswith("nmt: warning: standard input has 1 line ") and "in parts" in note


def test_invalid_utf8_is_counted_by_lines():
    notes: list[str] = []
    data = b"good\n\xff\xff bad\n" + b"\xff" * 2_500_000 + b"\n\xe4\n"
    translate_stream(
        Upper(), io.BytesIO(data), io.BytesIO(), options=LineOptions(), name="f", note=notes.append
    )
    assert notes[0].startswith("nmt: warning: f has 3 lines (2, 3, 4) with invalid UTF-8")


def test_strict():
    with pytest.raises(InputError, match=r"^standard input:3 .*UTF-8 \(byte 0xff\)"):
        translated(b"\n\ngood \xff\n", strict=True)


def test_n_best():
    search = SearchOptions(n_best=3)
    assert translated(b"a\n\nb", search=search, numbered=True) == (
        b"1\t0.000000\tA\n1\t-0.333333\tA!\n1\t-0.333333\tA!\n"
        b"2\t0.000000\t\n2\t0.000000\t\n2\t0.000000\t\n"
        b"3\t0.000000\tB\n3\t-0.333333\tB!\n3\t-0.333333\tB!\n"
    )
    assert translated(b"a\n", numbered=True) == b"1\t0.000000\tA\n"


def test_a_score_is_never_minus_zero(monkeypatch):
    monkeypatch.setattr(Upper, "_one", lambda *_: [Translation("A", -1e-9, -1e-9, [2], 1)])
    assert translated(b"a\n", numbered=True) == b"1\t0.000000\tA\n"


def test_nobody_reads():
    pipes = Pipes()
    pipes.send(b"a\n")
    pipes.receive()
    pipes.stop_reading()
    assert isinstance(pipes.error, BrokenPipeError)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(TRAINED / "run", device="cpu")


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Returns `run_translate` with the fake translator; the current directory is empty."""
    monkeypatch.setattr(Translator, "load", lambda *_, **__: Upper())
    monkeypatch.chdir(tmp_path)

    def run(source: str | None = "in", target: str | None = "out", files=(), **options) -> None:
        run_translate("model", input=source, output=target, note=print, **dict(files),
                      options=LineOptions(**options), device=None, precision=None)  # fmt: skip

    return run


def test_files(run):
    Path("in").write_bytes(b"a\nb")
    Path("in.gz").write_bytes(gzip.compress(b"c\n"))
    run()
    assert Path("out").read_bytes() == b"A\nB\n"
    run("in.gz")
    assert Path("out").read_bytes() == b"C\n"
    Path("in.gz").write_bytes(b"plain whatever it is called\n")
    run("in.gz")
    assert Path("out").read_bytes() == b"PLAIN WHATEVER IT IS CALLED\n"
    assert sorted(p.name for p in Path().iterdir()) == ["in", "in.gz", "out"]


@pytest.mark.parametrize(
    ("name", "unpack"),
    [("out.gz", gzip.decompress), ("out.bz2", bz2.decompress), ("out.xz", lzma.decompress)],
)
def test_an_output_named_as_a_compressed_file_is_one(run, name: str, unpack):
    Path("in").write_bytes(b"a\nb\n")
    run("in", name)
    first = Path(name).read_bytes()
    assert unpack(first) == b"A\nB\n"
    run("in", name)
    assert Path(name).read_bytes() == first
    run(name, "again")
    assert Path("again").read_bytes() == b"A\nB\n"


def test_a_named_pipe_and_standard_input_by_name_are_read_as_they_come(run):
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(b"a\n"), daemon=True)
    writer.start()
    run("pipe")
    assert Path("out").read_bytes() == b"A\n"
    writer.join(PATIENCE_S)
    reading, writing = os.pipe()
    os.write(writing, b"b\n")
    os.close(writing)
    run(f"/dev/fd/{reading}")
    os.close(reading)
    assert Path("out").read_bytes() == b"B\n"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("size", [1, 4096])
def test_a_compressed_pipe_is_recognized_by_its_content(run, monkeypatch, pack, size: int):
    """Also where its bytes come one by one. Text that begins as bzip2 does remains text."""
    for text in (b"", (b"a" * 999 + b"\n") * 140, b"BZh9 b\nc\n"):
        packed = text if text.startswith(b"B") else pack(text)
        reading, writing = os.pipe()

        def write(data: bytes = packed, reading: int = reading, writing: int = writing) -> None:
            for at in range(0, len(data), size):
                os.write(writing, data[at : at + size])
                if size == 1 and at < 9:  # read one by one
                    wait_until(lambda: ioctl(reading, FIONREAD, bytes(4)) == bytes(4), 0.005)
            os.close(writing)

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        with open(reading, closefd=False) as standard:
            monkeypatch.setattr(sys, "stdin", standard)
            run(None, "out")
        writer.join(PATIENCE_S)
        os.close(reading)
        assert Path("out").read_bytes() == text.upper()


def test_packed_prefixes_come_through_a_pipe(run):
    Path("in").write_bytes(b"a\nb\n")
    os.mkfifo("prefixes")
    packed = gzip.compress(b"x\ny\n")
    writer = threading.Thread(target=lambda: Path("prefixes").write_bytes(packed), daemon=True)
    writer.start()
    run(files={"prefix_file": "prefixes"})
    assert Path("out").read_bytes() == b"XA\nYB\n"
    writer.join(PATIENCE_S)


def test_a_named_pipe_is_written_to_not_replaced(run):
    Path("in").write_bytes(b"a\n")
    os.mkfifo("out")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("out").read_bytes()), daemon=True)
    reader.start()
    run()
    assert Path("out").is_fifo()
    reader.join(PATIENCE_S)
    assert read == [b"A\n"]


def test_a_pipe_without_a_name_is_written_to(run):
    """Shells pass such pipes for --output >(gzip) and for --output /dev/stdout | ..."""
    Path("in").write_bytes(b"a\n")
    reading, writing = os.pipe()
    run("in", f"/dev/fd/{writing}")
    os.close(writing)
    assert os.read(reading, 100) == b"A\n"
    os.close(reading)


def test_a_full_device_is_named(run):
    Path("in").write_bytes(b"a\n")
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        run("in", "/dev/full")


def test_a_pipe_of_links_whose_reader_has_gone_is_told(run):
    """If this were no error, the translation would be missing with exit status 0."""
    Path("in").write_bytes(b"a\n")
    reading, writing = os.pipe()
    os.close(reading)
    pipe = f"/dev/fd/{writing}"
    with pytest.raises(InputError, match=f"alignments from alignment {pipe} exited before"):
        run("in", "out", {"alignment": pipe})
    assert not Path("out").exists()
    with pytest.raises(BrokenPipeError):
        run("in", pipe)
    os.close(writing)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("none", "out", "none does not exist"),
        (".", "out", "is a directory, not a file"),
        ("in", "none/out", "/none for output "),
        ("in", ".", r"^output \. is a directory"),
        ("bad.gz", "out", "bad.gz is a damaged or truncated gzip file"),
    ],
)
def test_files_that_cannot_be_used(run, source, target, message):
    Path("in").write_bytes(b"a\n")
    Path("bad.gz").write_bytes(gzip.compress(b"a\n" * 50)[:-9])
    with pytest.raises(InputError, match=message):
        run(source, target)
    assert sorted(p.name for p in Path().iterdir()) == ["bad.gz", "in"]


def test_output_appears_whole_or_not_at_all(run):
    Path("in").write_bytes(b"a\n" * 3000 + b"\xff\n")
    Path("out").write_bytes(b"old")
    with pytest.raises(InputError, match="in:3001"):
        run(strict=True)
    assert Path("out").read_bytes() == b"old"
    assert sorted(p.name for p in Path().iterdir()) == ["in", "out"]


def test_each_line_has_its_prefix(run):
    """Covers several windows of lines, and a very long line, which gets its prefix once."""
    n = 2500
    Path("in").write_bytes(b"".join(b"l%d\n" % i for i in range(n)) + b"x " * 700_000 + b"\nend")
    Path("prefixes").write_bytes(b"".join(b"p%d-\n" % i for i in range(n)) + b"long-\n\n")
    run(files={"prefix_file": "prefixes"})
    lines = Path("out").read_text().split("\n")
    assert lines[:n] == [f"P{i}-L{i}" for i in range(n)]
    assert lines[n].startswith("LONG-X X") and lines[n].count("LONG-") == 1
    assert lines[n + 1] == "END"
    Path("in").write_bytes(b"a\n\nb\n")
    run(prefix="so ")
    assert Path("out").read_bytes() == b"SO A\nSO \nSO B\n"  # a Translator skips blank lines


@pytest.mark.parametrize(("prefixes", "message"), [
    (b"p\n", "prefix_file prefixes has fewer lines"),
    (b"p\n\np\n", "prefix_file prefixes has more lines"),
    (b"p\n\xff\n", "prefixes:2.* UTF-8"),
])  # fmt: skip
@pytest.mark.parametrize("is_terminal", [True, False])
def test_prefixes_that_are_not_the_texts(run, monkeypatch, prefixes, message, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    Path("in").write_bytes(b"a\nb\n")
    Path("prefixes").write_bytes(prefixes)
    with pytest.raises(InputError, match=message):
        run(files={"prefix_file": "prefixes"})
    with pytest.raises(InputError, match=r"prefix .*prefix_file"):
        run(files={"prefix_file": "prefixes"}, prefix="so")
    assert sorted(p.name for p in Path().iterdir()) == ["in", "prefixes"]


def test_links_are_written_beside_the_translations(run):
    """Each output line has one line of links, which number the words of the whole line."""
    Path("in").write_bytes(b"a b\n\n" + b"xyz " * 400_000 + b"\n")
    run(files={"alignment": "links.gz"})
    short, blank, long, end = gzip.decompress(Path("links.gz").read_bytes()).split(b"\n")
    assert (short, blank, end) == (b"0-0 1-1", b"", b"")
    assert long.split() == [b"%d-%d" % (n, n) for n in range(400_000)]
    Path("in").write_bytes(b"a b\n")
    run(files={"alignment": "links"}, search=SearchOptions(n_best=3, beam=3), numbered=True)
    assert Path("links").read_bytes() == b"0-0 1-1\n" * 3
    with pytest.raises(InputError, match="alignment and output are both out"):
        run(files={"alignment": "./out"})


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"alignment": "in"}, "alignment and input are .* in"),
        ({"alignment": "prefixes"}, "alignment and prefix_file are .* prefixes"),
        ({"output": "prefixes"}, "output and prefix_file are .* prefixes"),
        ({"output": "in"}, "output and input are .* in"),
        ({"output": "link"}, "output and input are .* link"),
        ({"output": "hard"}, "output and input are .* hard"),
        ({"output": "terms"}, "output and glossary are .* terms"),
        ({"alignment": "terms"}, "alignment and glossary are .* terms"),
    ],
    ids=str,
)
def test_what_is_read_is_not_replaced(run, files, problem):
    for name in ("in", "prefixes"):
        Path(name).write_bytes(b"a\nb\n")
    Path("link").symlink_to("in")
    Path("hard").hardlink_to("in")
    Path("terms").write_bytes(b"a\tb\n")
    files = {"output": "out", "prefix_file": "prefixes"} | files
    with pytest.raises(InputError, match=problem):
        run(target=files.pop("output"), files=files, search=SearchOptions(glossary="terms"))
    assert Path("in").read_bytes() == Path("prefixes").read_bytes() == b"a\nb\n"
    assert Path("terms").read_bytes() == b"a\tb\n"


@pytest.mark.parametrize("target", ["in", "hard"])
def test_standard_input_is_not_replaced(run, monkeypatch, target: str):
    Path("in").write_bytes(b"a\n")
    Path("hard").hardlink_to("in")
    with Path("in").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(InputError, match=f"output and input are both {target}"):
            run(None, target)
        with pytest.raises(InputError, match=f"alignment and input are both {target}"):
            run(None, files={"alignment": target})
        assert Path("in").read_bytes() == Path("hard").read_bytes() == b"a\n"
        run(None)
    assert Path("out").read_bytes() == b"A\n"


def test_a_wrong_name_is_called_as_it_was_given(run):
    Path("in").write_bytes(b"a\n")
    with pytest.raises(InputError, match=r"alignment \. is a directory"):
        run(files={"alignment": "."})


def test_json_lines():
    rows = translated(b"a b\n\nc\n", format="jsonl", search=SearchOptions(align=True, n_best=2))
    first, blank, last = map(json.loads, rows.splitlines())
    assert (first["line"], first["text"], first["alignment"]) == (1, "A B", [[0, 0], [1, 1]])
    assert (blank["line"], blank["text"], blank["score"], blank["pieces"]) == (2, "", 0.0, [])
    assert blank["alignment"] == []
    assert last["line"] == 3 and "alternatives" not in last
    rows = translated(b"a\n", format="jsonl", search=SearchOptions(n_best=2), numbered=True)
    assert [each["text"] for each in json.loads(rows)["alternatives"]] == ["A!"]
    assert json.loads(rows)["score"] == 0.0 and "alignment" not in json.loads(rows)


def test_json_lines_have_what_a_model_gives(translator: Translator):
    target = io.BytesIO()
    options = LineOptions(SearchOptions(n_best=2, beam=2), numbered=True, format="jsonl")
    translate_stream(translator, io.BytesIO(b"The dog sees."), target, options=options)
    found = json.loads(target.getvalue())
    for each in (found, *found["alternatives"]):
        assert each["log_probability"] == pytest.approx(
            sum(each["token_log_probabilities"]), abs=1e-4
        )
        assert len(each["pieces"]) == len(each["token_log_probabilities"])
    assert found["score"] >= found["alternatives"][0]["score"]


@given(st.text("ab\n", max_size=12), st.integers(1, 4), st.integers(1, 5))
def test_slices_are_the_whole_wherever_reading_stops(text: str, n: int, size: int):
    lines = text.encode().splitlines(keepends=True)

    def read(begin: int, end: int) -> bytes:
        source = io.BytesIO(text.encode())
        slice_ = line_reader.Slice(source, begin, end)
        return b"".join(iter(lambda: slice_.read(), b""))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_reader, "_READ_BYTES", size)
        for i in range(n):
            begin, end = i * len(lines) // n, (i + 1) * len(lines) // n
            assert read(begin, end) == b"".join(lines[begin:end])


def test_a_slice_reads_long_lines_in_parts():
    """Lines before the slice and lines in the slice may exceed the available memory."""
    sizes: list[int] = []

    class Counted(io.BytesIO):
        def readline(self, size: int | None = -1) -> bytes:
            sizes.append(len(data := super().readline(size)))
            return data

    slice_ = line_reader.Slice(Counted(b"x" * 300_000 + b"\n" + b"y" * 300_000), 1, 2)
    assert b"".join(iter(slice_.read, b"")) == b"y" * 300_000
    assert max(sizes) < 100_000


def test_a_line_that_is_added_twice_counts_once():
    numbers = line_reader.LineNumbers()
    for number in (3, 3, 4):
        numbers.add(number)
    assert (numbers.count, numbers.first) == (2, [3, 4])


def test_lines_as_paragraphs():
    """Translates sentences separately, keeps lines and indentation, and numbers words by line."""
    translator, target, links = Upper(), io.BytesIO(), io.BytesIO()
    options = LineOptions(SearchOptions(align=True), document=True)
    data = b"One two. Three four.\n\n  - Five.\n"
    translate_stream(translator, io.BytesIO(data), target, options=options, links=links)
    assert target.getvalue() == b"ONE TWO. THREE FOUR.\n\n  - FIVE.\n"
    assert translator.windows == [["One two.", "Three four.", "- Five."]]
    assert links.getvalue() == b"0-0 1-1 2-2 3-3\n\n0-0 1-1\n"
    assert translated(b" a. B.\n", document=True, numbered=True) == b"1\t0.000000\tA. B.\n"
    wide = "\xa0\u2003A.\n".encode()
    assert translated(wide, document=True) == wide
    for marked in (b"\xef\xbb\xbf" + wide, b"\xef\xbb\xbf" + wide + b"\xef\xbb\xbf\n"):
        assert b"\xef\xbb\xbf" not in translated(marked, document=True)
    [[whole]] = translate_documents(Upper(1), ["One  two.\n\nThree."], SearchOptions(align=True))
    assert whole.text == "ONE TWO.\n\nTHREE." and whole.alignment == [(0, 0), (1, 1), (2, 2)]
    forced = translated(b"One. Two.\nThree.", document=True, prefix="so ")
    assert forced == b"SO ONE. TWO.\nSO THREE.\n"


def test_every_part_of_a_long_line_has_its_tag(run):
    """Links number the words of the original line, in which the tag occurs only once."""
    words = 400_000
    Path("in").write_bytes(b"<2de> " + b"xyz " * words + b"\n<2de> a\nb\n")
    run(files={"alignment": "links"})
    first, *rest = Path("out").read_bytes().splitlines()
    assert first.split().count(b"<2DE>") == 2 and rest == [b"<2DE> A", b"B"]
    sources = [
        int(link.split(b"-")[0]) for link in Path("links").read_bytes().split(b"\n")[0].split()
    ]
    assert sources == [*range(words + 1)]


@pytest.mark.parametrize("n", [2, 7])
@pytest.mark.parametrize("end", ["\n", ""])
def test_the_outputs_of_all_shards_are_that_of_the_whole(run, n: int, end: str):
    text = "".join(f"l{i}{' x' * (i % 400)}\n" for i in range(200)) + "last" + end
    Path("in").write_text(text)
    Path("in.gz").write_bytes(gzip.compress(text.encode()))
    Path("prefixes").write_text("".join(f"p{i}-\n" for i in range(201)))
    search = SearchOptions(n_best=2, beam=2)
    run(numbered=True, search=search, files={"prefix_file": "prefixes"})
    whole = Path("out").read_bytes()
    for source in ("in", "in.gz"):
        for i in range(1, n + 1):
            run(source, f"out.{i}", numbered=True, search=search,
                files={"prefix_file": "prefixes", "shard": (i, n)})  # fmt: skip
        assert b"".join(Path(f"out.{i}").read_bytes() for i in range(1, n + 1)) == whole


def test_more_shards_than_lines_and_the_numbers_of_lines(run, capsys):
    Path("in").write_bytes(b"a\nb \xff\n")
    for i in range(1, 5):
        run(target=f"out.{i}", files={"shard": (i, 4)})
    assert [Path(f"out.{i}").read_bytes() for i in range(1, 5)] == [
        b"", b"A\n", b"", "B \ufffd\n".encode()
    ]  # fmt: skip
    with pytest.raises(InputError, match="in:2 is not valid UTF-8"):
        run(strict=True, files={"shard": (2, 2)})
    with pytest.raises(InputError, match=r"shard 1/2 .* input"):
        run(None, files={"shard": (1, 2)})


@pytest.mark.parametrize(("files", "options", "message"), [
    ({"alignment": "-"}, {}, 'alignment "-" .*format jsonl'),
    ({"alignment": "a"}, {"format": "html"}, "alignment .*format html"),
    ({"prefix_file": "in"}, {"format": "xml"}, "prefix_file .*format xml"),
    ({"shard": (1, 2)}, {"format": "xml"}, "shard .*format xml"),
    ({}, {"format": "html", "document": True}, "document .*format html"),
    ({}, {"format": "html", "prefix": "so"}, "prefix .*format html"),
    ({}, {"format": "html", "numbered": True}, "n_best .*format html"),
])  # fmt: skip
def test_what_does_not_go_together(run, files, options, message):
    Path("in").write_bytes(b"a\n")
    with pytest.raises(InputError, match=message):
        run(files=files, **options)
    assert [path.name for path in Path().iterdir()] == ["in"]


def test_markup_is_a_filter_too(run, translator: Translator, monkeypatch, capsys):
    monkeypatch.setattr(Translator, "load", lambda *_, **__: translator)
    valid = "<p>\ufffd</p>\n".encode()  # an encoded U+FFFD is not invalid
    long = b"<p>" + b"The baker sells bread, " * 600 + b"</p>\n"
    Path("in").write_bytes(b"<p>The baker sells bread.</p>\n<p>\xff</p>\n" + valid + long)
    run(format="html")
    assert re.fullmatch(r"<p>.+</p>\n<p>.*</p>\n<p>.*</p>\n<p>.*</p>\n", Path("out").read_text())
    warnings = capsys.readouterr().out
    assert "in has 1 line (2) with invalid UTF-8" in warnings
    assert "in has 1 line above the maximum length, translated in parts" in warnings
    reading, writing = os.pipe()
    os.write(writing, gzip.compress(Path("in").read_bytes()))
    os.close(writing)
    run(f"/dev/fd/{reading}", "again", format="html")
    os.close(reading)
    assert Path("again").read_bytes() == Path("out").read_bytes()
    with pytest.raises(InputError, match=r"^in:2 .*UTF-8 \(byte 0xff\)"):
        run(format="html", strict=True)
    for encoding, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")):
        Path("in").write_bytes(mark + "<p>The baker.</p>".encode(encoding))
        with pytest.raises(InputError, match=r"^in is UTF-16\."):
            run(format="xml")
    for text in (
        '<?xml version="1.0" encoding="ISO-8859-1"?><p>x</p>',
        "<meta charset=iso-8859-1>",
    ):
        Path("in").write_text(text)
        with pytest.raises(InputError, match=r"(?i)^in declares the encoding iso-8859-1\."):
            run(format="xml" if "xml" in text else "html")
    Path("in").write_text("<?xml version='1.0' encoding='utf-8'?><p>encoding = x</p>")
    run(format="xml")


def test_a_prefix_that_cannot_be_used_is_quoted_with_its_file(run, translator, monkeypatch):
    monkeypatch.setattr(Translator, "load", lambda *_, **__: translator)
    Path("in").write_bytes(b"a\nb\n")
    Path("prefixes").write_text("\n" + "so " * 3000)
    with pytest.raises(InputError, match=r'^prefix_file "(so ){20}…" has \d+ tokens'):
        run(files={"prefix_file": "prefixes"})


def test_a_warning_of_what_looks_wrong(monkeypatch):
    notes: list[str] = []

    def one(_, text):
        return [Translation("so " * 9 if text == "x" else text, -1, -1, [2], 1) if text else EMPTY]

    monkeypatch.setattr(Upper, "_one", one)
    data = b"a\nx\n\n" + b"x\n" * 12
    translate_stream(Upper(), io.BytesIO(data), io.BytesIO(), options=LineOptions(), name="f",
                     note=notes.append)  # fmt: skip
    [note] = notes
    assert note.startswith(
        "nmt: warning: f has 13 lines (2, 4, 5, 6, 7, 8, 9, 10, 11, 12, ...) whose translation "
    )


@pytest.mark.parametrize("document", [False, True])
def test_sentences_that_are_not_split_or_lost_are_told(monkeypatch, document: bool):
    """Blank lines, and lines of one sentence with a translation, cause no warning."""
    notes: list[str] = []

    def one(_, text):
        return [Translation("" if text == "lost." else text, -1, -1, [2], 1) if text else EMPTY]

    monkeypatch.setattr(Upper, "_one", one)
    data = b"One. Two.\n\nOne, two.\nlost.\nDr. No.\nThree! lost.\nThree! Lost.\n"
    translate_stream(Upper(), io.BytesIO(data), io.BytesIO(), name="f", note=notes.append,
                     options=LineOptions(document=document))  # fmt: skip
    unsplit = "nmt: warning: f has 2 lines (1, 7) with several sentences, and each line"
    lost = "nmt: warning: f has 1 line (4) with a sentence whose translation is empty."
    assert notes[-1] == lost
    assert [note.startswith(unsplit) for note in notes[:-1]] == [True] * (not document)
    assert all("--document" in note and "document=True" in note for note in notes[:-1])


def test_a_sentence_of_a_document_that_is_lost_is_told(run, monkeypatch, capsys):
    def lose(self, sentences, *_, **__):
        return [
            EMPTY if s == "" else Translation("" if s == "The man." else s.upper(), -1, -1, [2], 1)
            for s in sentences
        ]

    monkeypatch.setattr(Upper, "translate", lose, raising=False)
    Path("in").write_text("<p>One.</p>\n<p>Two. The man.</p>\n<p> </p>\n")
    run(format="html")
    assert Path("out").read_text() == "<p>ONE.</p>\n<p>TWO.</p>\n<p> </p>\n"
    [warning] = capsys.readouterr().out.splitlines()
    assert warning == "nmt: warning: in has 1 line (2) with a sentence whose translation is empty."
    Path("in").write_text("One.\nTwo. The man.\n")
    monkeypatch.setattr(Upper, "n_best", lambda *a, **_: [[each] for each in lose(*a)])
    run(document=True)
    assert capsys.readouterr().out.splitlines() == [warning]


def test_a_person_is_asked_for_each_line(run, monkeypatch, capfdbinary):
    typed = iter(["a", "", "b \udcff"])
    windows = []

    def answer(prompt):
        windows.append(prompt)
        for line in typed:
            return line
        raise EOFError

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr("nmt.lines.translate._is_terminal", lambda: True)
    translator = Upper()
    monkeypatch.setattr(Translator, "load", lambda *_, **__: translator)
    run(None, None)
    assert translator.windows == [["a"], [""], ["b \ufffd"]]
    assert windows == ["> "] * 4
    out = capfdbinary.readouterr().out
    assert b"A\n" in out and "B \ufffd\n".encode() in out


@pytest.mark.parametrize(("is_terminal", "target", "shown"), [
    (True, "out", True), (False, "out", False), (True, None, False),
])  # fmt: skip
def test_a_bar_is_shown_where_a_person_sees_it_and_the_output_is_a_file(
    run, monkeypatch, capfd, is_terminal, target, shown
):
    Path("in").write_bytes(b"a\n" * 30)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    run(target=target)
    assert ("/30 " in capfd.readouterr().err) == shown
    run(target=target, files={"shard": (1, 2)})
    assert ("/15 " in capfd.readouterr().err) == shown


def test_lines_of_a_pipe_are_not_counted(run, monkeypatch):
    """Counting the lines would consume them."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    count = "The lines of a pipe were counted."
    monkeypatch.setattr("nmt.lines.translate.count_lines", lambda path: pytest.fail(count))
    os.mkfifo("in")
    write = Path("in").write_bytes
    threading.Thread(target=write, args=(b"a\nb\n",), daemon=True).start()
    run()
    assert Path("out").read_bytes() == b"A\nB\n"


@pytest.mark.parametrize(
    ("text", "is_page"),
    [
        (b"\xef\xbb\xbf<!DOCTYPE html>\n<p>one</p>\n", True),
        (b"<html lang=en><body>\n", True),
        (b"one\n<html>\n", False),
        (b"The tag <html> begins a page.\n", False),
    ],
)
def test_an_html_page_among_text_is_reported(text: bytes, is_page: bool):
    said: list[str] = []
    translate_stream(
        Upper(), io.BytesIO(text), io.BytesIO(), options=LineOptions(), name="f", note=said.append
    )
    assert any("f seems to be an HTML page" in line for line in said) == is_page


def test_the_bar_counts_blank_lines():
    bar, text = tqdm(file=io.StringIO()), io.BytesIO(b"a\n\n\n" * 10)
    translate_stream(Upper(), text, io.BytesIO(), options=LineOptions(), name="f", bar=bar)
    assert bar.n == 30
