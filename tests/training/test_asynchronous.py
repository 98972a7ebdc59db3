"""Asynchronous training on an emulated GPU: results read a step late, saving in a thread."""

import errno
import os
import signal
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nmt.cli import main
from nmt.data.layout import one_per_row
from nmt.data.pair import Pair
from nmt.errors import DivergedError, Stopped
from nmt.runs import checkpoint as checkpoints
from nmt.training import distributed
from nmt.training import loop as training
from nmt.training.distributed import Ranks
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer
from nmt.training.run_log import read_log
from nmt.training.saving import CheckpointWriter
from nmt.training.step import optimizer_step
from tests.model.paper import new_model
from tests.training.children import train
from tests.training.runs import as_on_a_gpu, fingerprint, losses, run


@pytest.fixture(autouse=True)
def asynchronous(monkeypatch):
    as_on_a_gpu(monkeypatch.setattr)


def poisoned(monkeypatch, at: int, loss: float = 1.0) -> list[int]:
    """Makes the gradient of step `at` NaN and multiplies its loss by `loss`. Returns a list that
    records the steps that start.
    """
    step, forward, begun = training.optimizer_step, TransformerLoss.forward, list[int]()

    def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
        begun.append(number)
        return step(module, loss_module, optimizer, micro_batches, number, *rest)

    def poisoning(self, batch):
        smoothed, nll = forward(self, batch)
        if begun and begun[-1] == at:
            smoothed.register_hook(lambda gradient: gradient * float("nan"))
            return smoothed * loss, nll
        return smoothed, nll

    monkeypatch.setattr(training, "optimizer_step", optimizer_step)
    monkeypatch.setattr(TransformerLoss, "forward", poisoning)
    return begun


@pytest.mark.parametrize("log_every", [1, 3])
def test_a_run_has_the_bits_and_the_log_of_one_that_waits(
    settings, tmp_path, monkeypatch, log_every
):
    changes = {"training__micro_batches": 2, "training__log_every": log_every,
               "training__gradient_clip": 0.5}  # fmt: skip
    ours, _ = run(settings(**changes))
    as_on_a_gpu(monkeypatch.setattr, is_one=False)
    theirs, _ = run(settings(**changes, training__run_directory=str(tmp_path / "waiting")))
    assert fingerprint(ours, 12) == fingerprint(theirs, 12)
    assert losses(ours) == losses(theirs)


@pytest.mark.parametrize("value", [1.0, float("inf")])
@pytest.mark.parametrize(("at", "log_every", "begun"), [(6, 1, 6), (5, 100, 6), (8, 100, 8)])
def test_r23_the_step_that_diverged_is_named_and_nothing_of_it_saved(
    settings, monkeypatch, at: int, log_every: int, begun: int, value: float
):
    """The next step may have started, but not if step `at` is logged or saved."""
    seen = poisoned(monkeypatch, at, value)
    changes = {"training__log_every": log_every, "training__validate_every": 100}
    with pytest.raises(DivergedError, match=f"at step {at}: .*gradient norm nan"):
        run(settings(**changes))
    assert seen[-1] == begun
    directory = Path(settings().training.run_directory)
    assert [path.name for path in (directory / "checkpoints").iterdir()] == ["step-00000004"]
    assert read_log(directory)[-1]["step"] == (5 if log_every == 1 else 1)


def test_no_step_after_a_gradient_that_is_not_finite_changes_anything(settings):
    """Weights, moments and the step count stay unchanged, although later gradients are finite."""
    config = settings(model__dropout=0.0)
    module = TransformerLoss(new_model(config, seed=1).train(), 0.1)
    optimizer, ranks = new_optimizer(module, config), Ranks(0, 1, torch.device("cpu"))
    ids = np.array([5, 6, 7, 2], np.int32)
    batch = one_per_row([Pair(ids, ids)])

    def step(number: int):
        return optimizer_step(module, module, optimizer, [(0, batch)], number, 4, config, ranks)

    def state() -> list[torch.Tensor]:
        moments = [value for kept in optimizer.state.values() for value in kept.values()]
        return [tensor.detach().clone() for tensor in (*module.parameters(), *moments)]

    assert step(1).loss > 0
    sound = state()
    parameter = module.transformer.embedding
    hook = parameter.register_hook(lambda gradient: gradient * float("inf"))
    result = step(2)
    hook.remove()
    later = step(3)
    assert all(torch.equal(a, b) for a, b in zip(state(), sound, strict=True))
    with pytest.raises(DivergedError, match=r"at step 2: .*gradient norm (nan|inf)"):
        _ = result.loss
    assert later.gradient_norm > 0


def test_a_signal_in_a_step_that_diverged_saves_nothing(settings, monkeypatch):
    poisoned(monkeypatch, at=3)
    step = training.optimizer_step

    def stopping(module, loss_module, optimizer, micro_batches, number, *rest):
        if number == 3:
            signal.raise_signal(signal.SIGTERM)
        return step(module, loss_module, optimizer, micro_batches, number, *rest)

    monkeypatch.setattr(training, "optimizer_step", stopping)
    with pytest.raises(DivergedError, match="at step 3:"):
        run(settings(training__log_every=100))
    assert not (Path(settings().training.run_directory) / "checkpoints").exists()


