"""Preparing end to end: counts, files, the same bytes after any interruption, and refusals."""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt import config
from nmt.data import cleaning, prepare, shards
from nmt.data.pair import Pair
from nmt.data.prepared_data import PreparedData
from nmt.data.stages import clean, encode, job, vocabulary
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, Status, StorageError
from nmt.model.special_ids import EOS_ID
from nmt.storage import atomic, manifest

NOUNS = [("dog", "Hund"), ("cat", "Kater"), ("bear", "Bär"), ("man", "Mann"), ("bird", "Vogel")]
VERBS = [("sees", "sieht"), ("hears", "hört"), ("finds", "findet"), ("calls", "ruft")]
PAIRS = [
    (f"The {a[0]} {v[0]} the {b[0]} {n}.", f"Der {a[1]} {v[1]} den {b[1]} {n}.")
    for n in (1, 2, 3)
    for a in NOUNS
    for v in VERBS
    for b in NOUNS
]  # 300, all different
VALIDATION = [
    ("A fish sees the sea today.", "Ein Fisch sieht heute das Meer."),
    (" ", "leer"),
    ("word " * 60, "Wort"),
]
TEST = [("Nobody\tanswers.", "Niemand antwortet."), (" ", "leer")]
SPELT_OUT = "".join(random.Random(1).choices("bcdfghjklmnpqrstvwxyz", k=90))  # hardly a pair twice
BAD = [
    ("", "leer"),
    PAIRS[3],
    ("Cafe\u0301 sees\x07 1.", "Café sieht 1."),
    ("Café sees 1.", "Café\tsieht 1."),
    ("not translated", "Not translated"),
    ("a fish sees the sea TODAY", "Etwas ganz anderes steht hier."),
    ("Nobody answers", "niemand antwortet"),
    ("short", "viel zu lang " * 8),
    (SPELT_OUT, SPELT_OUT[::-1]),
]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean, "SHARD_PAIRS", 120)


def write_corpus(folder: Path, name: str, pairs: list[tuple[str, str]]) -> dict:
    folder.mkdir(parents=True, exist_ok=True)
    for side, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines), newline="")
    return {"text": {"source": f"{folder}/{name}.en", "target": f"{folder}/{name}.de"}}


def settings(folder: Path, **changes: object) -> config.Config:
    """Returns settings with two training corpora.

    The second corpus has weight 2 and a pair for each cleaning rule to drop.
    """
    raw = folder / "raw"
    data = {
        "directory": str(folder / "data"),
        "source_language": "en",
        "target_language": "de",
        "max_length": 60,
        "train": [
            write_corpus(raw, "a", PAIRS[:250]),
            write_corpus(raw, "b", BAD + PAIRS[250:]) | {"weight": 2.0},
        ],
        "validation": [write_corpus(raw, "v", VALIDATION)],
        "test": [write_corpus(raw, "t", TEST)],
    }
    size = changes.pop("vocabulary_size", 400)
    content = {
        "data": data | changes,
        "tokenizer": {"vocabulary_size": size},
        "training": {"run_directory": str(folder / "run")},
    }
    return config.validate(content, {}, "test")


def run(wanted: config.Config) -> list[str]:
    lines: list[str] = []
    prepare.prepare(wanted, note=lines.append, processes=1)
    return lines


