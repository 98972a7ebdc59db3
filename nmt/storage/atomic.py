"""Writing aside, syncing and renaming: what stands under its final name is whole.

A power cut or `kill -9` at any moment leaves the old state or the new one, and at most a folder
or file whose name starts with `.tmp-`, which the next writer in that place removes: nobody holds
the lock on it any more, by which it is known that its own writer has gone.
"""

import fcntl
import itertools
import os
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import InputError
from nmt.storage.opening import small_file

PREFIX, LOCK, LOCK_HOLDER = ".tmp-", ".lock", ".lock-holder"
_ASIDE = re.compile(re.escape(PREFIX) + "[0-9a-f]{8}-.")  # as `_locked_aside` names things
_LEFT = re.compile(
    re.escape(PREFIX) + "([0-9a-f]{8}-|former-|new-|step)."
)  # and `aside`, now or once


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


def write_if_changed(path: Path, data: bytes) -> None:
    """`write_file`, unless that is what stands there already."""
    is_there = path.is_file() and path.stat().st_size == len(data)
    if not is_there or path.read_bytes() != data:
        write_file(path, data)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A name to write to; the file is synced and renamed over `path` when the block ends.

    What killed writers have left beside `path` is removed first. After an exception `path` is as
    it was and nothing is left beside it. An OSError that does not say which file it is about, as
    that of a full disk, is given the name.
    """
    with _locked_aside(path, Path.touch) as aside:
        mode = _mode_of_files(aside)
        try:
            yield aside
            _give_mode(aside, mode)
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

    Every file in it is synced first. `path` must not exist, or be empty. What killed writers have
    left beside it is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked_aside(path, Path.mkdir) as aside:
        mode = _mode_of_files(aside)
        try:
            yield aside
            for folder, _, files in os.walk(aside):
                for file in files:
                    _give_mode(Path(folder, file), mode)
                    sync(Path(folder, file))
                sync(Path(folder))
            aside.replace(path)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    sync(path.parent)


def _mode_of_files(aside: Path) -> int:
    """Permissions as the umask gives them to a file, where `aside` was just made.

    Libraries may have others: safetensors lets nobody but the owner read what it writes.
    """
    return aside.stat().st_mode & 0o666


def _give_mode(path: Path, mode: int) -> None:
    if stat.S_IMODE(path.stat().st_mode) != mode:  # some file systems refuse any chmod
        path.chmod(mode)


def remove_leftovers(folder: Path) -> None:
    """Removes what interrupted writers left in `folder`, not what a living process writes there.

    Only what has a name as they give it: the folder may hold other things of a person.
    """
    _remove_unlocked(path for path in folder.glob(f"{PREFIX}*") if _LEFT.match(path.name))


def aside(path: Path, word: str) -> Path:
    """A name beside `path` for `remove_leftovers` to remove: `.tmp-WORD-NAME`.

    For what is to take the place of `path` ("new"), or has made room for it ("former").
    """
    return path.with_name(f"{PREFIX}{word}-{path.name}")


def _remove_unlocked(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_symlink():
            path.unlink(missing_ok=True)
            continue
        with suppress(OSError), ExitStack() as stack:
            descriptor = _open(path)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its writer lives
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_aside(path: Path) -> bool:
    return bool(_ASIDE.match(path.name)) and not path.is_symlink()


def free_name(path: Path, reason: str) -> Path:
    """A name beside `path` that nothing has yet: `REASON-NUMBER-NAME`."""
    names = (path.with_name(f"{reason}-{number}-{path.name}") for number in itertools.count(1))
    return next(name for name in names if not os.path.lexists(name))


@contextmanager
def _locked_aside(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A new file or folder beside `path`, locked until the block ends or this process does.

    Where the file system has no locks it stands unlocked, and nobody takes it for a leftover.
    """
    with suppress(OSError):  # a folder that may be written to, but not listed
        _remove_unlocked(beside for beside in path.parent.iterdir() if _is_aside(beside))
    while True:
        # the end of the name tells a person what it is; all of it might make this one too long
        aside = path.with_name(f"{PREFIX}{secrets.token_hex(4)}-{path.name[-40:]}")
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


@dataclass(frozen=True)
class Lock:
    """A folder held for one writer: the right to write under its path, as long as it is there."""

    folder: Path
    _descriptor: int

    def check(self) -> None:
        """Raises InputError if the path no longer leads to the lock that is held.

        A folder that was renamed takes its lock along; another process may hold the path by now.
        """
        if not self.is_held:
            raise InputError(
                f"moved, removed or taken over by another process, {self.folder}, nothing more is "
                "written: start this again where the folder is now"
            )

    @property
    def is_held(self) -> bool:
        try:
            return os.path.samestat((self.folder / LOCK).stat(), os.fstat(self._descriptor))
        except OSError:
            return False


@contextmanager
def lock(folder: Path, purpose: str) -> Iterator[Lock]:
    """Holds `folder` for one writer; the operating system frees it if the process dies.

    Raises:
        InputError: another process holds it; names its pid and host.
    """
    folder.mkdir(parents=True, exist_ok=True)
    holder = folder / LOCK_HOLDER
    with ExitStack() as stack:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            by = "another process"
            with suppress(OSError, InputError):  # not yet written, just removed, none of ours
                by = small_file(holder, 1000).decode(errors="replace").strip()
            raise InputError(f"in use by {by}, {folder}, wait for it or stop it") from None
        held = Lock(folder, descriptor)
        held.check()  # the folder may have gone between opening and locking
        write_file(holder, f"{purpose}, process {os.getpid()} on {socket.gethostname()}\n")
        try:
            yield held
        finally:
            if held.is_held:
                holder.unlink(missing_ok=True)
