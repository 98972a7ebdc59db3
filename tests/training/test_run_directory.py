"""Changes to a run directory during training or between two calls."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.cli import main
from nmt.config import Config
from nmt.data.prepared_data import PreparedData
from nmt.errors import InputError
from nmt.runs import checkpoint
from nmt.runs.run_directory import RunDirectory, RunIdentity
from nmt.storage import manifest
from nmt.training import loop as training
from nmt.training.run_log import read_log
from nmt.training.train import train
from tests.conftest import make_settings
from tests.training.runs import LITTLE, fingerprint

Deed = Callable[[Path], object]
Train = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def trained(tmp_path: Path, monkeypatch, capsys) -> Train:
    """Returns a function that runs `nmt train`, and calls `deed` with the run directory before the
    update of step `at`. It returns the exit status and the lines on standard error.
    """
    original = training.optimizer_step

    def train(config: Config, deed: Deed | None = None, at: int = 2) -> tuple[int, list[str]]:
        def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
            if deed and number == at:
                deed(Path(config.training.run_directory))
            return original(module, loss_module, optimizer, micro_batches, number, *rest)

        monkeypatch.setattr(training, "optimizer_step", optimizer_step)
        (tmp_path / "config.yaml").write_text(config.to_yaml())
        status = main(["train", str(tmp_path / "config.yaml")])
        return status, capsys.readouterr().err.splitlines()

    return train


SHORT = {"training__max_steps": 4, "training__validate_every": 100}


@pytest.fixture(scope="module")
def once(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps, finished."""
    folder = tmp_path_factory.mktemp("once")
    return train(make_settings(tiny_data, folder, **LITTLE, **SHORT), print).parent


