"""Whole runs in bf16 on an emulated, asynchronous GPU."""

import signal
from pathlib import Path

import pytest
import torch

from nmt.cli import main
from nmt.errors import InputError, Stopped
from nmt.model.kernels.static_stepper import DecodeBuffers
from nmt.runs import checkpoint as checkpoints
from nmt.runs.run_directory import RunDirectory
from nmt.training import finish, loading
from nmt.training import loop as training
from nmt.training.run_log import read_log
from tests.pretended_gpu import Gpu, pretend
from tests.training.runs import as_on_a_gpu, fingerprint, losses, run


@pytest.fixture
def gpu(monkeypatch) -> Gpu:
    as_on_a_gpu(monkeypatch.setattr)
    monkeypatch.setattr(loading, "CPU_ROW", loading.GPU_ROW)
    return pretend(monkeypatch)


# at this learning rate, no validation is better than the first
STANDING_STILL = {
    "model__encoder_layers": 1, "model__decoder_layers": 1, "decoding__max_extra_length": 1,
    "training__precision": "bf16", "training__learning_rate_factor": 1e-9,
    "training__checkpoint_every": 4, "training__validate_every": 2, "training__early_stopping": 2,
}  # fmt: skip


def validations(directory: Path) -> list[int]:
    return [line["step"] for line in read_log(directory) if line.get("event") == "validation"]


def at(monkeypatch, name: str, number: int, deed) -> None:
    """Calls `deed` before call `number` of a function of the training loop."""
    function, calls = getattr(training, name), []

    def replacement(*arguments):
        calls.append(1)
        if len(calls) == number:
            deed()
        return function(*arguments)

    monkeypatch.setattr(training, name, replacement)


def test_a_bf16_run_is_validated_stopped_resumed_and_used(settings, tmp_path, gpu, monkeypatch):
    """Early stopping ends the run; all validations share the captured steps."""
    straight, _ = run(
        settings(**STANDING_STILL, training__run_directory=str(tmp_path / "straight"))
    )
    assert validations(straight) == [2, 4, 6]
    sizes = {call for call in gpu.calls if call[0] == "capture"}
    assert sizes and gpu.count("capture") < 12
    config = settings(**STANDING_STILL)
    with monkeypatch.context() as patch:
        at(patch, "optimizer_step", 3, lambda: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(Stopped, match="after step 3"):
            run(config)
    directory, _ = run(config)
    assert fingerprint(directory, 6) == fingerprint(straight, 6)
    assert losses(directory) == losses(straight)
    assert "Nothing to do" in run(config)[1][-1]
    for name, text in (("en", "the man reads\n"), ("de", "der Mann liest\n")):
        (tmp_path / name).write_text(text)
    pair = [str(tmp_path / "en"), str(tmp_path / "de")]
    score = ["score", str(directory), "--source", pair[0], "--target", pair[1]]
    for command in (["evaluate", str(directory)], score):
        assert main(command) == 0


def test_captured_steps_live_from_one_validation_to_the_next(settings, gpu, monkeypatch):
    counts, validate = [], training.validate

    def counting(*arguments):
        found = validate(*arguments)
        counts.append(gpu.count("capture"))
        return found

    for module in (training, finish):
        monkeypatch.setattr(module, "validate", counting)
    run(settings(**STANDING_STILL))
    assert len(counts) == 4 and counts[0] > 0 and len(set(counts)) == 1


def test_a_step_that_is_due_is_saved_before_it_is_validated(settings, tmp_path, monkeypatch):
    """If the validation fails, no training is lost, and the resumed run repeats the validation."""
    changes = {"training__validate_every": 4}
    straight, _ = run(settings(**changes, training__run_directory=str(tmp_path / "straight")))

    def fail() -> None:
        raise InputError("out of memory")

    config = settings(**changes)
    with monkeypatch.context() as patch:
        at(patch, "validate", 2, fail)
        with pytest.raises(InputError, match="out of memory"):
            run(config)
    directory = RunDirectory(Path(config.training.run_directory))
    start = checkpoints.newest(directory.identity(), print)
    assert start and (start.step, start.state.best.validated) == (8, 4)
    run(config)
    assert fingerprint(directory.path, 12) == fingerprint(straight, 12)
    assert losses(directory.path) == losses(straight)
    state, wanted = (
        checkpoints.newest(each.identity(), print).state
        for each in (directory, RunDirectory(straight))
    )
    assert state.best == wanted.best and state.best.validated == 12
    assert validations(directory.path) == [4, 8, 12]


@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_a_validation_is_known_to_the_checkpoint_before_it(settings, monkeypatch, is_asynchronous):
    as_on_a_gpu(monkeypatch.setattr, is_one=is_asynchronous)
    config = settings(training__validate_every=4)

    def end() -> None:
        raise InputError("the machine has gone")

    with monkeypatch.context() as patch:
        at(patch, "optimizer_step", 6, end)
        with pytest.raises(InputError, match="gone"):
            run(config)
    start = checkpoints.newest(RunDirectory(Path(config.training.run_directory)).identity(), print)
    assert start and (start.step, start.state.best.validated) == (4, 4)
    told = run(config)[1]
    assert not any("validation at step 4" in line for line in told)


def test_too_little_memory_in_validation_names_what_training_has(settings, gpu, monkeypatch):
    def refuse(*_) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(DecodeBuffers, "__init__", refuse)
    with pytest.raises(InputError, match=r"Out of memory on cpu .*ower decoding.beam"):
        run(settings(**STANDING_STILL))
