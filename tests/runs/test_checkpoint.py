"""Checkpoints that match their manifest but cannot be used to resume or average."""

import errno
import io
import json
import math
import os
import shutil
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.cli import main
from nmt.errors import DeniedError, InputError, NoModelError
from nmt.runs import checkpoint as checkpoints
from nmt.runs.average import average, mean_weights
from nmt.runs.model_directory import OpenedModel, find_model
from nmt.runs.run_directory import RunDirectory
from nmt.storage import manifest
from nmt.storage.names import DATA_MANIFEST, WEIGHTS
from tests.runs.steps import save_step

Save = Callable[[int], Path]


@pytest.fixture
def save(config, files, hashes, tmp_path: Path) -> Save:
    """Returns a function that saves the checkpoint of a step and returns its folder."""
    return partial(save_step, tmp_path, config=config, files=files, hashes=hashes)


def describe(folder: Path) -> None:
    """Writes a manifest that matches the current content of a checkpoint."""
    content = manifest.read(folder, "checkpoint")
    facts = {
        key: content[key] for key in ("step", "tokenizer_sha256", "data_sha256", "target_symbols")
    }
    manifest.write(folder, "checkpoint", facts)


def resumed_from(run: Path) -> tuple[int, str]:
    """Returns the step from which the run would resume, and the messages."""
    said: list[str] = []
    found = checkpoints.newest(RunDirectory(run).identity(), said.append)
    assert found
    return found.step, "\n".join(said)


BEST = {"step": 2, "bleu": 1.5, "worse_since": 0, "validated": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"best": None}, {"best": [1]}, {"best": {"step": 2, "colour": {}}, "elapsed_s": None},
        {"best": BEST | {"step": "2"}}, {"best": BEST | {"bleu": "good"}},
        {"best": BEST | {"bleu": float("nan")}}, {"elapsed_s": "long"}, {"step": 2.5},
        {"threads": None},
    ],
    ids=str,
)  # fmt: skip
def test_r16_a_forged_state_is_passed_over(save: Save, tmp_path: Path, change: dict):
    save(1)
    path = save(2) / checkpoints.STATE
    sound = json.loads(path.read_text()) | {"best": BEST}
    path.write_text(json.dumps(sound))
    describe(path.parent)
    assert resumed_from(tmp_path) == (2, "")
    path.write_text(json.dumps(sound | change))
    describe(path.parent)
    step, said = resumed_from(tmp_path)
    assert step == 1
    assert said.startswith("Skipping the checkpoint of step 2: ") and str(path) in said


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '{"step": ' + "[" * 100_000, "\xff"])
def test_r16_a_state_that_is_no_object_is_passed_over(save: Save, tmp_path: Path, text: str):
    save(1)
    path = save(2) / checkpoints.STATE
    path.write_bytes(text.encode("latin-1"))
    describe(path.parent)
    assert resumed_from(tmp_path)[0] == 1


