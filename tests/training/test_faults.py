"""A run that is killed, stopped or damaged anywhere ends with the bytes of an undisturbed run."""

import random
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from nmt.config import Config
from nmt.training import distributed
from nmt.training.run_log import read_log
from tests.patience import wait_until
from tests.training.children import (
    Child,
    at_step,
    before,
    die_while_saving,
    nmt,
    send,
    slow_steps,
    train,
)
from tests.training.runs import LITTLE, fingerprint, losses, run

LAST = 20
LONG = {
    "training__max_steps": LAST, "training__checkpoint_every": 4, "training__validate_every": 10,
}  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tiny_data, tmp_path_factory) -> Path:
    """An undisturbed run of 20 steps, in a child process like the others."""
    from tests.conftest import make_settings

    folder = tmp_path_factory.mktemp("undisturbed")
    config = make_settings(tiny_data, folder, **LITTLE, **LONG)
    assert train(config, folder / "child").wait() == 0
    return Path(config.training.run_directory)


def killed_at_random(config: Config, directory: Path, kills: int, seed: int) -> None:
    """Trains to the end with this many kills, each soon after the log reaches a random step.

    Kills depend on the log, not on the clock, because on a slow machine all might come before the
    first step.
    """
    chance, met, run = random.Random(seed), 0, Path(config.training.run_directory)
    while met < kills:
        step = min(last_step(run) + chance.randint(-1, 6), LAST)
        child = train(config, directory, slow_steps(0.01))
        wait_for_step(step, run, child)
        time.sleep(chance.uniform(0, 0.03))  # at any point of a step
        child.process.kill()
        if child.wait() == 0:  # it finished before the kill
            shutil.rmtree(run)
        else:
            met += 1
    assert last_step(run) > 0
    assert train(config, directory).wait() == 0


def last_step(run_directory: Path) -> int:
    return max((line["step"] for line in read_log(run_directory)), default=0)


def wait_for_step(step: int, run_directory: Path, child: Child) -> None:
    """Waits until the log has the step or the run has ended."""
    wait_until(lambda: last_step(run_directory) >= step or not child.process.is_alive())


def assert_same(directory: Path, other: Path, step: int = LAST) -> None:
    assert fingerprint(directory, step) == fingerprint(other, step)
    assert losses(directory) == losses(other)
    assert [path.name for path in directory.rglob(".tmp-*")] == []


def test_r1_killed_at_random_moments(settings, undisturbed: Path, tmp_path: Path):
    killed_at_random(settings(**LONG), tmp_path / "children", kills=5, seed=1)
    assert_same(tmp_path / "run", undisturbed)


@pytest.mark.chaos
def test_r1_killed_fifty_times(settings, undisturbed: Path, tmp_path: Path):
    killed_at_random(settings(**LONG), tmp_path / "children", kills=50, seed=2)
    assert_same(tmp_path / "run", undisturbed)


def points_of_saving(stride: int, directory: Path, undisturbed: Path, settings) -> int:
    """Kills a run before every `stride`-th file operation of its checkpoint at step 16.

    Each resumed run must end like the undisturbed run. Returns the number of operations.
    """
    config = settings(**LONG, training__keep_checkpoints=3)
    start = directory / "start"
    child = train(config, directory / "children", at_step(13, send(signal.SIGTERM)))
    assert child.wait() == 143
    Path(config.training.run_directory).replace(start)
    for call in range(0, 1000, stride):
        shutil.rmtree(config.training.run_directory, ignore_errors=True)
        shutil.copytree(start, config.training.run_directory)
        child = train(config, directory / "children", die_while_saving(16, call))
        if child.wait() == 0:
            return call
        assert child.wait() == 137
        assert train(config, directory / "children").wait() == 0
        assert_same(directory / "run", undisturbed)
    raise AssertionError("saving never ends")


def test_r2_killed_while_saving(settings, undisturbed: Path, tmp_path: Path):
    assert points_of_saving(10, tmp_path, undisturbed, settings) > 20


@pytest.mark.chaos
def test_r2_killed_before_every_file_operation_of_saving(settings, undisturbed, tmp_path: Path):
    assert points_of_saving(1, tmp_path, undisturbed, settings) > 20


@pytest.mark.chaos
def test_r3_stopped_at_every_step(settings, undisturbed: Path, tmp_path: Path):
    for step in range(1, 21):
        run(settings(**LONG | {"training__max_steps": step}))
    run(settings(**LONG))
    assert fingerprint(tmp_path / "run", LAST) == fingerprint(undisturbed, LAST)


