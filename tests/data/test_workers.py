"""Calls in several processes: all calls are made, errors are raised, and no process remains."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker, util
from pathlib import Path

import pytest

from nmt import signals
from nmt.data import workers
from nmt.errors import InputError, Status, Stopped, StorageError
from tests.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


def note(folder: Path, name: str) -> None:
    with (folder / name).open("a") as file:
        file.write(f"{os.getpid()}\n")


def refuse(_: Path, name: str) -> None:
    if name == "2":
        raise StorageError("what", "where")


def kill_itself(_: Path, name: str) -> None:
    if name == "2":
        os.kill(os.getpid(), signal.SIGKILL)


def interrupt_itself(folder: Path, name: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        os.kill(os.getpid(), number)
    note(folder, name)


def fall_asleep() -> None:
    os.write(1, b"asleep\n")  # at once: two of them write, perhaps without a buffer
    time.sleep(3600)


def tasks(folder: Path, number: int) -> list[tuple[Path, str]]:
    return [(folder, str(i)) for i in range(number)]


def test_each_call_is_made_once_and_where_it_should(tmp_path: Path) -> None:
    for number, processes, here in ((0, 3, 0), (1, 3, 1), (7, 1, 1), (7, 3, 0)):
        folder = tmp_path / f"{number}-{processes}"
        folder.mkdir()
        workers.run(note, iter(tasks(folder, number)), processes)
        made = {path.name: path.read_text().split() for path in folder.iterdir()}
        assert sorted(made) == sorted(str(i) for i in range(number))
        assert all(len(pids) == 1 for pids in made.values())
        pids = {pids[0] for pids in made.values()}
        assert len(pids) <= processes
        assert (str(os.getpid()) in pids) == bool(here)
    workers.run_apart(note, tmp_path, "apart")
    assert (tmp_path / "apart").read_text().strip() != str(os.getpid())


def test_what_a_call_raises_is_raised_here(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        workers.run(refuse, tasks(tmp_path, 5), 2)
    assert caught.value.problems == ("what", "where")
    assert caught.value.status == Status.STORAGE
    with pytest.raises(FileNotFoundError) as missing:
        workers.run_apart(note, tmp_path / "none", "x")
    assert missing.value.filename == str(tmp_path / "none" / "x")
    assert "in note" in missing.value.__notes__[0]  # where in the worker it was


def test_a_killed_worker_and_failing_tasks_end_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"signal \(Killed\).*number of processes") as caught:
        workers.run(kill_itself, tasks(tmp_path, 50), 2)
    assert caught.value.status == Status.INPUT

    def failing() -> Iterator[tuple[Path, str]]:
        yield from tasks(tmp_path, 3)
        raise InputError("line 4 is bad")

    with pytest.raises(InputError, match="line 4 is bad"):
        workers.run(note, failing(), 2)


def test_a_current_directory_that_was_removed_is_one_line(tmp_path: Path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    with pytest.raises(InputError, match="current directory no longer exists"):
        workers.run_apart(time.sleep, 0)
    assert capfd.readouterr().err == ""


def test_signals_are_for_the_parent_alone(tmp_path: Path) -> None:
    """Ctrl-C signals all processes of a terminal."""
    workers.run(interrupt_itself, tasks(tmp_path, 3), 2)
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(Stopped) as caught, signals.stoppable("stopped"):
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.status == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_signal_waits_until_a_worker_has_its_orders(monkeypatch, capfd) -> None:
    """A thread that does not block the signal receives it, such as a thread of Arrow."""
    spawn, started, is_time = util.spawnv_passfds, [], threading.Event()

    def spawn_and_signal(*arguments) -> int:
        started.append(spawn(*arguments))
        is_time.set()
        taker.join()
        return started[-1]

    resource_tracker.ensure_running()  # is spawned too
    taker = threading.Thread(target=lambda: (is_time.wait(), os.kill(os.getpid(), signal.SIGTERM)))
    taker.start()
    monkeypatch.setattr(util, "spawnv_passfds", spawn_and_signal)
    with pytest.raises(Stopped), signals.stoppable("stopped"):
        workers.run_apart(time.sleep, 3600)
    with contextlib.suppress(ChildProcessError):  # it was waited for already
        os.waitpid(started[-1], 0)
    assert "Traceback" not in capfd.readouterr().err


def test_workers_end_when_their_parent_is_killed() -> None:
    """Workers keep standard error open, so reading it ends after the last worker."""
    code = (
        "from nmt.data import workers; from tests.data.test_workers import fall_asleep\n"
        "workers.run(fall_asleep, [()] * 3, 2)"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2], **pipes)
    assert parent.stdout
    # while one is starting, it would find its orders cut off and say so
    assert [parent.stdout.readline() for _ in range(2)] == [b"asleep\n"] * 2
    parent.kill()
    assert parent.communicate(timeout=PATIENCE_S) == (b"", b"")
