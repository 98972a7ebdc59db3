"""Strict YAML 1.2: anything but a plain configuration is refused, with its line number."""

from pathlib import Path

import pytest

from nmt.config import differences, load
from tests.config.files import GOOD, refused, write


def test_yaml_1_2_scalars(tmp_path: Path):
    config = load(write(tmp_path, GOOD))
    assert config.data.target_language == "no"
    assert config.training.label_smoothing == 1e-9
    numbers = ["training.max_steps=1e5", "training.seed=2.5E3", "training.learning_rate_factor=1e1"]
    training = load(tmp_path / "c.yaml", numbers).training
    assert (training.max_steps, training.seed, training.learning_rate_factor) == (100_000, 2500, 10)


def test_what_is_written_out_reads_back_the_same(tmp_path: Path):
    awkward = ["training.gradient_clip=1.5", "data.source_language='1e5'", "data.directory='08'"]
    config = load(write(tmp_path, GOOD), awkward)
    again = load(write(tmp_path, config.to_yaml(), "again.yaml"))
    assert again == config
    assert differences(config, again) == {}


BAD_YAML: list[tuple[str | bytes, str]] = [
    ("data: {directory: a\n", "Invalid YAML"),
    ("\tdata: 1\n", "Invalid YAML"),
    ("data:\n\tdirectory: x\n", "that cannot start any token). Indent with spaces, not with tabs."),
    (
        "data:\n  max_length 3\n  train: []\n",
        "c.yaml:3: Invalid YAML (mapping values are not allowed here). Check the",
    ),
    (
        "data:\n  seed: 1\n  length:3\n  x: 1\n",
        "c.yaml:3: Invalid YAML (could not find expected ':')",
    ),
    ("--- 1\n--- 2\n", "Invalid YAML (but found another document)"),
    ("data: \x00\n", "c.yaml:1: Invalid YAML (the character U+0000 is not allowed)."),
    ("a: 1\nb: \x0b\n", "c.yaml:2: Invalid YAML (the character U+000B is not allowed)."),
    (b"a: 1\nb: \xe4\n", "c.yaml:2: The line is not UTF-8"),
    ("data: 1\n".encode("utf-16"), "is not UTF-8"),
    ("data: 1\ndata: 2\nmodel: 3\nmodel: 4\n", "c.yaml:2: Duplicate key data, first on line 1"),
    ("data: 1\ndata: 2\nmodel: 3\nmodel: 4\n", "c.yaml:4: Duplicate key model, first on line 3"),
    ("data: {a: 1, a: 2}\n", "Duplicate key data.a"),
    ("a: !!python/object/apply:os.system [touch canary]\n", "Invalid YAML"),
    ("a: !!python/name:os.system\n", "Invalid YAML"),
    ("a: !!bool maybe\n", "c.yaml:1: Invalid YAML (the tag !!bool is not supported)"),
    ("a:\n- !!set {b, c}\n", "c.yaml:2: Invalid YAML (the tag !!set is not supported)"),
    ("a: 1\nb: &x [1]\n", "c.yaml:2: Invalid YAML (anchors and aliases are not supported)"),
    ("a: 1\nb:\n- *x\n", "c.yaml:3: Invalid YAML (anchors and aliases are not supported)"),
    ("? [a, b]\n: 1\n", "not a string"),
    (GOOD + "1.5: 2\n", "c.yaml:15: A key is not a string"),
    ("x: " + "1" * 10_000_000, "larger than"),
    ("x: 1" + "0" * 5000, "Invalid YAML (Exceeds the limit"),
    ("[" * 100_000, "c.yaml: The YAML is nested too deeply"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_YAML, ids=range(len(BAD_YAML)))
def test_r18_bad_yaml(tmp_path: Path, monkeypatch, capfd, text: str | bytes, expected: str):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert any(expected in line for line in refused(capfd, "c.yaml"))
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]
