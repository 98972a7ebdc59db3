"""Atomic writes, manifests and locks."""

import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from nmt.errors import InputError, NoModelError, Status
from nmt.storage import atomic, manifest


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch):
    path = tmp_path / "a"
    atomic.write_file(path, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        atomic.write_file(path, "new")
    with pytest.raises(OSError, match="No space"), atomic.new_directory(tmp_path / "d") as folder:
        (folder / "x").write_text("x")
    assert listing(tmp_path) == ["a"]
    assert path.read_text() == "old"


def test_a_directory_appears_when_it_is_complete(tmp_path: Path):
    with atomic.new_directory(tmp_path / "deep" / "d") as folder:
        (folder / "x").write_text("x")
        assert not (tmp_path / "deep" / "d").exists()
    assert listing(tmp_path / "deep" / "d") == ["x"]
    with pytest.raises(RuntimeError), atomic.new_directory(tmp_path / "e") as folder:
        raise RuntimeError
    assert listing(tmp_path) == ["deep"]


@pytest.mark.parametrize("name", ["a" * 255, "€" * 85])
def test_a_name_may_be_as_long_as_the_file_system_has_it(tmp_path: Path, name: str):
    atomic.write_file(tmp_path / name, "x")
    with atomic.new_directory(tmp_path / "d" / name):
        pass
    assert listing(tmp_path) == sorted([name, "d"]) and listing(tmp_path / "d") == [name]


def test_r22_leftovers_of_a_killed_writer_are_removed_but_no_living_ones(tmp_path: Path):
    """A run may start while another process writes a translation into its directory."""
    code = (
        "import sys, time; from pathlib import Path; from nmt.storage import atomic\n"
        "folder = Path(sys.argv[1])\n"
        "with atomic.new_file(folder / 'f') as f, atomic.new_directory(folder / 'd') as d:\n"
        "    f.write_text('x'); (d / 'x').write_text('x'); print('writing', flush=True)\n"
        "    sys.stdin.read(1)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"writing\n"
    (tmp_path / ".tmp-nmt-former-00000001" / "x").mkdir(parents=True)
    atomic.remove_leftovers(tmp_path)
    assert len(listing(tmp_path)) == 2
    writer.communicate(b"\n")
    assert listing(tmp_path) == ["d", "f"]
    assert (tmp_path / "f").read_text() == (tmp_path / "d" / "x").read_text() == "x"
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"writing\n"
    writer.kill()
    writer.wait()
    assert len(listing(tmp_path)) == 4
    atomic.remove_leftovers(tmp_path)
    assert listing(tmp_path) == ["d", "f"]


def test_a_later_writer_removes_what_killed_ones_left_and_nothing_else(tmp_path: Path):
    """Files of other programs and of writers that still run are kept."""
    others = [".tmp-other", ".tmp-01234567-a", "tmp-nmt-01234567-a", ".tmp-nmt-new-a"]
    for name in others:
        (tmp_path / name).touch()
    killed, living = tmp_path / ".tmp-nmt-01234567-a", tmp_path / ".tmp-nmt-89abcdef-b"
    living.mkdir()
    descriptor = os.open(living, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    for write in (atomic.new_file, atomic.new_directory):
        killed.touch()
        with write(tmp_path / write.__name__):
            assert not killed.exists()
    os.close(descriptor)
    assert listing(tmp_path) == sorted([*others, living.name, "new_directory", "new_file"])
    atomic.write_file(tmp_path / "e", "e")
    assert not living.exists()


def test_files_have_the_mode_that_the_umask_gives(tmp_path: Path):
    """safetensors creates files with mode 0600, which other users cannot read."""
    former = os.umask(0o027)
    try:
        with atomic.new_directory(tmp_path / "d") as folder:
            save_file({"x": torch.zeros(1)}, folder / "x")
            (folder / "deep").mkdir()
            save_file({"x": torch.zeros(1)}, folder / "deep" / "x")
        with atomic.new_file(tmp_path / "f") as file:
            save_file({"x": torch.zeros(1)}, file)
    finally:
        os.umask(former)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"d": 0o750, "deep": 0o750, "x": 0o640, "f": 0o640}


def test_a_file_that_replaces_another_has_its_permissions(tmp_path: Path):
    (path := tmp_path / "f").touch()
    path.chmod(0o400)
    with atomic.new_file(path) as aside:
        assert aside.stat().st_mode & 0o777 == 0o600  # others cannot read it meanwhile
        aside.write_text("private")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("private", 0o600)


@pytest.fixture
def order(monkeypatch, tmp_path: Path) -> list[tuple[str, str]]:
    """Records syncs and renames in order, with paths below `tmp_path`."""
    done: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def noted(path: str | Path) -> str:
        name = str(Path(path).relative_to(tmp_path))
        return re.sub(r"\.tmp-nmt-[0-9a-f]{8}-", "aside-", name)

    def noting_fsync(descriptor: int) -> None:
        done.append(("sync", noted(Path(f"/proc/self/fd/{descriptor}").readlink())))
        fsync(descriptor)

    def noting_replace(source, target) -> None:
        done.append(("rename", noted(source)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "replace", noting_replace)
    return done


def test_r2_what_is_renamed_has_been_synced_and_the_rename_is(order, tmp_path: Path):
    """Without these syncs, a power failure may leave the new name without its content."""
    atomic.write_file(tmp_path / "f", "x")
    assert order == [("sync", "aside-f"), ("rename", "aside-f"), ("sync", ".")]
    order.clear()
    with atomic.new_directory(tmp_path / "d") as folder:
        (folder / "deep").mkdir()
        (folder / "x").write_text("x")
        (folder / "deep" / "y").write_text("y")
    *synced, renamed, parent = order
    names = ("", "/x", "/deep", "/deep/y")
    assert sorted(synced) == sorted(("sync", f"aside-d{name}") for name in names)
    assert (renamed, parent) == (("rename", "aside-d"), ("sync", "."))


def test_outputs_that_exist_are_refused(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    atomic.refuse_existing(tmp_path / "empty")
    atomic.refuse_existing(tmp_path / "new")
    (tmp_path / "empty" / "x").write_text("")
    for path in (tmp_path / "empty", tmp_path / "empty" / "x"):
        with pytest.raises(InputError, match="not an empty directory"):
            atomic.refuse_existing(path)
    with (
        pytest.raises(InputError, match="late exists and is not an empty directory"),
        atomic.new_directory(tmp_path / "late"),
        atomic.new_directory(tmp_path / "late") as folder,
    ):
        (folder / "x").write_text("")
    assert listing(tmp_path) == ["empty", "late"]


def test_an_empty_folder_that_cannot_be_replaced_is_refused_at_once(tmp_path: Path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    monkeypatch.chdir(tmp_path / "empty")
    for path in (tmp_path / "link", tmp_path / "empty", Path()):
        with pytest.raises(InputError, match="Choose a new directory inside it"):
            atomic.refuse_existing(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "empty")
    with pytest.raises(InputError, match="empty is a mount point"):
        atomic.refuse_existing(Path("empty"))


def test_r22_a_lock_names_its_holder_and_dies_with_it(tmp_path: Path):
    code = (
        "import sys, time; from pathlib import Path; from nmt.storage.atomic import lock\n"
        "with lock(Path(sys.argv[1]), 'nmt train'): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    expected = pytest.raises(InputError, match=rf"nmt train, process {holder.pid} on ")
    with expected, atomic.lock(tmp_path, "nmt train"):
        pass
    holder.kill()
    holder.wait()
    with atomic.lock(tmp_path, "nmt train"):
        pass


@pytest.mark.parametrize("write", [atomic.new_file, atomic.new_directory])
def test_a_signal_at_the_making_of_what_is_written_aside_leaves_nothing(
    tmp_path: Path, monkeypatch, write
):
    def interrupted(make):
        def made(path: Path, **options) -> None:
            make(path, **options)
            if path.parent == tmp_path:
                raise KeyboardInterrupt

        return made

    for name in ("touch", "mkdir"):
        monkeypatch.setattr(Path, name, interrupted(getattr(Path, name)))
    with pytest.raises(KeyboardInterrupt), write(tmp_path / "x"):
        pass
    assert listing(tmp_path) == []


@pytest.fixture
def described(tmp_path: Path) -> Path:
    folder = tmp_path / "m"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_bytes(bytes(range(256)))
    (folder / "deep" / "b").write_text("b")
    manifest.write(
        folder,
        "model",
        {"step": 3, "tokenizer_sha256": "t", "data_sha256": "d", "target_symbols": []},
    )
    return folder


def check(folder: Path) -> None:
    manifest.verify(folder, manifest.read(folder, "model"))


def test_what_was_written_verifies(described: Path):
    check(described)
    assert manifest.read(described, "model")["files"].keys() == {"a", "deep/b"}


def test_the_bytes_that_are_read_are_those_that_are_verified(described: Path):
    path, content = described / "a", manifest.read(described, "model")
    original = path.read_bytes()
    with manifest.verified(described, content, "a") as file:
        assert file.read() == original
        path.write_bytes(bytes(256))
    with (
        pytest.raises(NoModelError, match=r"sha256 .* the manifest lists"),
        manifest.verified(described, content, "a") as file,
    ):
        raise InputError(f"{file.read()!r} has another form")  # the damage explains it


@hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_flipped_bit_is_found(described: Path, data):
    path = described / data.draw(st.sampled_from(["a", "deep/b", "manifest.json"]))
    content = path.read_bytes()
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    flipped = bytearray(content)
    flipped[bit // 8] ^= 1 << bit % 8
    path.write_bytes(flipped)
    try:
        # white space between JSON tokens may change
        same = path.name == "manifest.json" and _parsed(flipped) == _parsed(content)
        if not same:
            with pytest.raises(InputError):
                check(described)
    finally:
        path.write_bytes(content)


def _parsed(content: bytes):
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_truncated_and_missing_files_are_named(described: Path):
    (described / "a").write_bytes(b"short")
    with pytest.raises(InputError, match="5 bytes, but the manifest lists 256") as error:
        check(described)
    assert error.value.status == Status.NO_MODEL
    (described / "a").unlink()
    with pytest.raises(InputError, match="a is missing"):
        check(described)
    (described / "manifest.json").unlink()
    with pytest.raises(NoModelError, match=r"has no manifest\.json"):
        check(described)


def test_r16_other_kinds_and_names_that_lead_outside(described: Path):
    with pytest.raises(NoModelError, match=r"a model directory\. Specify a checkpoint"):
        manifest.read(described, "checkpoint")
    content = manifest.read(described, "model")
    entry = content["files"]["a"]
    for name in ("../secret", "/etc/passwd"):
        manifest.rewrite(described, content | {"files": {name: entry}})
        with pytest.raises(NoModelError, match=r"manifest\.json is damaged"):
            manifest.read(described, "model")
    (described / "manifest.json").unlink()
    os.mkfifo(described / "manifest.json")  # reading it would block
    with pytest.raises(NoModelError, match=r"manifest\.json is damaged"):
        manifest.read(described, "model")
