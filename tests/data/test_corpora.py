"""Every kind of corpus gives the same pairs; errors name file and line."""

import bz2
import gzip
import json
import lzma
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nmt import config
from nmt.data import corpora
from nmt.data.corpora import check_corpus, input_files, read_corpus
from nmt.data.corpora import kind as kinds
from nmt.errors import InputError, Status
from nmt.storage.opening import count_lines
from tests.hostile import Canary

# U+2028, NEL, VT, FF, FS and a lone CR end no line; \r\n does
ODD = "a\u2028b\x85c\x0bd\x0ce\x1cf\rg"
PAIRS = [("A dog.", "Ein Hund."), (ODD, "zwei"), ("", "leer"), ("  spaces ", "\u00fc\U0001f600")]


def settings(train: dict, source: str = "en", target: str = "de") -> config.Data:
    content = {
        "data": {
            "directory": "unused",
            "source_language": source,
            "target_language": target,
            "train": [train],
        },
        "training": {"run_directory": "no-run"},
    }
    return config.validate(content, {}, "test").data


def read(train: dict, **languages: str) -> list[tuple[str, str]]:
    data = settings(train, **languages)
    return [(source, target) for source, target in read_corpus(data.train[0], data, "train")]


def fault(train: dict, **languages: str) -> InputError:
    """Returns the error of reading a corpus, which must be one line."""
    with pytest.raises(InputError) as caught:
        read(train, **languages)
    assert len(caught.value.problems) == 1
    return caught.value


def text(folder: Path, source: bytes, target: bytes, suffix: str = "") -> dict:
    pack = gzip.compress if suffix else bytes
    (folder / f"a.en{suffix}").write_bytes(pack(source))
    (folder / f"a.de{suffix}").write_bytes(pack(target))
    return {"text": {"source": f"{folder}/a.en{suffix}", "target": f"{folder}/a.de{suffix}"}}


def columns(kind: str, path: Path, source: str = "x.en", target: str = "x.de", **more) -> dict:
    return {kind: {"path": str(path), "source_column": source, "target_column": target} | more}


def parquet(path: Path) -> Path:
    rows = [{"en": source, "de": target} for source, target in PAIRS]
    pq.write_table(pa.table({"x": rows, "n": list(range(len(rows)))}), path)
    return path


def hub(folder: Path, name: str, table: pa.Table) -> dict:
    """Writes a folder in the hub's layout with one configuration of one split."""
    (folder / name).mkdir(parents=True)
    pq.write_table(table, folder / name / "train-00000-of-00001.parquet")
    yaml = f"configs:\n- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/*\n"
    (folder / "README.md").write_text(f"---\n{yaml}---\n")
    return {"hub": str(folder), "name": name, "split": "train"}


def test_files_of_every_kind_give_the_same_pairs(tmp_path: Path) -> None:
    sides = ["\n".join(side).encode() for side in zip(*PAIRS, strict=True)]
    assert read(text(tmp_path, sides[0], sides[1])) == PAIRS
    assert read(text(tmp_path, sides[0] + b"\n", sides[1].replace(b"\n", b"\r\n"), ".gz")) == PAIRS

    tsv = "".join(
        f"{number}\t{target}\t{source}\n" for number, (source, target) in enumerate(PAIRS)
    )
    (tmp_path / "a.tsv").write_bytes(tsv.encode())
    tsv_corpus = {"path": f"{tmp_path}/a.tsv", "source_column": 2, "target_column": 1}
    assert read({"tsv": tsv_corpus}) == PAIRS

    lines = [
        json.dumps({"x": {"en": s or None, "de": t}}, ensure_ascii=i % 2 == 0)
        for i, (s, t) in enumerate(PAIRS)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), newline="\n")
    assert read(columns("jsonl", tmp_path / "a.jsonl")) == PAIRS
    assert read(columns("parquet", parquet(tmp_path / "a.parquet"))) == PAIRS


