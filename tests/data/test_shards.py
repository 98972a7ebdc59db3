"""Unreadable prepared data, and forged manifests."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datasets import load_from_disk

from nmt.cli import main
from nmt.data import shards
from nmt.data.pair import Pair
from nmt.data.prepare import prepare
from nmt.data.prepared_data import PreparedData
from nmt.errors import DeniedError
from nmt.storage import manifest


@pytest.fixture
def config(tiny_data: Path, tmp_path: Path, settings):
    """A configuration with a copy of the data for the test."""
    shutil.copytree(tiny_data / "data", tmp_path / "data")
    return settings(data__directory=str(tmp_path / "data"))


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
    "a list": at("shards", to=[]),
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
    assert "manifest.json is damaged (" in line or "manifest without " in line
    assert line.endswith("Run nmt prepare again, or restore the data from a copy.")


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.EACCES, r"Permission denied: .*arrow\. Check the permissions"),
     (errno.EMFILE, r"Too many open files: .*arrow\. Raise the limit")],
)  # fmt: skip
def test_a_shard_that_may_not_be_read_is_not_called_damaged(config, monkeypatch, number, told):
    def denied(path):
        raise OSError(number, f"Failed to open local file '{path}'")

    data = PreparedData.of(config)
    monkeypatch.setattr(pa, "memory_map", denied)
    with pytest.raises(DeniedError, match=told):
        data.shards("train")


def test_data_that_may_not_be_read_are_not_made_anew_in_their_place(config, monkeypatch):
    opened, told = Path.open, list[str]()

    def opening(path, *mode, **options):
        if path.suffix == ".arrow":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *mode, **options)

    monkeypatch.setattr(Path, "open", opening)
    with pytest.raises(DeniedError):
        prepare(config, note=told.append)
    assert not told


def test_extra_columns_stay_with_their_pairs_from_text_to_ids(tmp_path: Path):
    """Some shards of a split may lack columns; `datasets` reads the whole split."""
    ids = [np.array([5, 6, 2], "int32"), np.array([7, 2], "int32"), np.array([2], "int32")]
    pairs = [Pair(one, one, {"weight": i / 2, "each": one / 4}) for i, one in enumerate(ids)]
    (tmp_path / "train").mkdir()
    shards.write_shard(tmp_path / "train/a", pairs)
    shards.write_shard(tmp_path / "train/b", [Pair(ids[0], ids[1])])
    found = shards.pairs_of([shards.read_shard(tmp_path / "train/a")], np.array([2, 0]))
    for pair, expected in zip(found, (pairs[2], pairs[0]), strict=True):
        assert pair.source.tolist() == pair.target.tolist() == expected.source.tolist()
        assert pair.columns["weight"] == expected.columns["weight"]
        assert pair.columns["each"].tolist() == expected.columns["each"].tolist()
    assert dict(shards.read_shard(tmp_path / "train/b").columns) == {}
    shards.write_split_description(tmp_path / "train", ["a", "b"], "x")
    loaded = load_from_disk(str(tmp_path / "train"))
    assert loaded["weight"][:] == [0.0, 0.5, 1.0, None]
    assert loaded["each"][1] == [1.75, 0.5]

    texts = [Pair(word, word, {"weight": i + 0.25}) for i, word in enumerate("abc")]
    shards.write_text(tmp_path / "text", texts, [1, 2, 3])
    assert shards.text_pairs(shards.read_text(tmp_path / "text")) == texts
