"""All problems are reported at once, each with its line, its key and the allowed values."""

from pathlib import Path

import pytest

from nmt.config import load
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
        f"{path}:3: Unknown key data.max_lenght. Did you mean data.max_length?",
        f"{path}:8: Unknown key data.train.1.text.targt. Did you mean target?",
        f'{path}:16: training.max_steps must be {whole}, not "ten".',
        f"{path}:17: training.gradient_clip must be a number above 0 to 1,000,000 or null, not -1.",
        f"{path}:18: training.micro_batches must be a whole number from 1 to 10,000 or auto, "
        "not 10001.",
        f"{path}:19: Unknown key modle. Did you mean model?",
        "overrides: Unknown key model.d_modl. Did you mean model.d_model?",
        "overrides: decoding.beam must be a whole number from 1 to 1,000, not 0.",
    ):
        assert expected in found
    assert len(found) == 8  # each problem just once


BAD_SETTINGS = [
    (GOOD + "  seed: .nan\n", "training.seed must be a whole number from 0 to 4,294,967,295"),
    (GOOD + "  seed: 1.5\n", "training.seed must be a whole number from 0 to"),
    (
        GOOD + "  compile: yes\n",
        'c.yaml:15: training.compile must be true or false or auto, not "yes"',
    ),
    (GOOD + "  precision: fp16\n", 'training.precision must be fp32 or bf16 or auto, not "fp16"'),
    (GOOD + "  learning_rate_factor: .inf\n", "a number above 0 to 1,000,000, not Infinity"),
    (GOOD + "  average_last: 20\n", "average_last (20) must not exceed"),
    (GOOD + "  batch_tokens: 100\n", "data.max_length (256) must not exceed"),
    (
        GOOD + "  max_steps: 1" + "0" * 30 + "\n",
        "max_steps must be a whole number from 1 to 1,000,",
    ),
    (GOOD + "  micro_batches: 10001\n", "from 1 to 10,000 or auto, not 10001"),
    (GOOD + "  early_stopping: 3\n", "early_stopping requires data.validation"),
    (
        GOOD + "  max-steps: 1\n",
        "c.yaml:15: Unknown key training.max-steps. Did you mean training.max_steps?",
    ),
    (GOOD + "foo-bar: 1\n", "Unknown key foo-bar"),
    (GOOD + "max_stps: 1\n", "Unknown key max_stps. Did you mean training.max_steps?"),
    (GOOD + "  max_steps: 1e-5\n", "max_steps must be a whole number from 1 to 1,000,"),
    (
        GOOD + "model: {d_model: 1_000_000_000}\n",
        "d_model must be a whole number from 1 to 100,000",
    ),
    (GOOD + "model: {d_model: 7}\n", "d_model must be even"),
    (GOOD.replace("runs/x", '"a\\0b"'), "training.run_directory must be a non-empty string"),
    (GOOD.replace("runs/x", '"\\ud800"'), "training.run_directory must be a non-empty string"),
    (GOOD.replace("runs/x", "data/x"), "are both data/x"),
    (GOOD.replace("pairs: 600", "pair: 600"), "Did you mean pairs?"),
    (
        GOOD.replace("- {demo: {pairs: 600, seed: 1}}", "- {foo: 1}"),
        'c.yaml:11: data.train.5 is {"foo": 1}, but must have exactly one of the keys hub, text',
    ),
    (
        GOOD.replace("target: a.de.gz", "target:a.de.gz"),
        'c.yaml:7: Write "target: a.de.gz", with a space after the colon.',
    ),
    (GOOD.replace("  target_language: no\n", ""), "data.target_language is missing"),
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
        ("model.d_ff", "not a valid override"),
        ("=3", "not a valid override"),
        ("model..d_ff=3", "not a valid override"),
        ("model.d_ff=[", "Invalid YAML"),
        ("model={d_ff: 1, d_ff: 2}", "Duplicate key d_ff"),
        ("model.d_ff=", "model.d_ff must be a whole number from 1 to 100,000, not null"),
        ("model=null", "model must be a mapping of settings, not null"),
        ("data.train=[]", "data.train is empty"),
        ("data.train.0.weight=3", "command line: data.train must be a list of corpora"),
        ("data.train=[{text: {source: a}}]", "command line: data.train.0.text.target is missing"),
        ("base=x.yaml", "Unknown key base"),
        # so small that no epoch would ever contain a pair
        ("data.train=[{hub: x, split: y, weight: 1e-9}]", "weight must be a number from 0.0001"),
        ("training.learning_rate_factor=!!python/name:os.system", "Invalid YAML"),
    ],
)
def test_r18_bad_overrides(tmp_path: Path, monkeypatch, capfd, override: str, expected: str):
    """A second mistake on the same command line is reported, too."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, GOOD)
    found = refused(capfd, "c.yaml", override, "decoding.beam=0")
    assert any(expected in line for line in found)
    assert any("decoding.beam must be a whole number from 1 to 1,000, not 0" in f for f in found)
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_r18_a_key_that_is_not_unicode(tmp_path: Path):
    """Other problems are reported once the key is removed."""
    assert problems(write(tmp_path, GOOD), "\udcff=1") == [
        r"overrides: The key '\udcff' is not valid Unicode. Remove it."
    ]
    path = write(tmp_path, GOOD + '"\\ud800": 1\n')
    line = len(path.read_text().splitlines())
    assert problems(path) == [rf"{path}:{line}: The key '\ud800' is not valid Unicode. Remove it."]


def test_settings_that_conflict_are_told_with_the_places_of_both(tmp_path: Path):
    path = write(tmp_path, GOOD + "  keep_checkpoints: 3\n  early_stopping: 3\n")
    above = write(tmp_path, "base: c.yaml\ndata: {max_length: 200}\n", "above.yaml")
    [line] = problems(above, "training.early_stopping=null", "training.average_last=4")
    assert line == (
        f"overrides and {path}:15: training.average_last (4) must not exceed "
        "training.keep_checkpoints (3)."
    )
    changes = ["training.average_last=1", "training.early_stopping=null"]
    [line] = problems(above, *changes, "training.batch_tokens=100")
    assert line.startswith(f"{above}:2 and overrides: ") and "batch_tokens (100)" in line
    [line] = problems(above, *changes, "training.run_directory=data/x/train")
    assert line.startswith(f"overrides and {path}:2: ")
    [line] = problems(above, *changes[:1])
    assert f"{path}:16: training.early_stopping requires data.validation" in line
    [line] = problems(above, *changes, "model.d_model=7")
    assert line.startswith("overrides: ") and "but is 7" in line


def test_a_key_without_its_section_is_recognized(tmp_path: Path):
    path = write(tmp_path, GOOD + "beam: 3\n")
    assert problems(path, "max_steps=500", "dropouts=1")[:2] == [
        f"{path}:15: Unknown key beam. Did you mean decoding.beam?",
        "overrides: Unknown key max_steps. Did you mean training.max_steps?",
    ]


@pytest.mark.parametrize("text", ["The man reads.\nThe dog: it sleeps.\n", "one\ntwo\n"])
def test_a_text_file_is_not_a_configuration(tmp_path: Path, text: str):
    path = tmp_path / "train.en"
    path.write_text(text)
    [found] = problems(path)
    assert f"{path} is not a configuration. Specify a YAML file" in found


def test_spaces_around_an_override_are_ignored(tmp_path: Path):
    assert load(write(tmp_path, GOOD), ["training.max_steps = 7"]).training.max_steps == 7


def test_a_deeply_nested_value_is_a_problem_like_others(tmp_path: Path):
    [found] = problems(write(tmp_path, GOOD), f"{'a.' * 5000}a=1")
    assert "Unknown key a" in found
