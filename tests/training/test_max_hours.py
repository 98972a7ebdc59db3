"""`training.max_hours` ends a run after this training time; the run can be continued."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from nmt.runs.run_directory import RunDirectory
from nmt.storage import manifest
from nmt.training import loop, run_log
from nmt.training.run_log import read_log
from tests.conftest import make_settings
from tests.training.children import Fault, all_of, gpu, train_on
from tests.training.runs import LITTLE, as_on_a_gpu, fingerprint, run


def clock_of_steps(hours_each: float) -> None:
    """Replaces the log's clock so that each step takes this long, and everything else no time."""
    clock = SimpleNamespace(now=0.0)
    original = loop.optimizer_step

    def optimizer_step(*arguments):
        clock.now += 3600 * hours_each
        return original(*arguments)

    loop.optimizer_step = optimizer_step
    run_log.time = SimpleNamespace(monotonic=lambda: clock.now)  # type: ignore[assignment]


@pytest.fixture
def an_hour_each(monkeypatch) -> None:
    """Each step takes an hour."""
    for module, name in ((loop, "optimizer_step"), (run_log, "time")):
        monkeypatch.setattr(module, name, getattr(module, name))  # restored after the test
    clock_of_steps(1.0)


def last_steps(directory: Path) -> tuple[int, int, str]:
    """Returns the steps of the newest checkpoint and the finished model, and the setting that ended
    the run.
    """
    [*_, line] = (line for line in read_log(directory) if line.get("event") == "model")
    run_directory = RunDirectory(directory)
    newest, _ = run_directory.by_step()[0]
    model = manifest.read(run_directory.model, "model")["step"]
    return newest, model, line["ended_by"]


CHANGES = {"training__micro_batches": 2, "training__log_every": 100}


@pytest.fixture(scope="module")
def straight(tiny_data, tmp_path_factory) -> Path:
    """A run without `training.max_hours`."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("straight")
    return run(make_settings(tiny_data, folder, **LITTLE, **CHANGES))[0]


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_run_ends_after_its_hours_and_trains_on_exactly(
    settings, straight, an_hour_each, monkeypatch, on_gpu: bool
):
    """The run ends after 5 steps, between checkpoints, and on a GPU after 6: results are late."""
    if on_gpu:
        as_on_a_gpu(monkeypatch.setattr)
    assert last_steps(straight) == (12, 12, "max_steps")
    directory, _ = run(settings(**CHANGES, training__max_hours=4.5))
    assert last_steps(directory) == (5 + on_gpu, 5 + on_gpu, "max_hours")
    said = run(settings(**CHANGES, training__max_hours=4.5))[1]
    assert f"finished at step {5 + on_gpu} because of training.max_hours." in said[-1]
    assert f"higher than {5 + on_gpu} (the run has been trained for that many hours)" in said[-1]
    # the hours before the resumption count, so 2.5 are left
    run(settings(**CHANGES, training__max_hours=7.5 + on_gpu))
    assert last_steps(directory) == (8 + 2 * on_gpu, 8 + 2 * on_gpu, "max_hours")
    run(settings(**CHANGES))
    assert last_steps(directory) == (12, 12, "max_steps")
    assert fingerprint(directory, 12) == fingerprint(straight, 12)


def test_the_clock_of_the_main_process_decides(settings, tmp_path: Path):
    """The clock of the other rank is far ahead or behind, but both end after the same step."""
    changes = CHANGES | {"training__max_hours": 4.5, "training__validate_every": 100}

    def ends(name: str, device: Fault, other_hours: float) -> tuple[int, int, str]:
        config = settings(**changes, training__run_directory=str(tmp_path / name))
        faults = {0: all_of(partial(clock_of_steps, 1.0), device),
                  1: all_of(partial(clock_of_steps, other_hours), device)}  # fmt: skip
        children = train_on(2, config, tmp_path / f"{name} said", faults)
        assert [child.wait() for child in children] == [0, 0], children[0].said
        return last_steps(tmp_path / name)

    torch.set_num_threads(1)
    assert ends("ahead", all_of(), 100.0) == (5, 5, "max_hours")
    assert ends("behind", gpu(), 0.0) == (6, 6, "max_hours")
