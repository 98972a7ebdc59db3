"""Fine-tuning as in docs/data.md: the second configuration starts from the first one's model."""

from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from nmt.cli import main
from nmt.config import load
from tests.tiny import tiny_settings


@pytest.fixture(scope="module")
def first(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose model has 60 learned positions, and dropout."""
    settings = tiny_settings(tiny_data)
    settings["model"] |= {"positions": "learned", "norm": "pre", "dropout": 0.2}
    folder = tmp_path_factory.mktemp("first")
    settings["training"] |= {"run_directory": str(folder / "run"), "max_steps": 4}
    (folder / "first.yaml").write_text(yaml.safe_dump(settings))
    torch.set_num_threads(1)
    assert main(["train", str(folder / "first.yaml")]) == 0
    return folder / "run"


def second(folder: Path, initialize_from: Path, **sections) -> Path:
    """Writes the second configuration, without settings of model and tokenizer by default."""
    for language, line in (("en", "The dog sleeps.\n"), ("de", "Der Hund schläft.\n")):
        (folder / f"second.{language}").write_text(line)
    text = {"text": {"source": str(folder / "second.en"), "target": str(folder / "second.de")}}
    settings = {
        "data": {
            "directory": str(folder / "data"), "source_language": "en", "target_language": "de",
            "train": [text],
        },
        "training": {
            "run_directory": str(folder / "run"), "initialize_from": str(initialize_from),
            "max_steps": 2, "batch_tokens": 300,
        },
    }  # fmt: skip
    for name, content in sections.items():
        settings[name] = settings.get(name, {}) | content
    path = folder / "second.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.mark.parametrize("kind", [".", "model", "checkpoints/step-00000004"])
def test_model_and_tokenizer_are_those_of_the_initial_model(
    first: Path, tmp_path: Path, kind: str, capsys
):
    path = second(tmp_path, first / kind, model={"dropout": 0.0})
    assert main(["info", str(path)]) == 0
    said = capsys.readouterr().out
    assert "model.encoder_layers                     2" in said
    assert "the warm-up would end at step 4,000" in said and "warning" not in said
    assert main(["train", str(path)]) == 0
    used = (tmp_path / "run/tokenizer.model").read_bytes()
    assert used == (first / "tokenizer.model").read_bytes()
    tuned = load_file(tmp_path / "run/model/model.safetensors")
    for name, tensor in load_file(first / "model/model.safetensors").items():
        torch.testing.assert_close(tuned[name], tensor, atol=1e-3, rtol=0)
    resolved = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    theirs = yaml.safe_load((first / "config.yaml").read_text())
    assert resolved["model"] == theirs["model"] | {"dropout": 0.0}
    assert resolved["tokenizer"] == theirs["tokenizer"]
    assert resolved["data"]["max_length"] == 60


def test_prepare_alone_uses_the_tokenizer(first: Path, tmp_path: Path):
    assert main(["prepare", str(second(tmp_path, first))]) == 0
    used = (tmp_path / "data/tokenizer.model").read_bytes()
    assert used == (first / "tokenizer.model").read_bytes()


def test_a_fine_tuned_run_goes_on_when_the_initial_model_is_gone(
    first: Path, tmp_path: Path, capsys
):
    moved = tmp_path / "initial"
    moved.symlink_to(first)
    path = second(tmp_path, moved)
    assert main(["train", str(path)]) == 0
    moved.unlink()
    for steps, config in ((3, path), (4, tmp_path / "run/config.yaml")):
        assert main(["train", str(config), f"training.max_steps={steps}"]) == 0
        assert f"Resumed from step {steps - 1}.\n" in capsys.readouterr().err


def test_what_the_weights_fix_is_refused_before_anything_is_prepared(
    first: Path, tmp_path: Path, capsys
):
    changed = {"decoder_layers": 4, "norm": "post", "dropout": 0.3, "attention_window": 5}
    path = second(
        tmp_path, first, model=changed,
        tokenizer={"vocabulary_size": 500, "symbols": ["<BT>"]},
    )  # fmt: skip
    overrides = ["data.max_length=50"]
    for command in ("prepare", "train", "info"):
        assert main([command, str(path), *overrides]) == 2
        lines = capsys.readouterr().err.splitlines()
        facts = [
            ("data.max_length", "50", "60"), ("tokenizer.vocabulary_size", "500", "400"),
            ("tokenizer.symbols", "[<BT>]", "[]"),
            ("model.decoder_layers", "4", "2"), ("model.norm", "post", "pre"),
            ("model.attention_window", "5", "null"),
        ]  # fmt: skip
        for line, (key, ours, theirs) in zip(lines, facts, strict=True):
            assert f"{key} is {ours}, but {first}, which is fine-tuned, has {theirs}." in line
        assert f"{path}:" in lines[1]
    assert not (tmp_path / "data").exists()


def test_other_positions_are_refused_and_max_length_does_not_matter(tmp_path: Path, capsys):
    """The original model has sinusoidal positions, which do not depend on data.max_length."""
    settings = tiny_settings(tmp_path)
    settings["data"]["max_length"] = 60
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    path = second(tmp_path, tmp_path, model={"positions": "learned"})
    assert main(["info", str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"model.positions is learned, but {tmp_path}, which is fine-tuned, has sinus" in line


@pytest.mark.parametrize("target", ["de", "fr"])
def test_a_model_of_other_languages_is_told(first: Path, tmp_path: Path, target: str, capsys):
    path = second(tmp_path, first, data={"target_language": target}, training={"max_steps": 1})
    assert main(["train", str(path)]) == 0
    told = (
        f"nmt: warning: Model {first} (training.initialize_from) was trained for en-de, "
        "but is fine-tuned on en-fr data."
    )
    assert (told in capsys.readouterr().err) == (target != "de")


def test_a_model_that_is_not_there(first: Path, tmp_path: Path, capsys):
    path = second(tmp_path, tmp_path / "none")
    assert main(["info", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"nmt: error: {path}:")
    assert f"training.initialize_from {tmp_path / 'none'} has no model to fine-tune" in said
    whole = {"model": {"d_model": 8}, "tokenizer": {"vocabulary_size": 500}}
    assert load(second(tmp_path, tmp_path / "none", **whole)).model.d_model == 8


def test_a_model_without_a_test_set_says_what_to_do(first: Path, tmp_path: Path, capsys):
    assert main(["train", str(second(tmp_path, first))]) == 0
    assert main(["evaluate", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert "The model's configuration has no data.test." in told
    assert "--source and --reference, or --test-set" in told
