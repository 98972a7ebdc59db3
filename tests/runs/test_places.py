"""The layout of a run directory. tests/training tests changes during training."""

import os
from pathlib import Path

import pytest

from nmt.cli import main
from nmt.errors import InputError, NoModelError
from nmt.runs.model_directory import find_model
from nmt.runs.run_directory import RunDirectory
from nmt.translator import Translator


@pytest.mark.parametrize("name", ["run", "checkpoints", "model"])
def test_the_run_around_a_model_or_checkpoint(tmp_path: Path, name: str):
    run = RunDirectory(tmp_path / name)
    for folder in (run.model, run.checkpoint(0), run.checkpoint(10**9)):
        assert RunDirectory.around(folder) == run


def test_checkpoints_are_what_has_the_name_of_one_newest_first(tmp_path: Path):
    run = RunDirectory(tmp_path)
    assert run.by_step() == [] and run.models() == [] and not run.may_hold_models
    steps = [10**9, 10**8, 20, 3]
    others = [
        "step-3",
        "step-0000000x",
        "step-000000003",
        "broken-1-step-00000003",
        ".tmp-nmt-step",
    ]
    for path in [*map(run.checkpoint, steps), *(run.checkpoints / name for name in others)]:
        path.mkdir(parents=True)
    assert run.by_step() == [(step, run.checkpoint(step)) for step in steps]
    run.model.symlink_to("nowhere")
    assert run.models() == [run.model, *map(run.checkpoint, steps)]


@pytest.mark.parametrize("command", ["translate", "average", "report", "info", "output"])
def test_a_path_that_is_not_utf_8_is_told_as_that(tmp_path: Path, capfd, command: str):
    """safetensors does not support such paths."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xff"))
    path.mkdir()
    words = {
        "translate": ["translate", path, "--input", os.devnull],
        "average": ["average", path, "--last", "1", "--output", tmp_path / "x"],
        "report": ["report", path, "--output", tmp_path / "x.html"],
        "info": ["info", path],
        "output": ["average", tmp_path, "--last", "1", "--output", path],
    }[command]
    assert main([str(word) for word in words]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("nmt: error: The path ") and "not valid UTF-8" in line


def test_a_run_before_its_first_checkpoint_is_told_from_a_model_without_a_manifest(tmp_path: Path):
    for name in ("config.yaml", "data.json", "tokenizer.model"):
        (tmp_path / name).touch()
    with pytest.raises(NoModelError, match="has no checkpoint yet"):
        find_model(tmp_path)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(NoModelError, match=r"manifest\.json is missing"):
        find_model(tmp_path)


@pytest.mark.parametrize("load", [Translator.load, find_model])
def test_a_name_that_is_too_long_is_an_error_of_nmt(load):
    with pytest.raises(InputError, match="File name too long"):
        load(Path("x" * 5000))