def test_a_byte_order_mark_does_not_belong_to_the_first_line(tmp_path: Path) -> None:
    lines = {"tsv": "1.5\tA dog.\tEin Hund.\n", "jsonl": '{"en": "A dog.", "de": "Ein Hund."}\n'}
    for kind, line in lines.items():
        (tmp_path / kind).write_text(line * 2, encoding="utf-8-sig")
    tsv = {"source_column": 1, "target_column": 2, "loss_weight_column": 0}
    assert read({"tsv": {"path": f"{tmp_path}/tsv", **tsv}}) == PAIRS[:1] * 2
    assert read(columns("jsonl", tmp_path / "jsonl", "en", "de")) == PAIRS[:1] * 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_text_is_unpacked_by_what_it_is_not_by_its_name(tmp_path: Path, pack) -> None:
    source = [f"Line {number}" for number in range(5000)]
    target = [f"Zeile {number}" for number in range(5000)]
    content = [pack("\n".join(lines).encode()) for lines in (source, target)]
    assert read(text(tmp_path, *content)) == list(zip(source, target, strict=True))
    assert count_lines(tmp_path / "a.en") == 5000


@pytest.mark.parametrize("kind", ["text", "tsv", "parquet", "jsonl"])
def test_a_pipe_or_device_is_no_corpus(tmp_path: Path, kind: str) -> None:
    """They can be read only once, and opening a pipe without a writer blocks."""
    os.mkfifo(tmp_path / "pipe")
    for path in (f"{tmp_path}/pipe", "/dev/zero"):
        corpus = columns(kind, Path(path))
        if kind == "text":
            corpus = {"text": {"source": path, "target": path}}
        elif kind == "tsv":
            corpus = {"tsv": {"path": path}}
        with pytest.raises(InputError, match=f"{path} is a pipe or device"):
            input_files(settings(corpus).train[0])


def test_hub_layout_with_translations_or_flat_columns(tmp_path: Path) -> None:
    rows = [{"de": target, "en": source} for source, target in PAIRS]
    nested = hub(tmp_path / "nested", "de-en", pa.table({"translation": rows}))
    flat = hub(tmp_path / "flat", "all", pa.table({k: [r[k] for r in rows] for k in ("de", "en")}))
    swapped = [(target, source) for source, target in PAIRS]
    assert read(nested) == PAIRS
    assert read(flat, source="de", target="en") == swapped
    assert "one of its columns: translation.de, translation.en" in str(fault(nested, source="fr"))
    assert "fr-en" in str(fault(nested | {"name": "fr-en"}))
    assert "Unknown split" in str(fault(nested | {"split": "dev"}))


def test_a_changed_local_folder_is_not_read_from_a_cache(tmp_path: Path) -> None:
    first, second = ({"en": [text], "de": ["zwei"]} for text in ("one", "two"))
    corpus = hub(tmp_path, "all", pa.table(first))
    assert read(corpus) == [("one", "zwei")]
    pq.write_table(pa.table(second), tmp_path / "all" / "train-00000-of-00001.parquet")
    assert read(corpus) == [("two", "zwei")]


def test_a_local_folder_that_is_missing_is_not_looked_up_on_the_hub(tmp_path: Path) -> None:
    for name in ("./nowhere", str(tmp_path / "nowhere")):
        error = fault({"hub": name, "split": "train"})
        assert error.status == 2 and f"no directory {name}." in str(error)