def content(directory: Path) -> dict[str, bytes]:
    """Returns all files except the lock and the records of runs."""
    files = (path for path in directory.rglob("*") if path.is_file())
    names = {str(path.relative_to(directory)): path for path in files}
    return {
        name: path.read_bytes()
        for name, path in sorted(names.items())
        if name != ".lock" and not name.startswith(".used-by/")
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> config.Config:
    """Data prepared once, for tests that only read."""
    wanted = settings(tmp_path_factory.mktemp("whole"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clean, "SHARD_PAIRS", 120)
        run(wanted)
    return wanted


def test_every_rule_is_counted_and_nothing_else_is_lost(whole: config.Config) -> None:
    facts = PreparedData.of(whole).manifest
    first, second, validation, test = facts["corpora"]
    assert (first["read"], first["pairs"]) == (250, 250)
    assert (second["read"], second["pairs"]) == (len(BAD) + 50, 51)
    assert first["repaired"] == {cleaning.REPAIRED: 0, cleaning.SPACING: 0}
    assert second["repaired"] == {cleaning.REPAIRED: 2, cleaning.SPACING: 1}
    assert second["dropped"] == {
        cleaning.EMPTY: 1, cleaning.TOO_LONG: 0, cleaning.RATIO: 1, cleaning.COPY: 1,
        cleaning.LEAKED: 2, cleaning.DUPLICATE: 2, cleaning.TOO_MANY_TOKENS: 1,
    }  # fmt: skip
    assert (validation["read"], validation["pairs"]) == (3, 2)  # only the empty one is dropped
    assert (test["read"], test["pairs"]) == (2, 2) and not any(test["dropped"].values())
    assert facts["tokenizer_sha256"] == manifest.file_hash(
        Path(whole.data.directory) / "tokenizer.model"
    )


def test_shards_hold_the_kept_pairs_in_order(whole: config.Config) -> None:
    directory = Path(whole.data.directory)
    facts = PreparedData.of(whole).manifest
    tokenizer = Tokenizer.load(directory / "tokenizer.model")
    opened = PreparedData(directory, facts).shards("train")
    texts = []
    for shard in opened:
        PreparedData(directory, facts).verify(shard)
        assert shard.first == len(texts)
        for side in (shard.source, shard.target):
            assert side.values.dtype == np.int32
            assert side.lengths.tolist() == [len(side[i]) for i in range(len(shard))]
            assert all(
                side[i][-1] == EOS_ID and EOS_ID not in side[i][:-1] for i in range(len(shard))
            )
        texts += [
            tuple(tokenizer.decode(s[i]) for s in (shard.source, shard.target))
            for i in range(len(shard))
        ]
    assert texts == [*PAIRS[:250], ("Café sees 1.", "Café sieht 1."), *PAIRS[250:]]
    # a shard for each 120 pairs read, never of two corpora
    assert [(len(shard), shard.weight) for shard in opened] == [
        (120, 1),
        (120, 1),
        (10, 1),
        (51, 2),
    ]
    for entry, shard in zip(facts["shards"]["train"], opened, strict=True):
        assert entry["source_tokens"] == shard.source.lengths.sum()
        assert entry["target_tokens"] == shard.target.lengths.sum()
    assert len(PreparedData(directory, facts).shards("validation")[0]) == 2


def test_datasets_reads_the_splits_and_training_does_not_need_it(whole: config.Config) -> None:
    import datasets  # slow

    directory = Path(whole.data.directory)
    facts = PreparedData.of(whole).manifest
    for split in ("train", "validation"):
        loaded = datasets.load_from_disk(str(directory / split))
        assert {str(kind.feature.dtype) for kind in loaded.features.values()} == {"int32"}
        ours = [
            {"source": shard.source[i].tolist(), "target": shard.target[i].tolist()}
            for shard in PreparedData(directory, facts).shards(split)
            for i in range(len(shard))
        ]
        assert list(loaded) == ours
    heavy = "{'datasets', 'torch'} & set(sys.modules)"  # torch: every worker would load it
    script = f"import sys, nmt.data.prepare, nmt.data.shards; sys.exit(bool({heavy}))"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_empty_shard_can_be_written_and_no_validation_be_wanted(tmp_path: Path) -> None:
    wanted = settings(tmp_path, validation=[], test=[])
    run(wanted)
    facts = PreparedData.of(wanted).manifest
    assert PreparedData(tmp_path / "data", facts).shards("validation") == []
    shards.write_shard(tmp_path / "empty.arrow", [])
    entry = {"file": "empty.arrow", "pairs": 0, "weight": 1.0}
    files = {"empty.arrow": {"sha256": ""}}
    content = {"shards": {"train": [entry]}, "files": files}
    assert len(PreparedData(tmp_path, content).shards("train")[0]) == 0


def test_a_pair_of_exactly_max_length_stays(whole: config.Config, tmp_path: Path) -> None:
    """EOS counts; the limit applies to each side."""
    tokenizer = Tokenizer.load(Path(whole.data.directory) / "tokenizer.model")
    pairs = [PAIRS[0], (PAIRS[0][0] * 2, PAIRS[0][1]), (PAIRS[0][0], PAIRS[0][1] * 2)]
    shards.write_text(tmp_path / "text.arrow", [Pair(*pair) for pair in pairs], [1, 2, 3])
    longest = [max(len(tokenizer.encode(side)) + 1 for side in pair) for pair in pairs]
    for limit in {*longest, *(length - 1 for length in longest)}:
        output = tmp_path / f"{limit}.arrow"
        encode.encode_shard(tmp_path / "text.arrow", None, tokenizer, limit, output)
        counts = job.load(output.with_suffix(".json"))["counts"]
        assert counts["pairs"] == sum(length <= limit for length in longest)
        assert counts.get(cleaning.TOO_MANY_TOKENS, 0) == 3 - counts["pairs"]


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.chaos)])
def test_killed_at_any_write_it_ends_in_the_same_bytes(
    whole: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    """Every file is renamed by Path.replace; the process ends before the n-th call, for many n."""
    expected, rename = content(Path(whole.data.directory)), Path.replace
    made: list[str] = []

    def stop_at(n: int) -> Callable[[Path, Path], Path]:
        left = iter(range(n - 1))

        def replace(path: Path, target: Path) -> Path:
            if next(left, None) is None:
                raise _Killed
            made.append(str(target))
            return rename(path, target)

        return replace

    monkeypatch.setattr(atomic, "sync", lambda path: None)  # most of the time, and no power is cut
    for n in range(1, 200, stride):
        directory, made = tmp_path / str(n), []
        wanted = placed(whole, directory)
        monkeypatch.setattr(Path, "replace", stop_at(n))
        try:
            run(wanted)
            break
        except _Killed:
            assert not (directory / "manifest.json").exists()
        monkeypatch.setattr(Path, "replace", stop_at(10**9))
        run(wanted)
        assert content(directory) == expected
        costly = [name for name in made if re.search(r"(arrow|npy|tokenizer-\w+\.model)$", name)]
        assert len(costly) - len(set(costly)) <= 1  # the one that was being written
        shutil.rmtree(directory)
    assert n > 40, "the writes are no longer seen"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


@pytest.mark.parametrize("damage", [Path.unlink, flip, cut])
def test_a_lost_or_damaged_intermediate_file_is_made_again(
    whole: config.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage
) -> None:
    wanted = placed(whole, tmp_path / "data")
    expected = content(Path(whole.data.directory))

    def fail(*_: object) -> None:
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(prepare, "publish", fail)
        with pytest.raises(_Killed):
            run(wanted)
    work = tmp_path / "data" / ".work"
    shutil.copytree(work, tmp_path / "copy")
    [text, tokens] = (str(next(work.glob(f"{stage}-*[0-9a-f]"))) for stage in ("text", "tokens"))
    names = [f"{text}/train-000-00001.arrow", f"{text}/kept.npy", f"{tokens}/train-000-00001.arrow"]
    names += map(str, work.glob("tokenizer-*.model"))
    if damage is not flip:  # a note has no hash of its own
        names += [f"{text}/train-000.json", f"{text}/train-000-00001.json"]
    for name in names:
        shutil.rmtree(tmp_path / "data")
        shutil.copytree(tmp_path / "copy", work)
        damage(Path(name))
        run(wanted)
        assert content(tmp_path / "data") == expected, name


def placed(wanted: config.Config, directory: Path, **changes: object) -> config.Config:
    """Returns the configuration with another data directory or other settings of `data`."""
    data = wanted.data.model_copy(update={"directory": str(directory), **changes})
    return wanted.model_copy(update={"data": data})


def test_a_second_call_does_nothing_and_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    first = run(wanted)
    assert any(line.split() == ["empty", "side", "0", "1", "1", "0"] for line in first), first
    assert any(line.split() == ["pairs", "kept", "250", "51", "2", "2"] for line in first), first
    assert any(line.split() == ["duplicate", "pair", "0", "2", "0", "0"] for line in first), first
    before = content(tmp_path / "data")
    stamps = {name: (tmp_path / "data" / name).stat().st_mtime_ns for name in before}
    for path in (tmp_path / "raw").iterdir():
        os.utime(path, (1, 1))  # only the content of an input file counts
    assert "nothing to do" in run(wanted)[-1]
    assert {name: (tmp_path / "data" / name).stat().st_mtime_ns for name in before} == stamps

    shard = tmp_path / "data" / "train" / "data-00002-of-00004.arrow"
    flipped = bytearray(shard.read_bytes())
    flipped[-50] ^= 1
    shard.write_bytes(flipped)
    facts = PreparedData.of(wanted).manifest
    opened = PreparedData(tmp_path / "data", facts).shards("train")
    with pytest.raises(
        InputError, match=r"data-00002.* is damaged \(sha256 .*or restore the data from a copy"
    ) as caught:
        for each in opened:
            PreparedData(tmp_path / "data", facts).verify(each)
    assert caught.value.status == Status.INPUT
    assert "data-00002" in run(wanted)[0]
    assert content(tmp_path / "data") == before


def test_shards_that_are_cut_or_missing_name_the_way_out(
    whole: config.Config, tmp_path: Path
) -> None:
    facts = PreparedData.of(whole).manifest
    copy = tmp_path / "data"
    shutil.copytree(whole.data.directory, copy)
    shard = copy / facts["shards"]["train"][0]["file"]
    sound = shard.read_bytes()
    for size in (0, 5, 300, len(sound) // 2):
        shard.write_bytes(sound[:size])
        with pytest.raises(InputError, match=r"data-00000.* is damaged .*Run nmt prepare again"):
            PreparedData(copy, facts).shards("train")
    shard.unlink()
    with pytest.raises(InputError, match=r"data-00000.* is missing"):
        PreparedData(copy, facts).shards("train")


def test_changed_settings_are_told_and_prepared_unless_a_run_used_the_data(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    with pytest.raises(InputError, match=r"No prepared data in .*/data\."):
        PreparedData.of(wanted)
    run(wanted)
    changed = placed(wanted, tmp_path / "data", max_length=30)
    with pytest.raises(InputError, match=r"other settings \(data.max_length was 60, is 30\)"):
        PreparedData.of(changed)

    (tmp_path / "run").mkdir()
    PreparedData.open(tmp_path / "data").mark_used(tmp_path / "run")
    notes: list[str] = []
    with pytest.raises(
        InputError, match=r"/data .*max_length was 60.*/run was trained on this data"
    ):
        prepare.prepare(changed, note=notes.append)
    assert not notes  # no word of preparing what is refused
    with pytest.raises(InputError) as caught:
        PreparedData.of(changed)
    assert f"and {tmp_path}/run was trained on this data. Choose another" in str(caught.value)
    [note] = (tmp_path / "data" / ".used-by").iterdir()
    content = note.read_bytes()
    note.write_bytes(content[:-9])
    with pytest.raises(InputError, match=r"\.used-by.*, the record of a run .*is damaged"):
        run(changed)
    note.write_bytes(content)
    assert "nothing to do" in run(wanted)[-1]
    (tmp_path / "data" / "tokenizer.model").unlink()
    assert "Prepared" in run(wanted)[-1]  # the run's own data may be made again
    with (tmp_path / "raw" / "a.en").open("a") as file:
        file.write("More.\n")
    with (tmp_path / "raw" / "a.de").open("a") as file:
        file.write("Mehr.\n")
    with pytest.raises(InputError, match="other input files"):
        run(wanted)
    (tmp_path / "run").rmdir()
    assert run(changed)[0].startswith("Preparing again: data.max_length was 60, is 30")
    assert PreparedData.of(changed).manifest["corpora"][0]["read"] == 251


def test_what_prepare_has_not_made_stays(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    corpus = tmp_path / "data" / "train" / "corpus.en"
    corpus.parent.mkdir(parents=True)
    corpus.write_text("mine")
    with pytest.raises(InputError, match=r"data/train/corpus.en was not created by nmt prepare"):
        run(wanted)
    assert corpus.read_text() == "mine"


@pytest.mark.parametrize("name", ["train/a.txt", ".work/thesis.tex", "test_set/notes"])
def test_somebodys_file_in_what_is_replaced_is_named_and_stays(tmp_path: Path, name: str) -> None:
    """This also holds for a manifest.json of another program."""
    wanted = settings(tmp_path)
    directory = Path(wanted.data.directory)
    path = directory / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    (directory / "manifest.json").write_text('{"name": "app"}')
    with pytest.raises(InputError, match=f"{name} was not created by nmt prepare"):
        run(wanted)
    assert path.read_text() == "mine"


def test_a_corpus_that_changes_while_it_is_read_is_told(tmp_path: Path, monkeypatch) -> None:
    wanted = settings(tmp_path)
    whole = prepare.deduplicate

    def deduplicate(job: Any, text: Any) -> Any:
        for path in map(Path, job.origin["inputs"]):
            if path.suffix != ".arrow":
                path.write_bytes(path.read_bytes() + b"")
                os.truncate(path, path.stat().st_size - 1)
        return whole(job, text)

    monkeypatch.setattr(prepare, "deduplicate", deduplicate)
    with pytest.raises(InputError, match="corpus changed while the data was being prepared"):
        run(wanted)
    assert not (Path(wanted.data.directory) / "manifest.json").exists()


@pytest.mark.parametrize("name", ["train", "validation", "tokenizer.model", ".work"])
@pytest.mark.parametrize("is_prepared", [True, False])
def test_links_are_refused_before_anything_is_touched(
    tmp_path: Path, name: str, is_prepared: bool
) -> None:
    wanted, elsewhere = settings(tmp_path), tmp_path / "elsewhere"
    if is_prepared:
        run(wanted)
    (tmp_path / "data").mkdir(exist_ok=True)
    link = tmp_path / "data" / name
    if link.exists():
        link.replace(elsewhere)
    else:
        elsewhere.mkdir()
        (elsewhere / "mine").write_text("mine")
    link.symlink_to(elsewhere)
    before = content(tmp_path)
    if is_prepared:
        assert "nothing to do" in run(wanted)[-1]  # reading through it is no harm
        assert content(tmp_path) == before
    changed = placed(wanted, tmp_path / "data", max_length=30)
    with pytest.raises(InputError, match=f"/data/{name} must not be a symbolic link"):
        run(changed)
    assert link.is_symlink() and content(tmp_path) == before


def test_a_link_that_comes_too_late_is_replaced_and_not_followed(
    tmp_path: Path, monkeypatch
) -> None:
    wanted, work = settings(tmp_path), prepare.run_stages
    mine = tmp_path / "mine" / "file"
    mine.parent.mkdir()
    mine.write_text("mine")

    def link_meanwhile(*arguments: Any) -> dict[str, Any]:
        made = work(*arguments)
        (tmp_path / "data" / "train").symlink_to(mine.parent)
        return made

    monkeypatch.setattr(prepare, "run_stages", link_meanwhile)
    run(wanted)
    assert mine.read_text() == "mine" and not (tmp_path / "data" / "train").is_symlink()
    assert "nothing to do" in run(wanted)[-1]


def test_a_run_that_begins_while_other_settings_are_prepared_keeps_its_data(
    tmp_path: Path, monkeypatch
) -> None:
    wanted = settings(tmp_path)
    run(wanted)
    (tmp_path / "run").mkdir()
    work = prepare.run_stages

    def begin_meanwhile(*arguments: Any) -> dict[str, Any]:
        made = work(*arguments)
        PreparedData.open(tmp_path / "data").mark_used(tmp_path / "run")
        return made

    monkeypatch.setattr(prepare, "run_stages", begin_meanwhile)
    changed = placed(wanted, tmp_path / "data", max_length=30)
    with pytest.raises(InputError, match="/run was trained on this data"):
        run(changed)
    PreparedData.of(wanted)
    monkeypatch.undo()
    done = set((tmp_path / "data" / ".work").rglob("*.arrow"))
    assert done and "nothing to do" in run(wanted)[-1]
    assert set((tmp_path / "data" / ".work").rglob("*.arrow")) == done  # for the other settings


def test_a_vocabulary_too_large_leaves_the_cleaned_text_for_the_next_try(tmp_path: Path) -> None:
    wanted = settings(tmp_path, vocabulary_size=90_000)
    with pytest.raises(
        InputError, match=r"a vocabulary of 90,000 tokens.*tokenizer.vocabulary_size"
    ):
        run(wanted)
    assert not (tmp_path / "data" / "manifest.json").exists()
    lines = run(settings(tmp_path))
    assert not any(line.startswith("Cleaning") for line in lines)
    assert not (tmp_path / "data" / ".work").exists()


def test_bad_corpora_stop_before_anything_is_written(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    with (tmp_path / "raw" / "t.en").open("a") as file:  # the last one that would be read
        file.write("one line more\n")
    with pytest.raises(InputError, match=r"has 3 lines, but .* has 2\."):
        run(wanted)
    assert not (tmp_path / "data").exists()
    same = write_corpus(tmp_path / "raw", "same", [("All the same", "All the same")] * 3)
    with pytest.raises(InputError, match=r"No training pairs are left .*copy of source: 3"):
        run(settings(tmp_path, train=[same]))
    blank = write_corpus(tmp_path / "raw", "blank", [(" ", "leer")] * 2)
    with pytest.raises(
        InputError, match=r"No validation pairs .*empty side: 2\)\. Check .* data\.validation\.$"
    ):
        run(settings(tmp_path, validation=[blank]))
    with pytest.raises(InputError, match=r"No training pairs are left .*max_length tokens: 302"):
        run(settings(tmp_path, max_length=2))


@pytest.mark.parametrize("bad_line", [3, 2500], ids=["in the sample", "while cleaning"])
@pytest.mark.parametrize("before", [None, [], [".lock"], ["notes.txt"]])
def test_a_refused_call_leaves_the_disk_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_line: int, before: list[str] | None
) -> None:
    """The error occurs after locking."""
    monkeypatch.setattr(clean, "SHARD_PAIRS", 10_000)
    lines = [f"{source}\t{target}\n" for source, target in PAIRS * 10]
    lines[bad_line - 1] = "one column\n"
    (tmp_path / "a.tsv").write_text("".join(lines))
    directory = tmp_path / "new" / "data"
    for name in before or []:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).touch()
    if before == []:
        directory.mkdir(parents=True)
    there = sorted(tmp_path.rglob("*"))
    corpora = [{"tsv": {"path": f"{tmp_path}/a.tsv"}}]
    wanted = settings(tmp_path, train=corpora, directory=str(directory), validation=[], test=[])
    there = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=f"a.tsv:{bad_line} has no column 1"):
        run(wanted)
    assert sorted(tmp_path.rglob("*")) == there
    run(placed(wanted, directory, train=settings(tmp_path).data.train))


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    wanted = settings(tmp_path)
    with atomic.lock(tmp_path / "data", "test"), pytest.raises(InputError, match="in use by test"):
        run(wanted)
    run(wanted)


def test_the_sample_for_the_tokenizer_is_bounded_and_evenly_spaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "SAMPLE_SENTENCES", 60)
    given: list[str] = []
    learn = vocabulary.train_tokenizer
    monkeypatch.setattr(
        vocabulary,
        "train_tokenizer",
        lambda text, *rest: learn(given.extend(text) or PLENTY, *rest),
    )
    run(
        settings(
            tmp_path, train=[write_corpus(tmp_path / "raw", "all", PAIRS)], validation=[], test=[]
        )
    )
    english = [source for source, _ in PAIRS]
    places = [english.index(text) for text in given if text in english]
    assert len(given) == 60
    assert places == [9 + 10 * i for i in range(30)]


PLENTY = [side for pair in PAIRS for side in pair]


def test_input_that_changed_after_it_was_prepared_is_named(tmp_path: Path):
    wanted = settings(tmp_path)
    run(wanted)
    data, source = PreparedData.of(wanted), tmp_path / "raw" / "a.en"
    assert data.changed_input() is None
    text, later = source.read_text(), (tmp_path / "data" / "manifest.json").stat().st_mtime + 9
    os.utime(source, (later, later))  # the same text, for example a new copy
    assert data.changed_input() is None
    source.write_text(text.replace("The dog", "A dogs!"))
    os.utime(source, (later, later))
    assert data.changed_input() == str(source)
    source.write_text(text + "More text.\n")
    os.utime(source, (0, 0))
    assert data.changed_input() == str(source)
    source.unlink()
    assert data.changed_input() is None


def test_a_corpus_that_cannot_be_downloaded_is_named_by_its_setting(tmp_path: Path, monkeypatch):
    """The corpus may come from a base file that the user did not write."""

    def no_route(corpus, data):
        if "v.en" in str(corpus):
            raise StorageError("Cannot load the corpus.")

    monkeypatch.setattr(prepare, "check_corpus", no_route)
    with pytest.raises(StorageError) as error:
        run(settings(tmp_path))
    assert error.value.problems == ("data.validation.0: Cannot load the corpus.",)
