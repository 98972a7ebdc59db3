"""What only a GPU can show; skipped without: `python -m pytest -s tests/training/test_gpu.py`."""

import shutil
import signal
import statistics
from pathlib import Path

import pytest
import torch

from nmt.training import train as training
from nmt.training.run_log import read_log
from tests.training.children import at_step, send, train
from tests.training.runs import fingerprint, losses, run

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

FAST = {
    "model__d_model": 256, "model__d_ff": 1024, "model__heads": 4, "model__d_k": 64,
    "model__d_v": 64, "training__precision": "bf16", "training__compile": True,
    "training__batch_tokens": 4000, "training__max_steps": 60, "training__checkpoint_every": 10,
    "training__validate_every": 60,
}  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_compiled_bf16_run_resumes_to_the_bit(settings, tmp_path: Path, number):
    straight = settings(**FAST, training__run_directory=str(tmp_path / "straight"))
    assert train(straight, tmp_path / "a").wait() == 0
    config = settings(**FAST)
    stopped = train(config, tmp_path / "b", at_step(33, send(number))).wait()
    assert stopped == (143 if number == signal.SIGTERM else -number)
    assert train(config, tmp_path / "b").wait() == 0
    assert fingerprint(tmp_path / "run", 60) == fingerprint(tmp_path / "straight", 60)
    assert losses(tmp_path / "run") == losses(tmp_path / "straight")


PLAIN = {
    "model__dropout": 0.0, "training__max_steps": 50, "training__validate_every": 100,
    "training__learning_rate_factor": 0.1,
}  # fmt: skip


@pytest.mark.parametrize("is_compiled", [False, True])
def test_losses_in_fp32_are_those_of_a_cpu(settings, tmp_path: Path, monkeypatch, is_compiled):
    found = []
    for device in ("gpu", "cpu"):
        name = str(tmp_path / device)
        with monkeypatch.context() as patch:
            if device == "cpu":
                patch.setattr(torch.cuda, "is_available", lambda: False)
            compiled = is_compiled and device == "gpu"
            run(settings(**PLAIN, training__run_directory=name, training__compile=compiled))
        found.append([line["loss"] for line in read_log(Path(name)) if "event" not in line])
    assert len(found[0]) == 50
    assert found[0] == pytest.approx(found[1], rel=1e-4)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_no_step_waits_for_the_gpu(settings, monkeypatch, is_compiled):
    """But for the first two, which compile, allocate and move tables."""
    step, taken = training.optimizer_step, []

    def optimizer_step(module, loss_module, optimizer, slots, number, *rest):
        torch.cuda.set_sync_debug_mode("error" if number > 2 else "default")
        taken.append(number)
        try:
            return step(module, loss_module, optimizer, slots, number, *rest)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(training, "optimizer_step", optimizer_step)
    run(settings(**FAST | {"training__compile": is_compiled, "training__log_every": 100}))
    assert taken == list(range(1, 61))


def test_the_cost_of_deterministic_mode(settings, tmp_path: Path, capsys):
    speeds: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(3):  # in turn, so that both meet the same machine
        for deterministic in speeds:
            config = settings(**FAST, training__deterministic=deterministic)
            assert train(config, tmp_path / f"{turn}{deterministic}").wait() == 0
            lines = [line for line in read_log(tmp_path / "run") if "event" not in line]
            speeds[deterministic].append(
                statistics.median(line["tokens_per_second"] for line in lines[20:])
            )
            shutil.rmtree(tmp_path / "run")
    slow, fast = (statistics.median(speeds[mode]) for mode in (True, False))
    with capsys.disabled():
        print(
            f"\ndeterministic {slow:.0f}, otherwise {fast:.0f} target tokens/s: {slow / fast:.3f}"
        )
