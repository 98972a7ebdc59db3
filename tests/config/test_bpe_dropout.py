"""What earlier versions wrote with `tokenizer.bpe_dropout`, which is no setting any more."""

from pathlib import Path

import pytest

from nmt.cli import main
from nmt.config import load, load_resolved
from nmt.data.prepared import PreparedData
from nmt.storage import manifest

KEY = "vocabulary_size: 400\n"


def as_before(path: Path, value: str) -> None:
    """Puts the setting into a configuration as it was written."""
    text = path.read_text(encoding="utf-8")
    assert KEY in text
    path.write_text(text.replace(KEY, f"{KEY}  bpe_dropout: {value}\n"), encoding="utf-8")


@pytest.fixture
def path(settings, tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(settings(training__max_steps=1).to_yaml(), encoding="utf-8")
    return path


@pytest.mark.parametrize("value", ["0", "0.0"])
def test_where_it_was_off_it_is_left_out(path: Path, value: str):
    expected = load(path)
    as_before(path, value)
    assert load(path, ["tokenizer.bpe_dropout=0"]) == load_resolved(path) == expected
    assert "bpe_dropout" not in load(path).to_yaml()


def test_training_with_it_is_refused_in_one_line(path: Path, capsys):
    as_before(path, "0.1")
    above = path.with_name("above.yaml")
    above.write_text(f"base: {path.name}\n", encoding="utf-8")
    for command in (["prepare", str(above)], ["train", str(path)]):
        assert main(command) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith(f"nmt: error: tokenizer.bpe_dropout is 0.1, {path}:")
    assert main(["prepare", str(path), "tokenizer={bpe_dropout: no}"]) == 2
    assert "tokenizer.bpe_dropout is no, " in capsys.readouterr().err


def test_a_model_made_with_it_translates_and_its_data_are_refused(settings, tmp_path, capsys):
    own = {"data__directory": str(tmp_path / "data"), "data__validation": [], "data__test": []}
    config, path = settings(training__max_steps=1, **own), tmp_path / "config.yaml"
    path.write_text(config.to_yaml(), encoding="utf-8")
    assert main(["train", str(path)]) == 0
    model = tmp_path / "run/model"
    as_before(model / "config.yaml", "0.1")
    facts = manifest.read(model, "model")
    del facts["files"]
    manifest.write(model, "model", facts)
    content = PreparedData.of(config).manifest
    content["settings"]["tokenizer"]["bpe_dropout"] = 0.1
    content["shards"]["train"] += [content["shards"]["train"][0] | {"segmentation": 1}]
    manifest.rewrite(tmp_path / "data", content)
    (tmp_path / "in.txt").write_text("The dog sleeps.\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["translate", str(model), "--input", str(tmp_path / "in.txt")]) == 0
    capsys.readouterr()
    assert main(["train", str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("nmt: error: prepared with other settings (tokenizer.bpe_dropout was 0")
