"""Writing aside, syncing and renaming: what stands under its final name is whole.

A power cut or `kill -9` at any moment leaves the old state or the new one, and at most a folder
or file whose name starts with `.tmp-`, which the next writer in that place removes: nobody holds
the lock on it any more, by which it is known that its own writer has gone.
"""

import fcntl
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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

    After an exception `path` is as it was and nothing is left beside it. An OSError that does not
    say which file it is about, as that of a full disk, is given the name.
    """
    with _locked_aside(path, Path.touch) as aside:
        try:
            yield aside
            sync(aside)
            aside.replace(path)
        except BaseException as error:
            aside.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno and error.filename is None:
                raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
            raise
    sync(path.parent)


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `path` when the block ends without an exception.

    Every file in it is synced first. `path` must not exist, or be empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked_aside(path, Path.mkdir) as aside:
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
    """Removes what interrupted writers left in `folder`, not what a living process writes there."""
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError), ExitStack() as stack:
            descriptor = _open(path)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its writer lives
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextmanager
def _locked_aside(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A new file or folder beside `path`, locked until the block ends or this process does.

    Where the file system has no locks it stands unlocked, and `remove_leftovers` leaves it alone.
    """
    while True:
        # the end of the name tells a person what it is; all of it might make this one too long
        aside = path.with_name(f"{_PREFIX}{secrets.token_hex(4)}-{path.name[-40:]}")
        make(aside)
        try:
            descriptor = _open(aside)
        except FileNotFoundError:  # taken for a leftover before it could be locked
            continue
        try:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if aside.exists():  # as above
                yield aside
                return
        finally:
            os.close(descriptor)


def _open(path: Path) -> int:
    """A descriptor of a file or folder, which can hold a lock on it while it is open."""
    return os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # NFS locks what can write


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
        by = "another process"
        with suppress(FileNotFoundError):  # not yet written, or just removed
            by = holder.read_text(errors="replace").strip()
        raise InputError(f"in use by {by}, {folder}, wait for it or stop it") from None
    try:
        write_file(holder, f"{purpose}, process {os.getpid()} on {socket.gethostname()}\n")
        yield
    finally:
        holder.unlink(missing_ok=True)
        file_lock.release()
