"""Runs of `nmt train`: resumed bit-identically, averaged, fine-tuned, and refused."""

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nmt.cli import main
from nmt.config import Config, inline
from nmt.data.pair import Pair
from nmt.data.prepare import prepare
from nmt.data.shards import read_shard
from nmt.errors import InputError, NoModelError, Status, Stopped
from nmt.runs import checkpoint as checkpoints
from nmt.runs.average import average
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import read_state
from nmt.storage import manifest
from nmt.storage.atomic import lock
from nmt.training import finish, health
from nmt.training import loop as training
from nmt.training.distributed import StopRequest
from nmt.training.loss import TransformerLoss
from nmt.training.run_log import read_log
from nmt.training.validation import _losses
from tests.conftest import make_settings
from tests.model.paper import new_model
from tests.training.runs import LITTLE, fingerprint, losses, run


@pytest.fixture(scope="module")
def straight(tiny_data, tmp_path_factory) -> Path:
    """An uninterrupted run: 12 steps with dropout and two micro-batches, validated at 6 and 12."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("straight")
    return run(make_settings(tiny_data, folder, **LITTLE, training__micro_batches=2))[0]


def run_with_stops(config: Config, stops: list[int], monkeypatch) -> None:
    """Starts and resumes the run, which a signal stops in each of these steps."""
    step, left = training.optimizer_step, set(stops)

    def with_signal(module, loss_module, optimizer, micro_batches, number, *rest):
        if number in left:
            left.remove(number)
            signal.raise_signal(signal.SIGTERM)
        return step(module, loss_module, optimizer, micro_batches, number, *rest)

    monkeypatch.setattr(training, "optimizer_step", with_signal)
    for stop in stops:
        with pytest.raises(Stopped, match=f"after step {stop}"):
            run(config)


@pytest.mark.parametrize("stops", [[1], [4], [5, 6, 7]])
def test_r5_stopped_and_resumed_equals_undisturbed_to_the_bit(
    settings, straight: Path, stops, monkeypatch
):
    """Weights, moments, the finished model and the log are identical."""
    run_with_stops(settings(training__micro_batches=2), stops, monkeypatch)
    directory, _ = run(settings(training__micro_batches=2))
    assert fingerprint(directory, 12) == fingerprint(straight, 12)
    assert losses(directory) == losses(straight)


@pytest.mark.parametrize("end", [1, 6])
def test_r4_a_run_made_longer_goes_on_as_if_it_had_been_so_from_the_start(
    settings, straight: Path, end: int
):
    """The first end is a step without a regular checkpoint, or one with a validation.

    The last step of a run is always validated and may be the best, so the finished model is always
    the mean here.
    """
    same = {"training__micro_batches": 2, "training__finished_model": "average"}
    run(settings(**same, training__max_steps=end))
    directory, _ = run(settings(**same))
    assert fingerprint(directory, 12) == fingerprint(straight, 12)


def test_another_mean_is_computed_from_the_checkpoints_of_a_finished_run(settings, tmp_path):
    folder = str(tmp_path / "mean")
    few, all_ = (
        settings(training__run_directory=folder, training__finished_model="average",
                 training__average_last=last)
        for last in (2, 3)
    )  # fmt: skip
    steps = []
    for config in (few, all_, few):
        directory, _ = run(config)
        steps.append(manifest.read(directory / "model", "model")["averaged_steps"])
    assert steps == [[8, 12], [4, 8, 12], [8, 12]]
    assert max(each.name for each in (directory / "checkpoints").iterdir()) == "step-00000012"
    assert "Nothing to do" in run(few)[1][-1]


def test_r4_a_finished_run_has_nothing_to_do(settings, straight: Path):
    def times() -> dict[Path, int]:
        files = [path for path in straight.rglob("*") if path.is_file()]
        return {path: path.stat().st_mtime_ns for path in files if ".lock" not in path.name}

    before = times()
    config = settings(training__micro_batches=2, training__run_directory=str(straight))
    _, said = run(config)
    finished = f"Nothing to do: {straight} finished at step 12 because of training.max_steps."
    assert said[-1].startswith(finished)
    assert times() == before
    fewer = config.model_copy(
        update={"training": config.training.model_copy(update={"max_steps": 6})}
    )
    assert run(fewer)[1][-1].startswith(finished)


def test_fewer_steps_than_an_unfinished_run_has_taken_are_refused(settings, straight: Path):
    directory = Path(settings().training.run_directory)
    shutil.copytree(straight, directory)
    shutil.rmtree(directory / "model")
    settings_before = (directory / "config.yaml").read_bytes()
    with pytest.raises(InputError, match=r"step 12, but training.max_steps is 6\. Set .* to 12"):
        run(settings(training__micro_batches=2, training__max_steps=6))
    assert not (directory / "model").exists()
    assert (directory / "config.yaml").read_bytes() == settings_before
    run(settings(training__micro_batches=2, training__max_steps=12))
    assert fingerprint(directory, 12) == fingerprint(straight, 12)


def test_a_lost_model_is_made_again(settings, straight: Path, tmp_path: Path):
    copy = tmp_path / "run"
    shutil.copytree(straight, copy)
    (copy / "model" / "model.safetensors").write_bytes(b"")
    directory, _ = run(settings(training__micro_batches=2))
    assert fingerprint(directory, 12) == fingerprint(straight, 12)


def test_a_finished_model_without_checkpoints_is_kept(settings, straight: Path):
    """Users delete checkpoints to save space."""
    directory = Path(settings().training.run_directory)
    shutil.copytree(straight, directory)
    shutil.rmtree(directory / "checkpoints")
    before = (directory / "model/model.safetensors").read_bytes()
    with pytest.raises(InputError, match=r"from step 12, but no checkpoint .*run_directory"):
        run(settings(training__micro_batches=2))
    assert (directory / "model/model.safetensors").read_bytes() == before


def test_log_has_what_programs_read(straight: Path):
    steps = [line for line in read_log(straight) if "event" not in line]
    assert [line["step"] for line in steps] == list(range(1, 13))
    assert {"loss", "nll", "learning_rate", "source_tokens", "target_tokens", "tokens_per_second",
            "gradient_norm"} <= steps[0].keys()  # fmt: skip
    validations = [line for line in read_log(straight) if line.get("event") == "validation"]
    assert [line["step"] for line in validations] == [6, 12]
    assert {"loss", "nll", "ppl", "bleu", "bleu_signature"} <= validations[0].keys()


def test_the_model_is_the_mean_of_the_last_checkpoints(settings, straight: Path, tmp_path: Path):
    steps = average(straight, 2, tmp_path / "averaged", print)
    assert steps == [8, 12]
    parts = [load_file(straight / f"checkpoints/step-{s:08d}/model.safetensors") for s in steps]
    for folder in (straight / "model", tmp_path / "averaged"):
        for name, tensor in load_file(folder / "model.safetensors").items():
            torch.testing.assert_close(tensor, (parts[0][name] + parts[1][name]) / 2)
    with pytest.raises(InputError, match="not an empty directory"):
        average(straight, 2, tmp_path / "averaged", print)
    assert average(straight, 3, tmp_path / "three", print) == [4, 8, 12]  # without 6, the best step
    with pytest.raises(InputError, match=r"only 3 checkpoints to average\. Lower last to 3"):
        average(straight, 9, tmp_path / "other", print)
    (tmp_path / "empty").mkdir()
    for run_directory, status in ((tmp_path / "none", 2), (tmp_path / "empty", 3)):
        with pytest.raises(InputError, match=r"There is no run|no valid") as error:
            average(run_directory, 1, tmp_path / "other", print)
        assert error.value.status == status


def scored(monkeypatch, *scores: float, measure: str = "bleu") -> Iterator[float]:
    """Replaces the scores of validations, also of finished models; returns those not used yet."""
    validate, left = training.validate, iter(scores)

    def validation(*arguments):
        return replace(validate(*arguments), **{measure: next(left)})

    for module in (training, finish):
        monkeypatch.setattr(module, "validate", validation)
    return left


@pytest.mark.parametrize(
    ("measure", "scores"), [("chrf", (9.0, 2.0, 8.0, 9.0)), ("nll", (2.0, 9.0, 3.0, 2.0))]
)
def test_the_finished_model_is_the_better_of_mean_and_best(
    settings, monkeypatch, capsys, measure, scores
):
    """The scores are those of step 6, step 12, the mean of steps 8 and 12, and step 6 alone."""
    left = scored(monkeypatch, *scores, measure=measure)
    directory, _ = run(settings(training__best_by=measure))
    assert list(left) == []
    alone = load_file(directory / "checkpoints/step-00000006/model.safetensors")
    for name, tensor in load_file(directory / "model/model.safetensors").items():
        assert torch.equal(tensor, alone[name])
    facts = manifest.read(directory / "model", "model")
    assert (facts["step"], facts["averaged_steps"]) == (12, [6])
    assert facts["validation"][measure] == scores[0]
    name = {"chrf": "chrF", "nll": "nll"}[measure]
    assert (
        f"is the checkpoint of step 6 ({name} {scores[0]:.3f}), not the mean of steps 8, 12 "
        f"({name} {scores[2]:.3f}).\n"
    ) in capsys.readouterr().err
    assert facts["compared"] == [
        {"steps": [8, 12], "measure": measure, "value": scores[2]},
        {"steps": [6], "measure": measure, "value": scores[0]},
    ]
    assert not any("worse" in warning for warning in facts["warnings"])


@pytest.mark.parametrize(
    ("finished", "scores", "is_told"),
    [("better", (5.0, 2.0, 8.0), False), ("average", (9.0, 2.0, 8.0), True)],
)
def test_the_finished_model_is_the_mean_where_that_is_better_or_asked_for(
    settings, monkeypatch, capsys, finished, scores, is_told
):
    monkeypatch.setattr(health, "has_learned", lambda validation: True)
    scored(monkeypatch, *scores)
    directory, _ = run(settings(training__finished_model=finished))
    facts = manifest.read(directory / "model", "model")
    assert facts["averaged_steps"] == [8, 12]
    others = f"the checkpoint of step 6 (BLEU {scores[0]:.3f})"
    assert f"is the mean of steps 8, 12 (BLEU 8.000), not {others}.\n" in capsys.readouterr().err
    told = "worse (BLEU 8.000) than the best checkpoint, step 6 (BLEU 9.000)"
    assert any(told in warning for warning in facts["warnings"]) == is_told


def test_a_resumed_run_knows_its_validations(settings, monkeypatch):
    """A run resumed at a validated step does not repeat the validation, and keeps its best step."""
    # scores of step 6, the mean and step 6 alone, then of step 12, the mean and step 6 alone
    left = scored(monkeypatch, 9.0, 8.0, 9.0, 2.0, 8.0, 9.0)
    run(settings(training__max_steps=6))
    directory, _ = run(settings())
    resumed = checkpoints.newest(RunDirectory(directory).identity(), print)
    assert resumed and resumed.step == 12
    best = resumed.state.best.model_dump(exclude={"chrf", "nll"})
    assert best == {"step": 6, "bleu": 9.0, "worse_since": 1, "validated": 12}
    assert list(left) == []


def test_rotation_keeps_the_newest_the_best_and_two_optimizer_states(settings, monkeypatch):
    """Step 4 is kept only because it is the best."""
    scored(monkeypatch, 1.0, 9.0, *[2.0] * 10)
    changes = {"training__checkpoint_every": 3, "training__validate_every": 2}
    directory, _ = run(settings(**changes, training__keep_checkpoints=2))
    steps = sorted(int(p.name.split("-")[1]) for p in (directory / "checkpoints").glob("step-*"))
    state = read_state(directory / "checkpoints/step-00000012/state.json")
    assert (state.best.step, state.best.bleu) == (4, 9.0)
    assert steps == [4, 9, 12]
    with_moments = [p.parent.name for p in directory.rglob("optimizer.safetensors")]
    assert sorted(with_moments) == ["step-00000009", "step-00000012"]


def test_a_stop_between_checkpoints_leaves_two_that_can_be_resumed(settings, monkeypatch):
    config = settings(training__checkpoint_every=4, training__validate_every=100)
    run_with_stops(config, [5, 8], monkeypatch)
    directory = Path(config.training.run_directory)
    with_moments = [path.parent.name for path in directory.rglob("optimizer.safetensors")]
    assert sorted(with_moments) == ["step-00000004", "step-00000008"]


def test_the_gradient_does_not_depend_on_how_the_step_is_cut(settings):
    logs = []
    for micro_batches in (1, 2, 3):
        changes = {"training__micro_batches": micro_batches, "model__dropout": 0.0,
                   "training__max_steps": 4, "training__average_last": 1}  # fmt: skip
        name = f"{settings().training.run_directory}-{micro_batches}"
        directory, _ = run(settings(**changes, training__run_directory=name))
        logs.append([line for line in read_log(directory) if "event" not in line])
    for lines in zip(*logs, strict=True):
        for line in lines[1:]:
            assert line["loss"] == pytest.approx(lines[0]["loss"], rel=1e-6)
            assert line["gradient_norm"] == pytest.approx(lines[0]["gradient_norm"], rel=1e-4)


def test_r13_a_broken_checkpoint_is_named_passed_over_and_left(
    settings, straight: Path, tmp_path: Path
):
    copy = Path(settings().training.run_directory)
    shutil.copytree(straight, copy)
    broken = copy / "checkpoints/step-00000012/model.safetensors"
    data = bytearray(broken.read_bytes())
    data[len(data) // 2] ^= 1
    broken.write_bytes(data)
    directory, said = run(settings(training__micro_batches=2))
    assert any("is damaged" in line and "step-00000012" in line for line in said)
    assert fingerprint(directory, 12) == fingerprint(straight, 12)  # resumed from step 8
    assert (copy / "checkpoints/broken-1-step-00000012").is_dir()
    for folder in (copy / "checkpoints").glob("step-*"):
        (folder / "manifest.json").write_text("{}")
    with pytest.raises(NoModelError):
        run(settings(training__micro_batches=2, training__max_steps=20))


@pytest.mark.parametrize("split", ["train", "validation"])
def test_r13_a_token_that_was_changed_on_disk_is_never_used(settings, tiny_data, tmp_path, split):
    """The changed token is in the vocabulary, so only the hash of the shard reveals the change."""
    shutil.copytree(tiny_data / "data", tmp_path / "data")
    [shard] = (tmp_path / "data" / split).glob("*.arrow")
    content, target = bytearray(shard.read_bytes()), read_shard(shard).target
    content[content.index(target[0].tobytes())] ^= 1
    shard.write_bytes(content)
    with pytest.raises(InputError, match=f"{shard.name} is damaged"):
        run(settings(data__directory=str(tmp_path / "data"), training__max_steps=1))


def test_data_that_were_never_prepared_name_the_way_out(settings, tmp_path: Path):
    with pytest.raises(InputError, match=r"No prepared data in .*/none\. Run nmt prepare\.$"):
        run(settings(data__directory=str(tmp_path / "none")))


def test_changed_settings_are_refused_with_both_values(settings, straight: Path):
    changed = settings(
        training__run_directory=str(straight), training__micro_batches=2,
        training__seed=5, model__dropout=0.2, training__max_steps=15,
    )  # fmt: skip
    with pytest.raises(InputError) as error:
        run(changed)
    assert len(error.value.problems) == 2
    assert f"training.seed is 5, but run {straight} was started with 1." in "\n".join(
        error.value.problems
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("batch_tokens", 399), ("micro_batches", 4), ("warmup_steps", 11),
        ("learning_rate_factor", 0.5), ("label_smoothing", 0.2), ("gradient_clip", 1.0),
        ("precision", "bf16"), ("seed", 2), ("deterministic", False), ("compile", True),
    ],
)  # fmt: skip
def test_what_decides_on_a_step_may_not_change_on_the_way(settings, straight: Path, key, value):
    changes = {"training__micro_batches": 2} | {f"training__{key}": value}
    before = fingerprint(straight, 12)
    with pytest.raises(InputError, match=rf"training.{key} is {inline(value)}, but .* was started"):
        run(settings(**changes, training__run_directory=str(straight), training__max_steps=15))
    assert fingerprint(straight, 12) == before


def test_fine_tuning_starts_from_the_model_and_its_tokenizer(
    settings, straight: Path, tmp_path: Path, capsys
):
    other = [{"demo": {"pairs": 60, "seed": 9}}]
    changes = {"data__train": other, "training__initialize_from": str(straight)}
    config = settings(
        **changes,
        data__directory=str(tmp_path / "other"),
        training__max_steps=1,
        training__warmup_steps=10**6,
    )
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert main(["train", str(tmp_path / "config.yaml")]) == 0  # prepares the data first
    assert f"Using {straight / 'model'}." in capsys.readouterr().err.splitlines()
    used = (tmp_path / "other/tokenizer.model").read_bytes()
    assert used == (straight / "tokenizer.model").read_bytes()
    tuned = load_file(tmp_path / "run/model/model.safetensors")
    for name, tensor in load_file(straight / "model/model.safetensors").items():
        torch.testing.assert_close(tuned[name], tensor, atol=1e-4, rtol=0)

    alone = settings(data__train=other, data__directory=str(tmp_path / "alone"))
    prepare(alone, note=lambda line: None)  # trains a tokenizer of its own
    with pytest.raises(InputError, match="not prepared with the tokenizer of"):
        run(
            settings(
                **changes,
                data__directory=str(tmp_path / "alone"),
                training__run_directory=str(tmp_path / "third"),
            )
        )


def test_early_stopping_counts_validations_without_a_better_bleu(settings):
    config = settings(
        training__validate_every=1,
        training__early_stopping=2,
        training__max_steps=6,
        training__learning_rate_factor=1e-9,
    )
    directory, _ = run(config)
    validations = [line for line in read_log(directory) if line.get("event") == "validation"]
    assert len(validations) == 3  # the first one is the best
    assert (directory / "model").is_dir()
    finished = "at step 3 because of training.early_stopping. To continue"
    assert finished in run(config)[1][-1]


def _no_number(loss: torch.Tensor) -> torch.Tensor:
    return loss + float("nan")  # its gradient is finite


def _overflowing_gradient(loss: torch.Tensor) -> torch.Tensor:
    loss.register_hook(lambda gradient: gradient * float("inf"))
    return loss


@pytest.mark.parametrize("poison", [_no_number, _overflowing_gradient])
def test_r23_divergence_stops_before_the_update(settings, monkeypatch, poison):
    calls = []
    forward = TransformerLoss.forward

    def poisoned(self, batch):
        calls.append(1)
        loss, nll = forward(self, batch)
        return (poison(loss) if len(calls) == 7 else loss), nll

    monkeypatch.setattr(TransformerLoss, "forward", poisoned)
    with pytest.raises(InputError, match="step 7") as error:
        run(settings(training__validate_every=100))
    assert error.value.status == Status.DIVERGED
    folder = Path(settings().training.run_directory) / "checkpoints/step-00000004"
    assert all(t.isfinite().all() for t in load_file(folder / "optimizer.safetensors").values())


@pytest.mark.parametrize(
    ("validate_every", "checkpoint_every", "message"),
    [
        (100, 4, "not finite after step 8"),
        (8, 4, "not finite after step 8"),
        (8, 5, "validation loss"),
    ],
)
def test_r23_weights_that_are_not_finite_are_never_saved(
    settings, monkeypatch, validate_every: int, checkpoint_every: int, message: str
):
    """The loss and the gradient were finite, but the update was too large."""
    step = training.optimizer_step

    def overflowing(module, loss_module, optimizer, micro_batches, number, *rest):
        result = step(module, loss_module, optimizer, micro_batches, number, *rest)
        if number == 8:
            with torch.no_grad():
                next(module.parameters()).view(-1)[0] = float("inf")
        return result

    monkeypatch.setattr(training, "optimizer_step", overflowing)
    with pytest.raises(InputError, match=message) as error:
        run(
            settings(
                training__validate_every=validate_every, training__checkpoint_every=checkpoint_every
            )
        )
    assert error.value.status == Status.DIVERGED
    folder = Path(settings().training.run_directory) / "checkpoints"
    assert [path.name for path in folder.iterdir()] == [f"step-0000000{checkpoint_every}"]


def test_validation_pairs_that_are_all_beyond_the_learned_positions(settings, tmp_path: Path):
    (tmp_path / "long").write_text("the man " * 99)
    corpus = {"text": {"source": str(tmp_path / "long"), "target": str(tmp_path / "long")}}
    changes = {"model__positions": "learned", "training__validate_every": 1,
               "data__validation": [corpus], "data__directory": str(tmp_path / "d")}  # fmt: skip
    config = settings(**changes)
    prepare(config, note=lambda line: None)
    with pytest.raises(InputError, match=r"every pair of data\.validation.* of 60 tokens"):
        run(config)


def test_pairs_as_long_as_the_learned_positions_are_validated(settings):
    config = settings(model__positions="learned", data__max_length=8)
    module = TransformerLoss(new_model(config, seed=1).eval(), 0.1)
    pairs = [Pair(np.full(s, 5), np.full(t, 5)) for s, t in ((8, 3), (2, 8), (9, 3), (2, 9))]
    *_, tokens = _losses(module, pairs, config, torch.device("cpu"), StopRequest())
    assert tokens == 3 + 8


def test_info_says_which_model_of_a_run_it_describes(straight: Path, capsys):
    assert main(["info", str(straight)]) == 0
    assert f"Using {straight / 'model'}" in capsys.readouterr().err


def test_r22_a_second_trainer_on_the_same_run_is_refused(settings, tmp_path: Path, capsys):
    path = tmp_path / "config.yaml"
    path.write_text(settings().to_yaml())
    with lock(Path(settings().training.run_directory), "nmt train"):
        assert main(["train", str(path)]) == 2
    assert f"process {os.getpid()}" in capsys.readouterr().err


def test_r24_a_broken_newer_checkpoint_never_pushes_out_the_sound_ones(settings, straight: Path):
    copy = Path(settings().training.run_directory)
    shutil.copytree(straight, copy)
    (copy / "checkpoints/step-00000012/optimizer.safetensors").write_bytes(b"")
    changes = {"training__micro_batches": 2, "training__keep_checkpoints": 1,
               "training__average_last": 1}  # fmt: skip
    run(settings(**changes, training__max_steps=9))
    assert (copy / "checkpoints/step-00000009/optimizer.safetensors").exists()
    assert (copy / "checkpoints/step-00000012").is_dir()  # reported, but not removed
    weights, _, model = fingerprint(copy, 9)
    assert model == weights  # the mean of one checkpoint
    directory, _ = run(settings(**changes))
    assert fingerprint(directory, 12)[:2] == fingerprint(straight, 12)[:2]


def test_the_record_of_the_data_is_read_once(settings, monkeypatch):
    """Several checkpoints and models are compared with it."""
    read, names = manifest.read, []

    def listed(folder: Path, kind: str, name: str = manifest.NAME):
        names.append(name)
        return read(folder, kind, name)

    monkeypatch.setattr(manifest, "read", listed)
    run(settings(training__validate_every=12))
    assert names.count("data.json") == 1
