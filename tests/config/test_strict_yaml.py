"""YAML 1.2, strictly: what is no plain configuration is refused with its line."""

from pathlib import Path

import pytest

from nmt.config import differences, load
from tests.config.files import GOOD, refused, write


def test_yaml_1_2_scalars(tmp_path: Path):
    config = load(write(tmp_path, GOOD))
    assert config.data.target_language == "no"
    assert config.training.label_smoothing == 1e-9


def test_what_is_written_out_reads_back_the_same(tmp_path: Path):
    awkward = ["training.gradient_clip=1.5", "data.source_language='1e5'", "data.directory='08'"]
    config = load(write(tmp_path, GOOD), awkward)
    again = load(write(tmp_path, config.to_yaml(), "again.yaml"))
    assert again == config
    assert differences(config, again) == {}


BAD_YAML: list[tuple[str | bytes, str]] = [
    ("data: {directory: a\n", "not valid YAML"),
    ("\tdata: 1\n", "not valid YAML"),
    ("data:\n\tdirectory: x\n", "c.yaml:2"),
    ("--- 1\n--- 2\n", "not valid YAML (but found another document)"),
    ("data: \x00\n", "not valid YAML"),
    (b"a: 1\nb: \xe4\n", "not valid UTF-8, c.yaml:2"),
    ("data: 1\n".encode("utf-16"), "not valid UTF-8"),
    ("data: 1\ndata: 2\nmodel: 3\nmodel: 4\n", "duplicate key data (first on line 1), c.yaml:2"),
    ("data: 1\ndata: 2\nmodel: 3\nmodel: 4\n", "duplicate key model (first on line 3), c.yaml:4"),
    ("data: {a: 1, a: 2}\n", "duplicate key data.a"),
    ("a: !!python/object/apply:os.system [touch canary]\n", "not valid YAML"),
    ("a: !!python/name:os.system\n", "not valid YAML"),
    ("a: !!bool maybe\n", "not valid YAML (the tag !!bool is not supported), c.yaml:1"),
    ("a:\n- !!set {b, c}\n", "not valid YAML (the tag !!set is not supported), c.yaml:2"),
    ("a: 1\nb: &x [1]\n", "not valid YAML (anchors and aliases are not supported), c.yaml:2"),
    ("a: 1\nb:\n- *x\n", "not valid YAML (anchors and aliases are not supported), c.yaml:3"),
    ("? [a, b]\n: 1\n", "a key that is not a word"),
    (GOOD + "1.5: 2\n", "a key that is not a word, c.yaml:15"),
    ("x: " + "1" * 10_000_000, "larger than"),
    ("x: 1" + "0" * 5000, "not valid YAML (Exceeds the limit"),
    ("[" * 100_000, "nested too deep, c.yaml, flatten it"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_YAML, ids=range(len(BAD_YAML)))
def test_r18_bad_yaml(tmp_path: Path, monkeypatch, capfd, text: str | bytes, expected: str):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert any(expected in line for line in refused(capfd, "c.yaml"))
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]
