"""`nmt prepare` as a process: killed, stopped, with a full disk, or started twice."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nmt import config
from nmt.cli import main
from nmt.data import prepare, workers
from nmt.data.stages import clean, vocabulary
from tests.data.halting import SHARD_PAIRS, finished
from tests.data.test_prepare import content, cut, flip
from tests.patience import PATIENCE_S, wait_until
from tests.tiny import tiny_settings


def saved(directory: Path, pairs: int = 400) -> Path:
    """Writes a configuration file for demo pairs, prepared in directory/data."""
    settings = tiny_settings(directory)
    settings["data"]["train"] = [{"demo": {"pairs": pairs, "seed": 1}}]
    settings["tokenizer"]["vocabulary_size"] = 1000  # a larger file than the shards are
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "config.yaml"
    path.write_text(config.validate(settings, {}, "tiny").to_yaml())
    return path


def start(
    path: Path, processes: int = 2, file_limit: int = 0, halt_at: int = 0
) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.data.halting", str(file_limit), str(halt_at), "prepare",
         str(path), "--processes", str(processes)],
        stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip


def ended(process: subprocess.Popen) -> str:
    """Returns the output, once no process is left that could write more."""
    return process.communicate(timeout=PATIENCE_S)[1]


def strike(process: subprocess.Popen, directory: Path, files: int, number: int) -> dict[str, int]:
    """Sends a signal when this many files are finished; SIGINT goes to all processes, as with
    Ctrl-C.

    The process was started to halt there.
    """
    wait_until(lambda: len(finished(directory)) >= files or process.poll() is not None, 0.05)
    assert process.poll() is None, ended(process)
    seen = finished(directory)
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    return seen


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files that an uninterrupted process writes."""
    directory = tmp_path_factory.mktemp("expected")
    prepared_here(saved(directory))
    return content(directory / "data")