@pytest.mark.parametrize(
    ("number", "point", "step"),
    [
        (signal.SIGTERM, "loop.optimizer_step", 1),
        (signal.SIGUSR1, "loop.validate", 10),
        (
            signal.SIGINT,
            "saving.checkpoints.save",
            5,
        ),  # comes while step 4 is saved
        (signal.SIGHUP, "train.begin_training", 1),  # as when a connection drops
    ],
)
def test_r5_a_signal_at_each_point(settings, undisturbed, tmp_path, number, point, step):
    """The run is saved after the step in which the signal comes, at the earliest after step 1."""
    config = settings(**LONG)
    child = train(config, tmp_path / "child", before(point, send(number)))
    assert child.wait() == (130 if number == signal.SIGINT else 143)
    assert child.said.splitlines()[-1].startswith(f"nmt: Stopped after step {step}, saved in")
    assert "Traceback" not in child.said
    last = read_log(tmp_path / "run")[-1]
    assert (last["step"], last.get("event")) == (step, None)  # no validation was finished
    assert (tmp_path / f"run/checkpoints/step-{step:08d}/manifest.json").exists()
    assert train(config, tmp_path / "child").wait() == 0
    assert_same(tmp_path / "run", undisturbed)


def test_r5_a_signal_in_the_last_validation_leaves_the_model_to_the_next_call(
    settings, undisturbed, tmp_path
):
    config = settings(**LONG)
    child = train(config, tmp_path / "child", before("finish.mean_weights", send(signal.SIGTERM)))
    assert child.wait() == 143
    assert not (tmp_path / "run/model").exists()
    assert train(config, tmp_path / "child").wait() == 0
    assert_same(tmp_path / "run", undisturbed)


def test_r5_the_second_signal_ends_it_at_once(settings, tmp_path):
    config = settings(**LONG)
    asleep = tmp_path / "asleep"
    child = train(config, tmp_path / "child", at_step(3, partial(fall_asleep, asleep)))
    wait_until(asleep.exists)
    child.process.terminate()
    child.process.join(0.5)
    assert child.process.exitcode is None
    for _ in range(30):  # for a time, repeated signals count as one
        child.process.terminate()
        child.process.join(1)
        if child.process.exitcode is not None:
            break
    assert child.process.exitcode == 143


def fall_asleep(sign: Path) -> None:
    distributed._ONE_REQUEST_S = 1.0
    sign.touch()
    time.sleep(3600)


def test_r13_damage_anywhere_in_a_run_is_found_or_harmless(settings, undisturbed, tmp_path):
    flips(settings, undisturbed, tmp_path, number=4, seed=3)


@pytest.mark.chaos
def test_r13_two_hundred_flipped_bits(settings, undisturbed, tmp_path, capsys):
    found, harmless = flips(settings, undisturbed, tmp_path, number=200, seed=4)
    with capsys.disabled():
        print(f"\n200 flipped bits: {found} reported, {harmless} without effect on any byte")


def flips(settings, undisturbed: Path, tmp_path: Path, number: int, seed: int) -> tuple[int, int]:
    """Flips a bit in a file of a stopped run or of its data and resumes it, `number` times.

    The run must report the damaged file or end with the undisturbed run's bytes. Returns the number
    of times that it did each.
    """
    config = settings(**LONG, data__directory=str(tmp_path / "data"))
    data = Path(settings().data.directory)
    child = train(settings(**LONG), tmp_path / "child", at_step(15, send(signal.SIGTERM)))
    assert child.wait() == 143
    start = tmp_path / "start"
    (tmp_path / "run").replace(start)
    chance, reported = random.Random(seed), 0
    for _ in range(number):
        for folder, origin in (("run", start), ("data", data)):
            shutil.rmtree(tmp_path / folder, ignore_errors=True)
            shutil.copytree(origin, tmp_path / folder)
        content = (tmp_path / "run/config.yaml").read_text()
        (tmp_path / "run/config.yaml").write_text(
            content.replace(str(data), str(tmp_path / "data"))
        )
        files = [p for f in ("run", "data") for p in (tmp_path / f).rglob("*") if p.is_file()]
        files = sorted(path for path in files if path.stat().st_size)
        path = chance.choice(files)
        content = bytearray(path.read_bytes())
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        child = train(config, tmp_path / "child")
        status = child.wait()
        names = path.name in child.said or path.parent.name in child.said
        if status:
            assert status in (2, 3) and names and "Traceback" not in child.said, (path, child.said)
        else:
            assert fingerprint(tmp_path / "run", LAST) == fingerprint(undisturbed, LAST), path
        reported += names
    return reported, number - reported