@pytest.fixture
def finished(once: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, in the run directory of `settings`."""
    return Path(shutil.copytree(once, tmp_path / "run"))


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_a_kill_in_the_last_rotation_left_is_gone_when_the_run_is_finished(
    settings, trained: Train, finished: Path
):
    """The next call writes only the model, so no rotation removes the leftovers."""
    run = finished
    whole = files(run / "checkpoints")
    shutil.rmtree(run / "model")
    for folder in (run, run / "checkpoints", *(run / "checkpoints").iterdir()):
        (folder / ".tmp-nmt-01234567-manifest.json").write_text("{")
    assert trained(settings(**SHORT))[0] == 0
    assert (run / "model").is_dir() and files(run / "checkpoints") == whole
    assert not list(run.rglob(".tmp-*"))


def a_readme(model: Path) -> None:
    (model / "README").write_text("mine")


def an_empty_folder(model: Path) -> None:
    (model / "mine").mkdir()


def a_folder_instead(model: Path) -> None:
    shutil.rmtree(model)
    model.mkdir()
    (model / "README").write_text("mine")


def a_link(model: Path) -> None:
    model.rename(model.with_name("linked"))
    model.symlink_to("linked")


@pytest.mark.parametrize("put", [a_readme, an_empty_folder, a_folder_instead, a_link])
def test_what_a_person_put_into_the_model_is_kept(
    settings, trained: Train, finished: Path, put: Deed
):
    run = finished
    put(run / "model")
    before, is_link = files(run / "model"), (run / "model").is_symlink()
    for number, (steps, kept) in enumerate([(5, True), (6, False)]):
        status, said = trained(settings(**SHORT | {"training__max_steps": steps}))
        assert status == 0 and not (run / "model").is_symlink()
        assert any("contained files that nmt did not create." in line for line in said) == kept
        assert [path.name for path in run.glob("former-*")] == ["former-1-model"], number
    former = run / "former-1-model"
    assert files(former) == before and former.is_symlink() == is_link
    assert (former / "mine").is_dir() == (put is an_empty_folder)
    assert not list(run.glob(".tmp-*")) and not (run / "model/README").exists()


def test_what_a_trainer_killed_at_its_end_has_left_is_removed(
    settings, trained: Train, finished: Path
):
    run = finished
    shutil.copytree(run / "model", run / ".tmp-nmt-new-model")
    status, said = trained(settings(**SHORT | {"training__max_steps": 5}))
    assert status == 0, said
    assert manifest.read(run / "model", "model")["step"] == 5 and not list(run.glob(".tmp-*"))


def test_a_model_of_another_run_is_kept(settings, trained: Train, finished: Path, tmp_path: Path):
    other = settings(**SHORT, training__seed=7, training__run_directory=str(tmp_path / "other"))
    assert trained(other)[0] == 0
    shutil.rmtree(finished / "model")
    shutil.copytree(tmp_path / "other/model", finished / "model")
    status, said = trained(settings(**SHORT))
    assert status == 0 and "Nothing to do" not in "".join(said)
    assert files(finished / "former-1-model") == files(tmp_path / "other/model")


def test_a_run_without_a_checkpoint_takes_other_settings(settings, trained: Train, tmp_path: Path):
    def fail(run: Path) -> None:
        raise InputError("nobody's fault, here, try again")

    run = Path(settings().training.run_directory)
    assert trained(settings(**SHORT), fail)[0] == 2
    assert (run / "log.jsonl").read_bytes() and not (run / "checkpoints").exists()
    corrected = SHORT | {"training__seed": 5, "model__dropout": 0.2}
    status, said = trained(settings(**corrected))
    assert status == 0
    told = [line for line in said if "starts over" in line]
    assert len(told) == 2
    assert told[1] == (
        f"training.seed is 5, but run {run} was started with 1. The run has no checkpoint and "
        "starts over."
    )
    assert "seed: 5" in (run / "config.yaml").read_text()
    assert [line["step"] for line in read_log(run) if "event" not in line] == [1, 2, 3, 4]
    straight = settings(**corrected, training__run_directory=str(tmp_path / "straight"))
    assert trained(straight)[0] == 0
    assert fingerprint(run, 4) == fingerprint(tmp_path / "straight", 4)
    for folder in (run / "model", *(run / "checkpoints").iterdir()):
        (folder / "manifest.json").write_text("{}")  # damaged, but still not replaced
    for has_checkpoints in (True, False):
        if not has_checkpoints:  # nor is a model without checkpoints
            shutil.rmtree(run / "checkpoints")
        status, said = trained(settings(**SHORT))
        assert status == 2 and "training.seed is 1, but run" in said[-1]


@pytest.mark.parametrize(
    ("name", "wanted"), [("config.yaml", 2), ("tokenizer.model", 0), ("log.jsonl", 0), (".lock", 2)]
)
def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(
    settings, trained: Train, finished: Path, name: str, wanted: int
):
    (finished / name).unlink(missing_ok=True)
    os.mkfifo(finished / name)
    signal.alarm(60)  # ends this process if it blocks
    status, said = trained(settings(**SHORT | {"training__max_steps": 5}))
    signal.alarm(0)
    assert status == wanted, said
    if wanted:
        assert str(finished / name) in said[-1]


def test_a_checkpoint_or_model_of_other_data_is_not_taken(settings, trained: Train, capsys):
    config = settings(training__max_steps=2, training__checkpoint_every=1)
    assert trained(config)[0] == 0
    run = RunDirectory(Path(config.training.run_directory))
    newest = run.checkpoint(2)
    for folder, kind in ((newest, "checkpoint"), (run.model, "model")):
        manifest.rewrite(folder, manifest.read(folder, kind) | {"data_sha256": "0" * 64})
    text = run.path / "anywhere.txt"
    text.write_text("The old man reads.\n")
    assert main(["translate", str(run), "--input", str(text)]) == 0
    said = capsys.readouterr().err
    assert said.count("it has data_sha256 000") == 2 and f"Using {run.checkpoint(1)}" in said
    status, lines = trained(settings(training__max_steps=3, training__checkpoint_every=1))
    assert status == 0 and "Resumed from step 1." in lines


def test_other_data_are_refused_before_anything_of_the_run_is_replaced(
    settings, trained: Train, tiny_data: Path, tmp_path: Path
):
    data, run = tmp_path / "data", tmp_path / "run"
    shutil.copytree(tiny_data / "data", data)
    config = settings(**SHORT, data__directory=str(data))
    assert trained(config)[0] == 0
    before = files(run)
    manifest.rewrite(data, manifest.read(data, "data") | {"data_sha256": "0" * 64})
    status, said = trained(config)
    assert status == 3 and said[-1].startswith("nmt: error: The prepared data is not the data")
    assert files(run) == before
    for folder in (run / "model", run / "checkpoints"):
        shutil.rmtree(folder)
    assert trained(config)[0] == 0  # no model trained on the old data is left


def test_of_many_damaged_checkpoints_one_line_tells(settings, trained: Train):
    config = settings(training__max_steps=3, training__checkpoint_every=1)
    assert trained(config)[0] == 0
    run = Path(config.training.run_directory)
    for path in run.glob("checkpoints/*/model.safetensors"):
        path.write_bytes(path.read_bytes()[:-1])
    status, said = trained(settings(training__max_steps=4, training__checkpoint_every=1))
    assert status == 3
    assert len([line for line in said if line.startswith("nmt: error")]) == 1
    assert [line.split(": ")[0] for line in said if "Skipping" in line] == [
        f"Skipping the checkpoint of step {step}" for step in (3, 2, 1)
    ]
    shutil.rmtree(run / "model")
    path = run / "anywhere.txt"
    path.write_text("The old man reads.\n")
    assert main(["translate", str(run), "--input", str(path)]) == 3


@pytest.mark.parametrize("name", ["log.jsonl", "tokenizer.model", "data.json", "manifest.json"])
def test_somebodys_file_where_a_run_would_write_is_named_and_stays(
    settings, trained: Train, name: str
):
    run = Path(settings().training.run_directory)
    run.mkdir()
    (run / name).write_text("mine")
    (run / ".tmp-notes.txt").write_text("mine too")
    status, said = trained(settings(**SHORT))
    assert status == 2 and f"{run / name} was not created by nmt train, " in said[-1]
    (run / name).rename(run / "moved")
    assert trained(settings(**SHORT))[0] == 0
    assert (run / "moved").read_text() == "mine"
    assert (run / ".tmp-notes.txt").read_text() == "mine too"


def test_a_users_own_configuration_in_the_run_directory_is_not_overwritten(
    settings, trained: Train
):
    config = settings(**SHORT)
    own = Path(config.training.run_directory, "config.yaml")
    own.parent.mkdir()
    own.write_text(f"# mine\n{config.to_yaml()}")
    status, said = trained(config)
    assert status == 2 and f"{own} was not created by nmt train, " in said[-1]
    assert own.read_text().startswith("# mine\n")


def test_a_model_is_no_run_directory_and_stays(settings, trained: Train, finished: Path):
    model = finished / "model"
    before = files(model)
    status, said = trained(settings(**SHORT, training__run_directory=str(model)))
    assert status == 2 and f"{model} contains a model or data, not a run. " in said[-1]
    assert files(model) == before


def test_a_run_directory_is_checked_before_data_are_prepared(
    settings, trained: Train, finished: Path, tmp_path: Path
):
    data = tmp_path / "new"
    status, said = trained(settings(**SHORT, training__seed=5, data__directory=str(data)))
    assert status == 2 and "training.seed is 5, but run" in "".join(said)
    assert not data.exists()


def test_no_sound_checkpoint_left_at_the_end_is_one_line(settings, trained: Train, monkeypatch):
    original = checkpoint.sound_checkpoints

    def damaged(own: RunIdentity, *rest):
        for weights in own.directory.path.glob("checkpoints/*/model.safetensors"):
            weights.write_bytes(b"")
        return original(own, *rest)

    monkeypatch.setattr(checkpoint, "sound_checkpoints", damaged)
    status, said = trained(settings(**SHORT))
    assert status == 3 and "has no valid checkpoint left to average" in said[-1]


def test_a_run_on_text_that_changed_later_says_so(settings, trained: Train, monkeypatch):
    monkeypatch.setattr(PreparedData, "changed_input", lambda self: "mine.en")
    status, said = trained(settings(**SHORT))
    assert status == 0
    assert any("mine.en was changed after" in line and "prepared data" in line for line in said)