def file_in_its_place(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("x")


def loop(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to(folder.name)


def loop_for_a_file(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("model.safetensors")


def folder_for_the_manifest(folder: Path) -> None:
    (folder / manifest.NAME).unlink()
    (folder / manifest.NAME).mkdir()


def unreadable_disk(name: str, folder: Path) -> None:
    """Emulates a failing disk: the fixture `failing_disk` raises an error for this link."""
    (folder / name).rename(folder / f"{name}-of-a-failing-disk")
    (folder / name).symlink_to(f"{name}-of-a-failing-disk")


@pytest.fixture
def failing_disk(monkeypatch) -> None:
    original = Path.open

    def fail(self: Path, *arguments, **options):
        if self.is_symlink() and "failing-disk" in str(self.readlink()):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self))
        return original(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", fail)


@pytest.mark.usefixtures("failing_disk")
@pytest.mark.parametrize(
    "spoil",
    [
        file_in_its_place, loop, loop_for_a_file, folder_for_the_manifest,
        partial(unreadable_disk, manifest.NAME), partial(unreadable_disk, "model.safetensors"),
    ],
)  # fmt: skip
def test_r13_whatever_the_system_says_of_the_newest_the_next_older_is_taken(
    save: Save, tmp_path: Path, spoil: Callable[[Path], None], capsys
):
    older = save(1)
    spoil(save(2))
    for name in ("step-²", "step-³3333333", "step-best", "step-1", "step-0000000000003"):
        (tmp_path / "checkpoints" / name).mkdir()
    step, said = resumed_from(tmp_path)
    assert step == 1
    assert "step-00000002" in said and len(said.splitlines()) == 1
    assert main(["translate", str(tmp_path), "--input", os.devnull]) == 0
    assert f"Using {older}" in capsys.readouterr().err
    assert average(tmp_path, 1, tmp_path / "mean", print) == [1]
    again = save(2)  # the resumed run reaches step 2 again
    assert resumed_from(tmp_path) == (2, "")
    kept = again.with_name(f"broken-1-{again.name}")
    assert os.path.lexists(kept)


@pytest.mark.parametrize("name", [manifest.NAME, WEIGHTS, checkpoints.STATE])
def test_a_checkpoint_that_may_not_be_read_is_not_passed_over(
    save: Save, tmp_path: Path, monkeypatch, capsys, name: str
):
    """The checkpoint may be intact, and resuming from an older one would lose work."""
    save(1)
    refused = save(2) / name
    opened = io.open

    def opening(path, *args, **kwargs):
        if path == refused:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(io, "open", opening)
    monkeypatch.setattr("builtins.open", opening)
    with pytest.raises(DeniedError):
        checkpoints.newest(RunDirectory(tmp_path).identity(), print)
    if name != checkpoints.STATE:  # `nmt translate` does not read it
        assert main(["translate", str(tmp_path), "--input", os.devnull]) == 5
        assert capsys.readouterr().err == (
            f"nmt: error: Permission denied: {refused}. "
            "Check the permissions of the file and of its directory.\n"
        )


def test_checkpoints_that_may_not_be_listed_are_told_as_that(
    save: Save, tmp_path: Path, monkeypatch, capsys
):
    """If the error were ignored, the run would start from the beginning."""
    save(1)
    refused = str(tmp_path / "checkpoints")

    def listing(true, path="."):
        if os.fspath(path) == refused:
            raise PermissionError(errno.EACCES, "Permission denied", refused)
        return true(path)

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, partial(listing, getattr(os, name)))
    with pytest.raises(PermissionError):
        checkpoints.newest(RunDirectory(tmp_path).identity(), print)
    assert main(["translate", str(tmp_path), "--input", os.devnull]) == 5
    assert f"Permission denied: {refused}" in capsys.readouterr().err


def test_r13_a_checkpoint_under_the_name_of_another_step_is_passed_over(save: Save, tmp_path: Path):
    save(1)
    save(2).rename(RunDirectory(tmp_path).checkpoint(3))
    assert resumed_from(tmp_path)[0] == 1
    assert find_model(tmp_path).directory == RunDirectory(tmp_path).checkpoint(1)
    assert average(tmp_path, 1, tmp_path / "mean", print) == [1]


def one_number(tensors: dict[str, Tensor]) -> None:
    tensors["exp_avg_sq.embedding"] = torch.zeros(1)


def too_large(tensors: dict[str, Tensor]) -> None:
    name = "exp_avg.encoder.0.feed_forward.inner.bias"
    tensors[name] = torch.zeros(3, 3)


def transposed(tensors: dict[str, Tensor]) -> None:
    tensors["exp_avg.embedding"] = tensors["exp_avg.embedding"].T.contiguous()


def other_type(tensors: dict[str, Tensor]) -> None:
    tensors["exp_avg.embedding"] = tensors["exp_avg.embedding"].half()


def one_less(tensors: dict[str, Tensor]) -> None:
    del tensors["exp_avg.embedding"]


def one_more(tensors: dict[str, Tensor]) -> None:
    tensors["exp_avg.extra"] = torch.zeros(1)


def of_the_weights(tensors: dict[str, Tensor]) -> None:
    for name in list(tensors):
        tensors[name.removeprefix("exp_avg.")] = tensors.pop(name)


@pytest.mark.parametrize(
    "forge",
    [one_number, too_large, transposed, other_type, one_less, one_more, of_the_weights],
)
def test_r15_moments_that_are_not_those_of_the_model_are_passed_over(
    save: Save, tmp_path: Path, forge: Callable[[dict[str, Tensor]], None]
):
    """With wrong sizes, Adam's fused kernel would write outside the tensors."""
    save(1)
    path = save(2) / checkpoints.OPTIMIZER
    moments = load_file(path)
    forge(moments)
    save_file(moments, path)
    describe(path.parent)
    step, said = resumed_from(tmp_path)
    assert step == 1 and str(path) in said and "tensor" in said
    shutil.rmtree(RunDirectory(tmp_path).checkpoint(1))
    with pytest.raises(NoModelError, match="tensor"):
        checkpoints.newest(RunDirectory(tmp_path).identity(), print)
    assert find_model(tmp_path).directory == path.parent  # its weights are valid


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        (checkpoints.OPTIMIZER, "exp_avg_sq.embedding", math.inf),  # would stop all updates
        (checkpoints.OPTIMIZER, "exp_avg.embedding", math.nan),
        ("model.safetensors", "embedding", math.inf),
    ],
)
def test_r23_values_that_no_training_has_are_passed_over(
    save: Save, tmp_path: Path, file: str, name: str, value: float
):
    save(1)
    path = save(2) / file
    tensors = load_file(path)
    tensors[name][0, 0] = value
    save_file(tensors, path)
    describe(path.parent)
    step, said = resumed_from(tmp_path)
    assert step == 1 and f"{name} has" in said and "is damaged" in said


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_r23_weights_that_no_training_has_are_neither_averaged_nor_translated_with(
    save: Save, tmp_path: Path, value: float, capsys
):
    """The manifest matches; with an older checkpoint, the commands use that one."""
    path, line = save(2) / "model.safetensors", "embedding has values that are not finite"
    weights = load_file(path)
    weights["embedding"][0, 0] = value
    save_file(weights, path)
    describe(path.parent)
    output = tmp_path / "mean"
    for command in (
        ["average", str(tmp_path), "--last", "1", "--output", str(output)],
        ["translate", str(tmp_path), "--input", os.devnull],
    ):
        assert main(command) == 3
        assert line in capsys.readouterr().err and not output.exists()
    save(1)
    assert main(["average", str(tmp_path), "--last", "2", "--output", str(output)]) == 2
    assert "only 1 checkpoint to average" in capsys.readouterr().err.splitlines()[-1]
    assert average(tmp_path, 1, output, print) == [1]
    assert find_model(tmp_path).directory == RunDirectory(tmp_path).checkpoint(1)
    save_file(weights, output / "model.safetensors")
    content = manifest.read(output, "model")
    manifest.write(output, "model", {key: content[key] for key in content if key != "files"})
    assert main(["translate", str(output), "--input", os.devnull]) == 3
    assert line in capsys.readouterr().err