def prepared_here(path: Path) -> None:
    """Prepares, or continues, in this process only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clean, "SHARD_PAIRS", SHARD_PAIRS)
        prepare.prepare(config.load(path), note=lambda line: None, processes=1)


def test_ended_at_any_point_it_goes_on_from_there(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """The files: 6 of validation and test text, 17 of training text, 2 of kept.npy, 2 of the
    tokenizer, 18 of token ids."""
    path, done = saved(tmp_path), {}
    for files, number, status in (
        (14, signal.SIGINT, 130),  # while it cleans the training text
        (25, signal.SIGTERM, 143),  # while it learns the vocabulary
        (30, signal.SIGKILL, -9),  # while it encodes
    ):
        process = start(path, halt_at=files)
        seen = strike(process, tmp_path, files, number)
        said = ended(process)
        assert process.returncode == status, said
        assert done.items() <= seen.items(), "a finished file was written again"
        assert not (tmp_path / "data/manifest.json").exists()
        if number != signal.SIGKILL:  # after which a process that was just starting may complain
            assert "Traceback" not in said, said
            assert re.search(
                r"^nmt: Stopped\. .* nmt prepare continues from there\.$", said, re.M
            ), said
            assert not list((tmp_path / "data").rglob(".tmp-*"))
        done = finished(tmp_path)
    prepared_here(path)
    assert content(tmp_path / "data") == expected
    shards = {path.stat().st_ino for path in (tmp_path / "data").rglob("*.arrow")}
    moved = {inode for name, inode in done.items() if re.search(r"tokens-.*train.*arrow", name)}
    assert moved <= shards


@pytest.mark.parametrize("is_given", [True, False], ids=["while busy", "before it begins"])
@pytest.mark.parametrize("processes", [1, 2], ids=["learning", "cleaning"])
def test_a_killed_worker_is_one_line(
    tmp_path: Path, capsys, monkeypatch, processes: int, is_given: bool
) -> None:
    give, half_written = workers._Worker.give, []

    def give_and_kill(worker, function, task) -> None:
        if is_given:
            give(worker, time.sleep, (3600,))
        worker._process.kill()
        worker._process.join()
        [text] = (tmp_path / "data/.work").glob("text-*")
        half_written.append(text / ".tmp-nmt-00000001-shard.arrow")
        half_written[-1].touch()
        if not is_given:
            give(worker, function, task)

    monkeypatch.setattr(workers._Worker, "give", give_and_kill)
    monkeypatch.setattr(clean, "SHARD_PAIRS", SHARD_PAIRS)
    monkeypatch.setattr(vocabulary, "_LEARN_APART_BYTES", 0)
    assert main(["prepare", str(saved(tmp_path)), "--processes", str(processes)]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.match(
        r"nmt: error: Worker process \d+ was terminated by a signal \(Killed\)\. ", last
    )
    assert half_written
    assert not any(path.exists() for path in half_written)


def test_r12_a_full_disk_is_one_line_and_leaves_nothing_half_written(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """The disk is full for a worker that cleans, then for the one that learns the vocabulary."""
    path, names = saved(tmp_path), []
    for limit, processes in ((3_000, 2), (13_000, 1)):
        process = start(path, processes, limit)
        said = ended(process)
        assert process.returncode == 5, said
        [line] = [line for line in said.splitlines() if line.startswith("nmt: error: ")]
        found = re.search(r"File too large: (\S+)\. ", line)
        assert "Traceback" not in said
        assert found
        names.append(Path(found[1]).name)
        assert not Path(found[1]).exists()
        assert not list((tmp_path / "data").rglob(".tmp-*"))
        assert all(file.name.startswith(".") for file in (tmp_path / "data").iterdir())
    assert names[0].endswith("arrow")
    assert names[1].startswith("tokenizer-")
    prepared_here(path)
    assert content(tmp_path / "data") == expected


def test_r22_of_two_at_once_the_second_is_refused_and_the_result_is_whole(
    tmp_path: Path, expected: dict[str, bytes], capsys
) -> None:
    path = saved(tmp_path)
    first = start(path, halt_at=1)
    wait_until(lambda: finished(tmp_path) or first.poll() is not None)
    assert main(["prepare", str(path)]) == 2
    assert f" is in use by nmt prepare, process {first.pid} on" in capsys.readouterr().err
    (tmp_path / "go on").touch()
    said = ended(first)
    assert first.returncode == 0, said
    assert content(tmp_path / "data") == expected


def test_r22_what_another_process_has_just_prepared_is_not_prepared_again(
    tmp_path: Path, monkeypatch
) -> None:
    wanted = config.load(saved(tmp_path, pairs=200))

    def meanwhile(*_) -> None:
        monkeypatch.undo()
        prepare.prepare(wanted, note=lambda line: None)

    monkeypatch.setattr(prepare, "check_corpus", meanwhile)
    lines: list[str] = []
    prepare.prepare(wanted, note=lines.append)
    [line] = lines
    assert line.startswith(f"{tmp_path}/data was prepared by another process")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other(path: Path) -> None:
    """Replaces a file of one split with that of another split, which is also valid."""
    [split] = {"train", "validation"} - {path.parent.name}
    shutil.copy(path.parent.parent / split / path.name, path)


@pytest.mark.parametrize("damage", [cut, empty, flip, other, Path.unlink])
@pytest.mark.parametrize("split", ["train", "validation"])
def test_r14_a_damaged_shard_is_refused_before_its_first_batch(
    tiny_data: Path, settings, tmp_path: Path, capsys, damage, split: str
) -> None:
    shutil.copytree(tiny_data / "data", tmp_path / "data")
    damage(tmp_path / f"data/{split}/data-00000-of-00001.arrow")
    path = tmp_path / "config.yaml"
    path.write_text(settings(data__directory=str(tmp_path / "data")).to_yaml())
    assert main(["train", str(path)]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if "nmt: error: " in line]
    assert f"{split}/data-00000-of-00001.arrow" in line
    assert "Run nmt prepare again" in line
    log = tmp_path / "run/log.jsonl"
    assert not log.exists() or '"step"' not in log.read_text()