def test_a6_a_dataset_runs_no_script_and_unpickles_nothing(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in ("script", "pickles"):
        (tmp_path / name).mkdir()
    (tmp_path / "script" / "script.py").write_text(f"open({str(canary)!r}, 'w')\n")
    (tmp_path / "pickles" / "train.pkl").write_bytes(pickle.dumps(Canary(canary)))
    card = "---\nconfigs:\n- config_name: default\n  data_files: train.pkl\n---\n"
    (tmp_path / "pickles" / "README.md").write_text(card)
    for name in ("script", "pickles"):
        assert len(fault({"hub": str(tmp_path / name), "split": "train"}).problems) == 1
    assert not canary.exists()


def test_a6_hub_out_of_reach_or_misnamed_is_one_line_and_quiet() -> None:
    script = (
        "from tests.data.test_corpora import fault\n"
        "error = fault({'hub': 'nobody/nothing', 'split': 'train'})\n"
        "print(int(error.status), error)\n"
        "for name in ('-rf', '--token=x', '../../x', 'a/b/c', 'https://x.org/y'):\n"
        "    print(len(fault({'hub': name, 'split': 'train'}).problems))\n"
        "import logging, datasets\n"
        "for library in ('datasets.load', 'huggingface_hub.utils'):\n"
        "    logging.getLogger(library).warning('Retrying in 8s')"
    )
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    first, *others = done.stdout.splitlines()
    assert first.startswith(f"{int(Status.STORAGE)} ") and "'nobody/nothing'" in first
    assert others == ["1"] * 5  # strange names, too, are one line
    assert done.stderr == ""


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


BAD_FILES = {
    "source.en": (b"one\ntwo\nthree\n", r"source.en has 3 lines, but .*two has 2\."),
    "utf8": (b"fine\nna\xefve\n", r"utf8:2: .* not UTF-8 \(byte 0xef at position 3\)"),
    "utf16": ("one\ntwo\nthree\n".encode("utf-16"), r"utf16:1: .* not UTF-8 \(byte 0xff "),
    "empty": (b"", r"empty is empty\."),
    "empty.gz": (gzip.compress(b""), r"empty.gz is empty\."),
    "cut.gz": (
        gzip.compress(b"one\ntwo\n" * 50)[:-12],
        r"cut.gz is a damaged or truncated gzip file",
    ),
    "flipped.gz": (gzip.compress(b"a\nb\n")[:-5] + b"\x07zzzz", r"flipped.gz is .* truncated gzip"),
    "cut.bz2": (bz2.compress(b"one\ntwo\n" * 50)[:-9], r"cut.bz2 is .* truncated bzip2"),
    "flipped.xz": (flipped(lzma.compress(b"one\ntwo\n" * 50)), r"flipped.xz is .* truncated xz"),
    "a.zst": (b"\x28\xb5\x2f\xfd rest", r"a.zst is a zstd file"),
    "a.zip": (b"PK\x03\x04 rest", r"a.zip is a zip file"),
    "missing": (None, r"missing does not exist"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_text_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    content, message = BAD_FILES[name]
    (tmp_path / "two").write_bytes(b"eins\nzwei\n")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    corpus = {"text": {"source": f"{tmp_path}/{name}", "target": f"{tmp_path}/two"}}
    error = fault(corpus)
    assert error.status == Status.INPUT
    assert re.search(message, str(error)), error
    if name != "utf8":  # the rest is known before a single pair is used
        data = settings(corpus)
        with pytest.raises(InputError, match=message):
            check_corpus(data.train[0], data)


WEIGHTS = [0, 1.5, 0.1, 3]


def weighted(folder: Path, weights: list) -> dict[str, dict]:
    """Returns an entry of each kind with columns, with these loss weights for `PAIRS`."""
    rows = [
        (source, target, weight) for (source, target), weight in zip(PAIRS, weights, strict=True)
    ]
    tsv = "".join(f"{s}\t{t}\t{w}\n" for s, t, w in rows)
    (folder / "a.tsv").write_bytes(tsv.encode())
    lines = [json.dumps({"en": s, "de": t, "f": {"w": w}}) + "\n" for s, t, w in rows]
    (folder / "a.jsonl").write_text("".join(lines))
    table = pa.table({"en": [r[0] for r in rows], "de": [r[1] for r in rows], "w": weights})
    pq.write_table(table, folder / "a.parquet")
    return {
        "tsv": {"tsv": {"path": f"{folder}/a.tsv", "loss_weight_column": 2}},
        "jsonl": columns("jsonl", folder / "a.jsonl", "en", "de", loss_weight_column="f.w"),
        "parquet": columns("parquet", folder / "a.parquet", "en", "de", loss_weight_column="w"),
        "hub": hub(folder / "hub", "all", table) | {"loss_weight_column": "w"},
    }


def test_every_kind_with_columns_reads_a_loss_weight_for_each_pair(tmp_path: Path) -> None:
    for kind, corpus in weighted(tmp_path, WEIGHTS).items():
        data = settings(corpus)
        pairs = list(read_corpus(data.train[0], data, "train"))
        assert [tuple(pair) for pair in pairs] == PAIRS, kind
        expected = [{"loss_weight": pytest.approx(weight)} for weight in WEIGHTS]
        assert [pair.columns for pair in pairs] == expected, kind


@pytest.mark.parametrize(
    "weight", [-0.5, float("nan"), float("inf"), 1e39, None, "heavy", "1_0", "٣", True]
)
def test_a_loss_weight_that_is_none_stops_with_its_line(tmp_path: Path, weight) -> None:
    weights = ["1", "1", weight, "1"] if isinstance(weight, str) else [1, 1, weight, 1]
    if isinstance(weight, bool):
        weights = [True] * 4
    found = weighted(tmp_path, weights)
    line = 1 if isinstance(weight, bool) else 3
    for kind, place in {
        "tsv": f"a.tsv:{line} ", "jsonl": f"a.jsonl:{line} ", "parquet": f"a.parquet, row {line} ",
        "hub": f" train, row {line} ",
    }.items():  # fmt: skip
        message = str(fault(found[kind]))
        assert message.startswith("The loss_weight in ") and place in message, message
        assert (
            "must be a finite, non-negative number" in message and "loss_weight_column" in message
        )


def test_a_loss_weight_column_must_be_there(tmp_path: Path) -> None:
    found = weighted(tmp_path, WEIGHTS)
    found["tsv"]["tsv"]["loss_weight_column"] = 3
    for kind in ("jsonl", "parquet"):
        found[kind][kind]["loss_weight_column"] = "v"
    found["hub"]["loss_weight_column"] = "v"
    for kind, problem in {"tsv": "no column 3", "jsonl": "no key v", "parquet": "no column v",
                          "hub": "no column v"}.items():  # fmt: skip
        assert problem in str(fault(found[kind]))


BAD_ROWS = [
    ("tsv", "", r"tsv .*corpus has no sentence pairs\."),
    ("tsv", "a\tb\nc\n", r":2 has no column 1: it contains 0 tabs, so its last column is 0"),
    ("jsonl", '{"x": {"en": "a", "de": "b"}}\n{"x": \n', r":2 is not valid JSON "),
    ("jsonl", '{"x": {"en": "a", "de": "b"}}\n{"x": {"en": "a"}}\n', r":2 has no key x.de\."),
    ("jsonl", '{"x": {"en": 1, "de": "b"}}\n', r"The source in .*corpus:1 is not text\. "),
    ("jsonl", "[" * 100_000 + "\n", r":1 is not valid JSON "),
    ("parquet", "no parquet at all", r"corpus is not a valid Parquet file "),
]


@pytest.mark.parametrize(("kind", "content", "message"), BAD_ROWS)
def test_rows_that_cannot_be_read(tmp_path: Path, kind: str, content: str, message: str) -> None:
    path = tmp_path / "corpus"
    path.write_text(content)
    corpus = {"tsv": {"path": str(path)}} if kind == "tsv" else columns(kind, path)
    with pytest.raises(InputError, match=message):
        read(corpus)


def test_parquet_text_that_is_not_utf8_is_one_line(tmp_path: Path) -> None:
    latin1 = pa.array([b"M\xfcller"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({"en": ["a"], "de": latin1}), tmp_path / "a.parquet")
    file = {"path": f"{tmp_path}/a.parquet", "source_column": "en", "target_column": "de"}
    with pytest.raises(InputError, match=r"[Cc]olumn de of .*a.parquet is not UTF-8 "):
        read({"parquet": file})


def test_lines_as_long_as_documents_make_small_chunks(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a").write_text("".join(f"{number} {'x' * 50}\n" for number in range(10)))
    corpus = {"text": {"source": f"{tmp_path}/a", "target": f"{tmp_path}/a"}}
    data = settings(corpus)
    for characters, sizes in ((10**9, [4, 4, 2]), (250, [3, 3, 3, 1])):
        monkeypatch.setattr(kinds, "_CHUNK_CHARACTERS", characters)
        chunks = list(corpora.read_chunks(data.train[0], data, "train", 4))
        assert list(map(len, chunks)) == sizes
        assert [tuple(pair) for chunk in chunks for pair in chunk] == read(corpus)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OSError(28, "No space left on device"), Status.STORAGE),
        (OSError("Not enough disk space. Needed: 5 GiB"), Status.STORAGE),
        (ConnectionError("no route"), Status.STORAGE),
        (FileNotFoundError(2, "no such file"), Status.INPUT),
        (ValueError("no split x"), Status.INPUT),
    ],
)
def test_a_full_disk_is_told_from_a_wrong_entry(monkeypatch, error, status) -> None:
    import datasets  # slow

    wrapped = RuntimeError("failed")
    wrapped.__cause__ = error
    for raised in (error, *([] if isinstance(error, ConnectionError) else [wrapped])):

        def load(*_: object, raised: Exception = raised, **__: object) -> None:
            raise raised

        monkeypatch.setattr(datasets, "load_dataset", load)
        assert fault({"hub": "a/b", "split": "train"}).status == status


def test_short_memory_is_no_wrong_entry(monkeypatch) -> None:
    import datasets

    def load(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(MemoryError):
        read({"hub": "a/b", "split": "train"})


def test_parquet_columns_are_named(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet")
    error = fault(columns("parquet", path, target="x.fr"))
    assert "no column x.fr" in str(error)
    listed = str(error).rpartition("one of its columns: ")[2].rstrip(".")
    assert set(listed.split(", ")) == {"x.en", "x.de", "n"}  # in the order that Arrow gave them
    assert f"n of {path} has type int64" in str(fault(columns("parquet", path, source="n")))


def test_two_parquet_columns_of_one_name_are_one_line(tmp_path: Path) -> None:
    words = pa.array(["a"])
    tables = {
        "flat": pa.Table.from_arrays([words, words, words], names=["en", "de", "de"]),
        "dotted": pa.table({"en": words, "x": [{"de": "a"}], "x.de": words}),
        "structs": pa.Table.from_arrays(
            [words, pa.array([{"de": "a"}]), pa.array([{"fr": "a"}])], names=["en", "x", "x"]
        ),
    }
    for name, table in tables.items():
        pq.write_table(table, tmp_path / name)
        target = "de" if name == "flat" else "x.de"
        error = fault(columns("parquet", tmp_path / name, source="en", target=target))
        assert str(error).startswith(f"{tmp_path / name} has two columns named {target}.")


def test_demo_sentences_in_both_directions() -> None:
    corpus = {"demo": {"pairs": 20, "seed": 3}}
    forth, back = read(corpus), read(corpus, source="de", target="en")
    assert len(forth) == 20
    assert back == [(target, source) for source, target in forth]
    assert "data.target_language is fr" in str(fault(corpus, target="fr"))


def test_a_demo_corpus_larger_than_the_language_is_one_line(monkeypatch) -> None:
    monkeypatch.setattr("nmt.demo_language.corpus.PATIENCE", 0)  # with sentences of other splits
    problem = (
        r"runs out of new sentences after \d+ of 99 pairs \(data.train, seed 3\)\. Lower demo.pairs"
    )
    assert re.search(problem, str(fault({"demo": {"pairs": 99, "seed": 3}})))


def test_every_kind_of_the_configuration_can_be_read() -> None:
    assert list(corpora._KINDS) == list(config.CORPUS_KINDS)


def test_a_configuration_with_corpora_of_every_kind_can_be_pickled() -> None:
    """For the process that learns the vocabulary."""
    for entry in (columns("jsonl", Path("a")), {"demo": {"pairs": 1}}, {"hub": "a", "split": "b"}):
        data = settings(entry)
        assert pickle.loads(pickle.dumps(data)) == data  # noqa: S301 - our own