def test_r15_a_run_whose_model_has_a_bad_tokenizer_falls_back_to_a_checkpoint(
    save: Save, tmp_path: Path
):
    run = RunDirectory(tmp_path)
    save(1)
    average(tmp_path, 1, run.model, print)
    assert find_model(tmp_path).directory == run.model
    content = manifest.read(run.model, "model")
    (run.model / "tokenizer.model").write_bytes(b"none")
    facts = {key: content[key] for key in content if key != "files"}
    facts["tokenizer_sha256"] = manifest.file_hash(run.model / "tokenizer.model")
    manifest.write(run.model, "model", facts)
    notes: list[str] = []
    assert find_model(tmp_path, notes.append).directory == run.checkpoint(1)
    assert notes[0].startswith("Skipping the finished model: ")


def test_a_manifest_with_a_lone_surrogate_can_be_written_again(save: Save):
    folder = save(1)
    content = manifest.read(folder, "checkpoint") | {"note": "\ud800 of somebody"}
    manifest.rewrite(folder, content)
    assert manifest.read(folder, "checkpoint")["note"] == "\ud800 of somebody"


def test_r15_weights_of_another_shape_are_passed_over_by_all(save: Save, tmp_path: Path, capsys):
    save(1)
    path = save(2) / "model.safetensors"
    weights = load_file(path)
    save_file(weights | {"embedding": weights["embedding"][1:].contiguous()}, path)
    describe(path.parent)
    assert resumed_from(tmp_path)[0] == 1
    assert average(tmp_path, 1, tmp_path / "mean", print) == [1]
    assert main(["translate", str(tmp_path), "--input", os.devnull]) == 0
    assert "model.safetensors has shape (399, 32)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"training__seed": 5}, {"model__dropout": 0.3}, {"training__label_smoothing": 0.2},
        {"model__heads": 4}, {"training__batch_tokens": 500}, {"data__max_length": 50},
    ],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_of_another_run_is_neither_resumed_averaged_nor_removed(
    save: Save, settings, config, files, hashes, tmp_path: Path, change: dict, capsys
):
    """The foreign checkpoint was copied into the run, and has the same data but other settings."""
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    for step in (4, 8):
        save(step)
    foreign = save_step(tmp_path, 12, settings(**change), files, hashes)
    step, said = resumed_from(tmp_path)
    [(key, value)] = change.items()
    assert step == 8 and f"{key.replace('__', '.')} is {value}, but " in said
    assert average(tmp_path, 2, tmp_path / "mean", print) == [4, 8]
    assert main(["translate", str(tmp_path), "--input", os.devnull]) == 0
    assert f"Using {RunDirectory(tmp_path).checkpoint(8)}" in capsys.readouterr().err
    save(16)
    checkpoints.rotate(RunDirectory(tmp_path).identity(), 16, every=4, keep=1, best=None)
    run = RunDirectory(tmp_path)
    assert sorted(run.checkpoints.iterdir()) == [foreign, run.checkpoint(16)]


