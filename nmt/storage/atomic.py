"""Writing aside, syncing and renaming: what stands under its final name is whole.

A power cut or `kill -9` at any moment leaves the old state or the new one, and at most a folder
or file whose name starts with `.tmp-`, which the next writer in that place removes.
"""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from nmt.errors import InputError

_PREFIX = ".tmp-"


def sync(path: Path) -> None:
    """Flushes a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes | str) -> None:
    """Writes a file whole, see `new_file`."""
    with new_file(path) as aside:
        aside.write_bytes(data.encode() if isinstance(data, str) else data)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A name to write to; the file is synced and renamed over `path` when the block ends.

    After an exception `path` is as it was and nothing is left beside it.
    """
    aside = path.with_name(f"{_PREFIX}{os.getpid()}-{path.name}")
    try:
        yield aside
        sync(aside)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `path` when the block ends without an exception.

    Every file in it is synced first. `path` must not exist, or be empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{_PREFIX}{os.getpid()}-{path.name}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    try:
        yield aside
        for folder, _, files in os.walk(aside):
            for file in files:
                sync(Path(folder, file))
            sync(Path(folder))
        aside.replace(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    sync(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Removes what an interrupted writer left in `folder`. Call it while holding its lock."""
    for path in folder.glob(f"{_PREFIX}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def refuse_existing(path: Path) -> None:
    """Raises InputError if `path` exists and is anything but an empty folder."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists() or path.is_symlink():
        raise InputError(f"exists and is not an empty folder, {path}, name another output")


@contextmanager
def lock(folder: Path, purpose: str) -> Iterator[None]:
    """Holds `folder` for one writer; the operating system frees it if the process dies.

    Raises:
        InputError: another process holds it; names its pid and host.
    """
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / ".lock-holder"
    file_lock = FileLock(folder / ".lock")
    try:
        file_lock.acquire(timeout=0)
    except Timeout:
        by = holder.read_text(errors="replace").strip() if holder.exists() else "another process"
        raise InputError(f"in use by {by}, {folder}, wait for it or stop it") from None
    try:
        write_file(holder, f"{purpose}, process {os.getpid()} on {socket.gethostname()}\n")
        yield
    finally:
        holder.unlink(missing_ok=True)
        file_lock.release()
