"""Loading a configuration from its file, its `base:` and overrides."""

import os
from pathlib import Path

import pytest

from nmt.config import MAY_CHANGE, differences, load
from nmt.data.corpora import read_corpus
from nmt.data.pair import Pair
from nmt.errors import InputError
from tests.config.files import GOOD, problems, refused, write


def test_a_corpus_is_of_the_kind_that_it_names(tmp_path: Path):
    config = load(write(tmp_path, GOOD))
    assert len({type(corpus) for corpus in config.data.train}) == 6


def test_a_single_override_is_not_read_letter_by_letter():
    with pytest.raises(
        InputError, match=r"overrides must be a list of strings, not the string model\.heads=2"
    ):
        load("none.yaml", "model.heads=2")


def test_base_and_overrides(tmp_path: Path):
    write(tmp_path, GOOD)
    above = write(tmp_path, "base: c.yaml\nmodel: {d_ff: 7}\ndata: {max_length: 9}\n", "above.yaml")
    config = load(above, ["training.max_steps=3", "model.norm=pre", "training.gradient_clip=null"])
    assert load(above, ["data.directory=a=b"]).data.directory == "a=b"
    assert (config.model.d_ff, config.data.max_length, config.model.norm) == (7, 9, "pre")
    assert config.training.max_steps == 3
    assert config.data.directory == "data/x"
    assert differences(load(tmp_path / "c.yaml"), config).keys() == {
        "model.d_ff", "data.max_length", "training.max_steps", "model.norm",
    }  # fmt: skip


def test_a_mistake_is_told_where_the_value_that_counts_stands(tmp_path: Path):
    """Each of these keys is wrong in the base, too."""
    below = write(tmp_path, GOOD + "  max_steps: 0\n  log_every: 0\n  validate_every: 0\n")
    lines = below.read_text().count("\n")
    above = write(
        tmp_path, "base: c.yaml\ntraining: {max_steps: -1, log_every: -1}\n", "above.yaml"
    )
    found = [line.partition(": ") for line in problems(above, "training.log_every=-2")]
    places = {text.split()[0]: (place, text.split()[-1]) for place, _, text in found}
    assert places["training.max_steps"] == (f"{above}:2", "-1.")
    assert places["training.log_every"] == ("overrides", "-2.")
    assert places["training.validate_every"] == (f"{below}:{lines}", "0.")
    write(
        tmp_path, GOOD.replace("{hub: wmt/wmt14, name: de-en, split: train}", "{text: {target: b}}")
    )
    text = "base: c.yaml\n\n\ndata:\n  train:\n    - {text: {source: a}}\n"
    above = write(tmp_path, text, "above.yaml")
    assert problems(above) == [f"{above}:6: data.train.0.text.target is missing."]


def test_paths_are_relative_to_where_the_command_is_run_and_base_to_its_file(
    tmp_path: Path, monkeypatch
):
    for name in ("configs", "shared", "work"):
        (tmp_path / name).mkdir()
    text = GOOD.replace("a.en.gz", "a.en").replace("a.de.gz", "a.de")
    write(tmp_path / "shared", text, "base.yaml")
    path = write(tmp_path / "configs", "base: ../shared/base.yaml\n")
    (tmp_path / "work/a.en").write_text("here\n")
    (tmp_path / "work/a.de").write_text("hier\n")
    monkeypatch.chdir(tmp_path / "work")
    config = load(Path("../configs") / path.name, ["training.run_directory=runs/y"])
    assert list(read_corpus(config.data.train[1], config.data, "train")) == [Pair("here", "hier")]
    assert (config.data.directory, config.training.run_directory) == ("data/x", "runs/y")


def test_a_tilde_in_any_path_is_the_home_directory(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    corpora = [
        "{hub: ~/a, split: train}", "{text: {source: ~/a, target: ~/a}}", "{tsv: {path: ~/a}}",
        "{parquet: {path: ~/a, source_column: s, target_column: t}}",
        "{jsonl: {path: ~/a, source_column: s, target_column: t}}",
    ]  # fmt: skip
    origin = write(tmp_path, load(write(tmp_path, GOOD)).to_yaml(), "config.yaml").parent
    paths = [f"data.train=[{', '.join(corpora)}]", "data.directory=~/d", "tokenizer.model=~/m"]
    text = load(tmp_path / "c.yaml", [*paths, "training.run_directory=~/r"]).to_yaml()
    assert "~" not in text and text.count(str(tmp_path)) == 9
    tuned = load(tmp_path / "c.yaml", ["training.initialize_from=~/"])
    assert tuned.training.initialize_from == f"{origin}/"


def test_r18_a_base_that_leads_back(tmp_path: Path):
    write(tmp_path, "base: b.yaml\n", "a.yaml")
    assert "form a cycle" in problems(write(tmp_path, "base: a.yaml\n", "b.yaml"))[0]


BAD_FILES = [
    ("", "c.yaml has no sections"),
    ("# nothing\n", "c.yaml has no sections"),
    ("- a\n", "c.yaml has no sections"),
    ("base: c.yaml\n", "form a cycle"),
    ("base: none.yaml\n", "none.yaml does not exist. Check the path, which is relative to the"),
    ('base: "a\\0b"\n', "does not exist"),
    ('base: "\\ud800"\n', "does not exist"),
    ("base: .\n", "is a directory"),
    ("base: [c.yaml]\n", "c.yaml:1: base must be a file name"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_r18_bad_files(tmp_path: Path, monkeypatch, capfd, text: str, expected: str):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_bytes(text.encode())
    assert any(expected in line for line in refused(capfd, "c.yaml"))
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_r18_files_that_cannot_be_read(tmp_path: Path):
    assert "does not exist" in problems(tmp_path / "none.yaml")[0]
    assert "is a directory" in problems(tmp_path)[0]
    os.mkfifo(tmp_path / "pipe.yaml")  # opening it would block
    assert "is a pipe or device" in problems(tmp_path / "pipe.yaml")[0]
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(OSError, match="symbolic links"):
        load(tmp_path / "loop.yaml")


def test_what_may_change_when_a_run_goes_on_is_what_is_promised():
    """Number of steps, intervals, decoding, and the run directory, because a run may be moved."""
    training = {"max_steps", "max_hours", "checkpoint_every", "keep_checkpoints", "average_last",
                "validate_every", "log_every", "early_stopping", "finished_model",
                "run_directory", "process_group_timeout_s"}  # fmt: skip
    decoding = {"beam", "length_penalty", "max_extra_length"}
    promised = {f"training.{key}" for key in training} | {f"decoding.{key}" for key in decoding}
    assert promised == MAY_CHANGE