@pytest.mark.chaos
def test_r29_two_thousand_steps_with_forty_faults(settings, tmp_path: Path):
    """The faults are random kills, stops, deaths while saving and damaged checkpoints."""
    long = {"training__max_steps": 2000, "training__checkpoint_every": 20,
            "training__validate_every": 500, "training__log_every": 1}  # fmt: skip
    straight = settings(**long, training__run_directory=str(tmp_path / "straight"))
    assert train(straight, tmp_path / "child").wait() == 0
    chance, config = random.Random(5), settings(**long)
    for _ in range(40):
        at = min(last_step(tmp_path / "run") + chance.randrange(1, 90), 1999)
        kind = chance.choice(["kill", "stop", "save", "damage"])
        faults = {
            "kill": at_step(at, send(signal.SIGKILL)),
            "stop": at_step(at, send(signal.SIGTERM)),
            "save": die_while_saving(-(-at // 20) * 20, chance.randrange(30)),
            "damage": at_step(at, send(signal.SIGKILL)),
        }
        train(config, tmp_path / "child", faults[kind]).wait()
        folders = sorted((tmp_path / "run/checkpoints").glob("step-*"))
        if kind == "damage" and len(folders) > 2:
            path = chance.choice(sorted(folders[-1].iterdir()))
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert train(config, tmp_path / "child").wait() == 0
    assert fingerprint(tmp_path / "run", 2000) == fingerprint(tmp_path / "straight", 2000)
    assert losses(tmp_path / "run") == losses(tmp_path / "straight")


@pytest.mark.chaos
def test_r29_ten_commands_on_one_run_at_once(settings, tmp_path: Path, capsys):
    """Processes, including trainers, are killed at random until the run is finished."""
    long = {"training__max_steps": 200, "training__checkpoint_every": 20,
            "training__validate_every": 100, "training__log_every": 1,
            "model__d_k": 16, "model__d_v": 16}  # so that it can be exported  # fmt: skip
    straight = settings(**long, training__run_directory=str(tmp_path / "straight"))
    assert train(straight, tmp_path / "child").wait() == 0
    chance, config, run = random.Random(6), settings(**long), tmp_path / "run"
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    (tmp_path / "text").write_text("The man reads a book.\nA dog sleeps.\n")
    (tmp_path / "out").mkdir()
    running: list[Child] = []
    statuses: dict[str, list[int]] = {}
    number = 0
    while not (run / "model").exists() or running:
        for child in [each for each in running if not each.process.is_alive()]:
            running.remove(child)
            status = child.wait()
            statuses.setdefault(child.arguments[0], []).append(status)
            assert status in (0, 2, 3, -signal.SIGKILL), (child.arguments, child.said)
            assert "Traceback" not in child.said, (child.arguments, child.said)
        if len(running) < 5 and not (run / "model").exists():
            number += 1
            words = commands(run, tmp_path, number)[chance.choice([0, *range(10)])]
            slow = slow_steps(0.05) if words[0] == "train" else None
            running.append(nmt(*words, directory=tmp_path / "child", fault=slow))
        time.sleep(chance.uniform(0, 0.3))
        if running and chance.random() < 0.1:
            chance.choice(running).process.kill()
    assert statuses.keys() == {words[0] for words in commands(run, tmp_path, 0)}
    assert fingerprint(run, 200) == fingerprint(tmp_path / "straight", 200)
    assert losses(run) == losses(tmp_path / "straight")
    with capsys.disabled():
        print("".join(f"\n{name}: {sorted(found)}" for name, found in statuses.items()))


def commands(run: Path, folder: Path, number: int) -> list[list[object]]:
    """Returns ten commands on a run, which write to files in `out` that are named by the number."""
    config, text, out = folder / "config.yaml", folder / "text", folder / "out" / str(number)
    return [
        ["train", config],
        ["prepare", config],
        ["translate", run, "--input", text, "--output", out],
        ["score", run, "--source", text, "--target", text],
        ["evaluate", run],
        ["info", run],
        ["average", run, "--last", 2, "--output", out],
        ["attention", run, "--source", "The man reads.", "--output", f"{out}.html"],
        ["report", run, "--output", f"{out}.html"],
        ["export", run, "--format", "huggingface", "--output", out],
    ]