class SlowDisk:
    """Delays saving until the test sets `go`."""

    def __init__(self, monkeypatch):
        self.go, self.threads = threading.Event(), list[str]()
        begin = CheckpointWriter._write
        monkeypatch.setattr(
            CheckpointWriter, "_write", lambda own, write: begin(own, partial(self, write))
        )

    def __call__(self, write):
        assert self.go.wait(60)
        self.threads.append(threading.current_thread().name)
        write()


def test_steps_go_on_while_a_checkpoint_is_written_and_do_not_change_it(settings, monkeypatch):
    disk, step, weights = SlowDisk(monkeypatch), training.optimizer_step, {}

    def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
        if number == 5:
            weights.update({k: v.clone() for k, v in loss_module.transformer.state_dict().items()})
        if number == 6:
            disk.go.set()
        return step(module, loss_module, optimizer, micro_batches, number, *rest)

    monkeypatch.setattr(training, "optimizer_step", optimizer_step)
    directory, _ = run(settings())
    assert len(disk.threads) >= 3 and all(name.startswith("writer") for name in disk.threads)
    saved = load_file(directory / "checkpoints/step-00000004/model.safetensors")
    assert all(torch.equal(saved[name], weights[name]) for name in weights)
    assert not [each for each in threading.enumerate() if "writer" in each.name]


def test_a_stop_waits_until_its_checkpoint_is_written(settings, monkeypatch):
    disk, step = SlowDisk(monkeypatch), training.optimizer_step

    def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
        if number == 3:
            signal.raise_signal(signal.SIGTERM)
            threading.Timer(0.2, disk.go.set).start()
        return step(module, loss_module, optimizer, micro_batches, number, *rest)

    monkeypatch.setattr(training, "optimizer_step", optimizer_step)
    with pytest.raises(Stopped, match="after step 3, saved in"):
        run(settings())
    folder = Path(settings().training.run_directory) / "checkpoints/step-00000003"
    assert (folder / "manifest.json").exists()


def dying_at_step_8() -> None:
    """Kills the process at step 11, when the checkpoint of step 8 lacks only its manifest."""
    as_on_a_gpu()
    write, step, at_11 = checkpoints.manifest.write, training.optimizer_step, threading.Event()

    def dying(folder, kind, facts):
        if facts.get("step") == 8:
            at_11.wait(60)
            os._exit(137)
        return write(folder, kind, facts)

    def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
        if number == 11:
            at_11.set()
        return step(module, loss_module, optimizer, micro_batches, number, *rest)

    checkpoints.manifest.write, training.optimizer_step = dying, optimizer_step


def test_r2_killed_while_a_thread_writes_it_loses_that_checkpoint_alone(settings, tmp_path):
    changes = {"training__validate_every": 100}
    straight, _ = run(settings(**changes, training__run_directory=str(tmp_path / "straight")))
    child = train(settings(**changes), tmp_path / "child", dying_at_step_8)
    assert child.wait() == 137, child.said
    folder = tmp_path / "run/checkpoints"
    assert [path.name for path in folder.glob("step-*")] == ["step-00000004"]
    directory, _ = run(settings(**changes))
    assert fingerprint(directory, 12) == fingerprint(straight, 12)
    assert not list(directory.rglob(".tmp-*"))


def test_r11_a_stop_that_cannot_be_saved_says_so(settings, tmp_path, monkeypatch, capsys):
    """The message must not say that the run was saved."""
    step = training.optimizer_step

    def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
        if number == 3:
            signal.raise_signal(signal.SIGTERM)
        return step(module, loss_module, optimizer, micro_batches, number, *rest)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "checkpoints")

    monkeypatch.setattr(training, "optimizer_step", optimizer_step)
    monkeypatch.setattr(checkpoints, "save", full)
    (tmp_path / "config.yaml").write_text(settings().to_yaml())
    assert main(["train", str(tmp_path / "config.yaml")]) == 5
    assert "saved in" not in capsys.readouterr().err


@pytest.mark.parametrize("at", [4, 12])
def test_r11_a_full_disk_is_one_line_wherever_it_is_met(
    settings, tmp_path, monkeypatch, capsys, at
):
    """The run waits for the checkpoint of the last step too, and reports its error."""
    save = checkpoints.save

    def full(run, checkpoint, *rest):
        if checkpoint.step == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "checkpoints")
        save(run, checkpoint, *rest)

    monkeypatch.setattr(checkpoints, "save", full)
    (tmp_path / "config.yaml").write_text(settings().to_yaml())
    assert main(["train", str(tmp_path / "config.yaml")]) == 5
    [line] = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert line.startswith("nmt: error: No space left on device: checkpoints.")
    assert not (tmp_path / "run/model").exists()


def test_where_a_gpu_is_chosen_kernels_are_those_without_surprises(monkeypatch):
    """The chosen GPU becomes the current device, whose random number generator dropout seeds."""
    current: list[int] = []
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    products, was_cudnn = torch.backends.cuda.matmul, torch.backends.cuda.cudnn_sdp_enabled()
    was_reduced = products.allow_bf16_reduced_precision_reduction
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        assert distributed._gpu() == torch.device("cuda", 1)
        assert current == [1]
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert not products.allow_bf16_reduced_precision_reduction
    finally:
        torch.backends.cuda.enable_cudnn_sdp(was_cudnn)
        products.allow_bf16_reduced_precision_reduction = was_reduced
