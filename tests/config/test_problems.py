"""What is wrong is named at once, each with its line, its key and what it may be."""

from pathlib import Path

import pytest

from tests.config.files import GOOD, problems, refused, write


def test_r18_every_problem_is_named_at_once_with_line_and_key(tmp_path: Path):
    text = GOOD.replace("directory: data/x", "directory: data/x\n  max_lenght: 3").replace(
        "target: a.de.gz", "targt: a.de.gz"
    )
    text += "  max_steps: ten\n  gradient_clip: -1\n  micro_batches: 10001\nmodle: {}\n"
    path = write(tmp_path, text)
    found = problems(path, "model.d_modl=3", "decoding.beam=0")
    whole = "a whole number from 1 to 1,000,000,000"
    for expected in (
        f"unknown key data.max_lenght, {path}:3, did you mean max_length?",
        f"unknown key data.train.1.text.targt, {path}:8, did you mean target?",
        f'training.max_steps must be {whole}, found "ten", {path}:16, correct it',
        "training.gradient_clip must be a number above 0 to 1,000,000 or null, found -1, "
        f"{path}:17, correct it",
        "training.micro_batches must be a whole number from 1 to 10,000 or auto, found 10001, "
        f"{path}:18, correct it",
        f"unknown key modle, {path}:19, did you mean model?",
        "unknown key model.d_modl, overrides, did you mean d_model?",
        "decoding.beam must be a whole number from 1 to 1,000, found 0, overrides, correct it",
    ):
        assert expected in found
    assert len(found) == 8  # all at once, each once


BAD_SETTINGS = [
    (GOOD + "  seed: .nan\n", "training.seed must be a whole number from 0 to 4,294,967,295"),
    (GOOD + "  seed: 1.5\n", "training.seed must be a whole number from 0 to"),
    (
        GOOD + "  compile: yes\n",
        'training.compile must be true or false or auto, found "yes", c.yaml:15',
    ),
    (GOOD + "  precision: fp16\n", 'training.precision must be fp32 or bf16, found "fp16"'),
    (GOOD + "  learning_rate_factor: .inf\n", "a number above 0 to 1,000,000, found Infinity"),
    (GOOD + "  average_last: 20\n", "average_last (20) must not exceed"),
    (GOOD + "  batch_tokens: 100\n", "data.max_length (256) must not exceed"),
    (
        GOOD + "  max_steps: 1" + "0" * 30 + "\n",
        "max_steps must be a whole number from 1 to 1,000,",
    ),
    (GOOD + "  micro_batches: 10001\n", "from 1 to 10,000 or auto, found 10001"),
    (GOOD + "  early_stopping: 3\n", "early_stopping needs data.validation"),
    (GOOD + "  finished_model: better\n", "finished_model better needs data.validation"),
    (
        GOOD + "  max-steps: 1\n",
        "unknown key training.max-steps, c.yaml:15, did you mean max_steps?",
    ),
    (GOOD + "foo-bar: 1\n", "unknown key foo-bar"),
    (
        GOOD + "model: {d_model: 1_000_000_000}\n",
        "d_model must be a whole number from 1 to 100,000",
    ),
    (GOOD + "model: {d_model: 7}\n", "d_model must be even"),
    (GOOD.replace("runs/x", '"a\\0b"'), "training.run_directory must be text"),
    (GOOD.replace("runs/x", '"\\ud800"'), "training.run_directory must be text"),
    (GOOD.replace("runs/x", "data/x"), "are both data/x"),
    (GOOD.replace("pairs: 600", "pair: 600"), "did you mean pairs?"),
    (GOOD.replace("- {demo: {pairs: 600, seed: 1}}", "- {foo: 1}"), "exactly one of hub, text"),
    (GOOD.replace("  target_language: no\n", ""), "missing key data.target_language"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_SETTINGS, ids=range(len(BAD_SETTINGS)))
def test_r18_bad_settings(tmp_path: Path, monkeypatch, capfd, text: str, expected: str):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_bytes(text.encode())
    assert any(expected in line for line in refused(capfd, "c.yaml"))
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.d_ff", "not an override"),
        ("=3", "not an override"),
        ("model..d_ff=3", "not an override"),
        ("model.d_ff=[", "not valid YAML"),
        ("model={d_ff: 1, d_ff: 2}", "duplicate key d_ff"),
        ("model.d_ff=", "model.d_ff must be a whole number from 1 to 100,000, found null"),
        ("model=null", "model must be a mapping of settings, found null"),
        ("data.train=[]", "data.train must not be empty"),
        ("data.train.0.weight=3", "data.train must be a list of corpora"),
        ("base=x.yaml", "unknown key base"),
        # so rarely that no epoch would ever have a pair
        ("data.train=[{hub: x, split: y, weight: 1e-9}]", "weight must be a number from 0.0001"),
        ("training.learning_rate_factor=!!python/name:os.system", "not valid YAML"),
    ],
)
def test_r18_bad_overrides(tmp_path: Path, monkeypatch, capfd, override: str, expected: str):
    """A second mistake on the same command line is named as well."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, GOOD)
    found = refused(capfd, "c.yaml", override, "decoding.beam=0")
    assert any(expected in line for line in found)
    assert any("decoding.beam must be a whole number from 1 to 1,000, found 0" in f for f in found)
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_settings_that_conflict_are_told_with_the_places_of_both(tmp_path: Path):
    path = write(tmp_path, GOOD + "  keep_checkpoints: 3\n  early_stopping: 3\n")
    above = write(tmp_path, "base: c.yaml\ndata: {max_length: 200}\n", "above.yaml")
    [line] = problems(above, "training.early_stopping=null", "training.average_last=4")
    assert line == (
        "training.average_last (4) must not exceed training.keep_checkpoints (3), "
        f"overrides and {path}:15, correct it"
    )
    changes = ["training.average_last=1", "training.early_stopping=null"]
    [line] = problems(above, *changes, "training.batch_tokens=100")
    assert f"batch_tokens (100), {above}:2 and overrides, correct it" in line
    [line] = problems(above, *changes, "training.run_directory=data/x/train")
    assert f", overrides and {path}:2, correct it" in line
    [line] = problems(above, *changes[:1])
    assert f"early_stopping needs data.validation, which is empty, {path}:16, correct" in line
    [line] = problems(above, *changes, "model.d_model=7")
    assert "found 7, overrides, correct it" in line


def test_a_key_without_its_section_is_recognized(tmp_path: Path):
    path = write(tmp_path, GOOD + "beam: 3\n")
    assert problems(path, "max_steps=500", "dropouts=1")[:2] == [
        f"unknown key beam, {path}:15, did you mean decoding.beam?",
        "unknown key max_steps, overrides, did you mean training.max_steps?",
    ]
