"""No directory may be inside a directory that `nmt prepare` or `nmt train` replaces."""

from pathlib import Path

import pytest

from nmt.config import load
from nmt.storage import names
from nmt.training.train import train
from tests.config.files import GOOD, problems, write


@pytest.mark.parametrize(
    ("data", "run", "origin", "problem"),
    [
        ("exp", "exp/run", "exp/model", None),
        ("exp/data", "exp", "exp/former/model", None),
        ("trainer", "trainer/training", None, None),
        ("exp", "exp/train", None, "training.run_directory is exp/train, but nmt prepare replaces"),
        ("exp", "exp/validation/x/y", None, "replaces validation in data.directory (exp)"),
        ("exp", "exp/.work", None, "training.run_directory is exp/.work"),
        ("exp", "link", None, "training.run_directory is link"),
        ("exp/model", "exp", None, "data.directory is exp/model, but nmt train replaces model in"),
        ("exp/checkpoints/x", "exp", None, "train replaces checkpoints in training.run_directory"),
        ("exp/tensorboard", "exp", None, "data.directory is exp/tensorboard"),
        ("exp/evaluation", "./exp/../exp", None, "data.directory is exp/evaluation"),
        ("exp", "run", "exp/train/model", "training.initialize_from is exp/train/model"),
        ("exp", "run", "run/checkpoints/step-00000004", "training.initialize_from is run/checkp"),
        ("run/.tmp-nmt-x", "run", None, "data.directory is run/.tmp-nmt-x"),
    ],
)
def test_no_directory_lies_where_another_is_replaced(
    tmp_path: Path, monkeypatch, data: str, run: str, origin: str | None, problem: str | None
):
    """Otherwise `nmt prepare` into exp would remove a run in exp/train with its checkpoints."""
    monkeypatch.chdir(tmp_path)
    Path("exp/train/run").mkdir(parents=True)
    Path("link").symlink_to("exp/train/run")
    path = write(tmp_path, GOOD.replace("runs/x", run).replace("data/x", data))
    # both sections, so that nothing is inherited from the missing model
    whole = ["model={}", "tokenizer={}"]
    overrides = [f"training.initialize_from={origin}", *whole] if origin else []
    if problem is None:
        load(path, overrides)
    else:
        [found] = problems(path, *overrides)
        assert problem in found


def test_what_stands_in_real_directories_is_known_to_be_replaced(tiny_data: Path, settings):
    data, run = tiny_data / "data", Path(settings().training.run_directory)
    train(settings(training__max_steps=1), lambda line: None)
    assert {path.name for path in data.iterdir()} <= names.IN_DATA
    assert {path.name for path in run.iterdir()} <= names.IN_RUN
