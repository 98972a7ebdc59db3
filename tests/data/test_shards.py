"""Prepared data that somebody changes while they are used, and manifests that nobody wrote."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nmt.cli import main
from nmt.data import corpora, shards
from nmt.data.plan import Plan
from nmt.data.prepare import prepare
from nmt.data.prepared import PreparedData
from nmt.data.shards import Shard, pairs_of
from nmt.errors import DeniedError, InputError
from nmt.storage import manifest
from nmt.storage.opening import MAX_LINE_BYTES
from nmt.training import loading


@pytest.fixture
def config(tiny_data: Path, tmp_path: Path, settings):
    """A configuration whose data are the test's own."""
    shutil.copytree(tiny_data / "data", tmp_path / "data")
    return settings(data__directory=str(tmp_path / "data"))


def opened(config) -> list[Shard]:
    data = PreparedData.of(config)
    found = data.shards("train")
    for shard in found:
        data.verify(shard)
    return found


def cut(path: Path) -> None:
    os.truncate(path, 100)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xff" * path.stat().st_size)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


@pytest.mark.parametrize("change", [cut, overwrite, grow])
def test_a_shard_changed_in_its_place_is_named_before_it_is_read(config, change):
    """A mapped file that is cut short ends the process by SIGBUS when it is read."""
    found = opened(config)
    steps = Plan(found, 400, 1, 1).steps()
    next(steps)
    pairs_of(found, np.arange(20))
    change(found[0].path)
    for use in (
        lambda: pairs_of(found, np.arange(20)),
        lambda: next(Plan(found, 400, 1, 1).steps()),  # as at the beginning of an epoch
    ):
        with pytest.raises(InputError, match=r"changed while it was in use, .*\.arrow, run nmt"):
            use()


def touch(path: Path) -> None:
    os.utime(path, (1, 1))


def replace(path: Path) -> None:
    path.with_name("other").write_bytes(b"other")
    path.with_name("other").replace(path)


@pytest.mark.parametrize("change", [touch, replace, Path.unlink])
def test_a_shard_touched_replaced_or_removed_is_read_on(config, change):
    found = opened(config)
    expected = [
        (source.tolist(), target.tolist()) for source, target in pairs_of(found, np.arange(9))
    ]
    change(found[0].path)
    for _ in range(2):
        pairs = [
            (source.tolist(), target.tolist()) for source, target in pairs_of(found, np.arange(9))
        ]
        assert pairs == expected


def test_data_cut_while_a_run_trains_are_one_line(config, tmp_path: Path, monkeypatch, capsys):
    read, shard = loading.pairs_of, next((tmp_path / "data/train").glob("*.arrow"))
    steps: list[int] = []

    def cut_and_read(*arguments: Any) -> Any:  # where steps are read ahead: not while one is read
        steps.append(len(steps))
        if len(steps) == 4:
            cut(shard)
        return read(*arguments)

    monkeypatch.setattr(loading, "pairs_of", cut_and_read)
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert main(["train", str(tmp_path / "config.yaml")]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert line == f"nmt: error: changed while it was in use, {shard}, run nmt prepare again"


def at(*keys: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in keys[:-1]:
            content = content[key]  # type: ignore[index]
        content[keys[-1]] = to  # type: ignore[index]

    return change


FIRST = ("shards", "train", 0)
FORGERIES = {
    "no split": at("shards", to={"train": []}),
    "no validation": lambda content: content["shards"].pop("validation"),
    "no shards": at("shards", "train", to=[]),  # a plan without pairs never comes to a step
    "a list": at("shards", to=[]),
    "negative weight": at(*FIRST, "weight", to=-1.0),
    "weight no number": at(*FIRST, "weight", to=float("nan")),
    "no pairs": at(*FIRST, "pairs", to=0),
    "pairs a word": at(*FIRST, "pairs", to="many"),
    "no file": lambda content: content["shards"]["train"][0].pop("file"),
    "outside": at(*FIRST, "file", to="../x.arrow"),
    "entry a word": at("shards", "train", to=["data"]),
    "settings": at("settings", "tokenizer", to=7),
    "corpora": at("corpora", to=[{"split": "train"}]),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_manifest_is_one_line(config, tmp_path: Path, name: str, capsys):
    content = PreparedData.of(config).manifest
    FORGERIES[name](content)
    manifest.rewrite(tmp_path / "data", content)
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert main(["train", str(tmp_path / "config.yaml")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(("nmt: error: damaged manifest (", "nmt: error: manifest without "))
    assert line.endswith("data, run nmt prepare again")


@pytest.mark.parametrize(
    "sides", [([[5, 400, 3]], [[5, 3]]), ([[5, 3]], [[-1, 3]]), ([[], [5]], [[5], [5]])]
)
def test_ids_that_the_vocabulary_has_not_are_found_before_they_are_used(config, tmp_path, sides):
    data = PreparedData.of(config)
    entry = data.manifest["shards"]["train"][0]
    path = data.directory / entry["file"]
    shards.write_shard(path, *sides)
    entry["pairs"] = len(sides[0])
    data.manifest["files"][entry["file"]]["sha256"] = manifest.file_hash(path)
    with pytest.raises(InputError, match=r"ids beyond the 400 .* or empty sentences, .*\.arrow"):
        for shard in data.shards("train"):
            data.verify(shard)


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.EACCES, "Permission denied, .*arrow, check its permissions"),
     (errno.EMFILE, "Too many open files, .*arrow, raise the limit")],
)  # fmt: skip
def test_a_shard_that_may_not_be_read_is_not_called_damaged(config, monkeypatch, number, told):
    def denied(path):
        raise OSError(number, f"Failed to open local file '{path}'")

    data = PreparedData.of(config)
    monkeypatch.setattr(pa, "memory_map", denied)
    with pytest.raises(DeniedError, match=told):
        data.shards("train")


def test_data_that_may_not_be_read_are_not_made_anew_in_their_place(config, monkeypatch):
    hashed, told = manifest.file_hash, list[str]()

    def hashing(path):
        if path.suffix == ".arrow":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return hashed(path)

    monkeypatch.setattr(manifest, "file_hash", hashing)
    with pytest.raises(DeniedError):
        prepare(config, note=told.append)
    assert not told


def test_more_tokens_than_an_arrow_list_holds_are_refused_and_cannot_come(tmp_path: Path):
    class Long(list):
        def __len__(self) -> int:
            return 2**30

    with pytest.raises(ValueError, match="more than an Arrow list holds"):
        shards.write_shard(tmp_path / "a", [Long(), Long()], [[1], [1]])
    assert list(tmp_path.iterdir()) == []
    # a chunk ends with the pair that fills it; a character has four bytes, a token each, at most
    assert 4 * corpora._CHUNK_CHARACTERS + 2 * MAX_LINE_BYTES < 2**31