def test_the_first_setting_that_differs_is_named_as_yaml(
    save: Save, settings, files, hashes, tmp_path: Path
):
    """The message must not depend on the hash seed of the process."""
    save(1)
    others = {"model__attention_window": 5, "model__d_ff": 65, "model__heads": 3,
              "model__norm": "pre", "training__seed": 5,
              "training__compile": True, "training__label_smoothing": 0.5}  # fmt: skip
    (tmp_path / "config.yaml").write_text(settings(**others).to_yaml())
    run, said = RunDirectory(tmp_path), []
    with pytest.raises(NoModelError, match=r"window is null, but this run's is 5\."):
        checkpoints.newest(run.identity(), said.append)
    with pytest.raises(InputError) as error:
        run.refuse_changes(settings(training__compile=False), said.append)
    told = "\n".join(error.value.problems)
    for expected in (
        "attention_window is null, but run",
        "was started with 5.",
        "compile is false, ",
    ):
        assert expected in told


def test_a_checkpoint_from_before_settings_that_may_change_is_the_runs_own(
    save: Save, settings, tmp_path: Path
):
    later = {"training__max_steps": 99, "training__run_directory": "x", "decoding__beam": 3,
             "data__directory": "moved", "data__test": []}  # fmt: skip
    save(4)
    (tmp_path / "config.yaml").write_text(settings(**later).to_yaml())
    assert resumed_from(tmp_path) == (4, "")
    (tmp_path / "config.yaml").write_text("lost: [")
    assert resumed_from(tmp_path) == (4, "")


def test_checkpoints_of_other_data_are_not_averaged(
    save: Save, config, files, hashes, tiny_data: Path, tmp_path: Path
):
    shutil.copyfile(tiny_data / "data" / manifest.NAME, tmp_path / DATA_MANIFEST)
    for step in (4, 12):
        save(step)
    save_step(tmp_path, 8, config, files, hashes | {"data_sha256": "0" * 64})
    said: list[str] = []
    assert average(tmp_path, 2, tmp_path / "mean", said.append) == [4, 12]
    assert "step-00000008 was not trained on the data of this run" in said[-1]


def test_a_checkpoint_off_the_schedule_is_not_averaged(save: Save, config, tmp_path: Path):
    """A stop leaves such a checkpoint, and the best checkpoint may be one."""
    assert config.training.checkpoint_every == 4
    for step in (4, 6, 8):
        save(step)
    assert average(tmp_path, 2, tmp_path / "mean", print) == [4, 8]


def test_weights_whose_sum_is_infinite_have_no_mean(save: Save, tmp_path: Path):
    for step in (1, 2):
        save(step)
    models = (
        replace(model, weights={key: torch.full_like(x, 3e38) for key, x in model.weights.items()})
        for model in checkpoints.sound_checkpoints(RunDirectory(tmp_path).identity(), 2, print)
    )
    with pytest.raises(NoModelError, match=r"of .*step-00000002 .* exceeds the range of fp32"):
        mean_weights(models)


def test_no_more_checkpoints_are_opened_than_wanted(save: Save, tmp_path: Path):
    for step in (1, 2, 3):
        save(step)
    found = checkpoints.sound_checkpoints(RunDirectory(tmp_path).identity(), 2, print)
    assert [model.step for model in found] == [3, 2]


def test_a_model_that_was_found_in_a_run_holds_no_weights(save: Save, tmp_path: Path):
    save(1)
    found = find_model(tmp_path)
    assert found.step == 1 and vars(found).keys() == {"directory", "manifest", "config"}


def test_a_mean_needs_the_memory_of_one_model_beside_its_own(save: Save, tmp_path: Path):
    for step in (1, 2, 3):
        save(step)
    read: list[weakref.ref[Tensor]] = []

    def observed() -> Iterator[OpenedModel]:
        for model in checkpoints.sound_checkpoints(RunDirectory(tmp_path).identity(), 3, print):
            assert not any(tensor() is not None for tensor in read)
            read.extend(map(weakref.ref, model.weights.values()))
            yield model
            del model

    mean, models = mean_weights(observed())
    assert [model.step for model in models] == [3, 2, 1] and len(read) == 3 * len(mean)
