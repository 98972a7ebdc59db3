"""Writing aside, syncing and renaming: what has its final name is whole.

A power cut or `kill -9` at any moment leaves the old state or the new one, and at most a file or
folder whose name begins with `PREFIX`, which the next writer in that place removes: nobody holds
the lock on it any more, which shows that its own writer has gone.
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
from pathlib import Path

from nmt.errors import InputError, naming
from nmt.storage.opening import refuse_not_utf8

PREFIX, LOCK = ".tmp-nmt-", ".lock"  # nobody else begins a name so
_LOCKED = re.compile(re.escape(PREFIX) + "[0-9a-f]{8}-.")  # as `_locked_aside` names things
_MAX_HOLDER_BYTES = 1000


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
    """`write_file`, unless the file has that content already."""
    is_there = path.is_file() and path.stat().st_size == len(data)
    if not is_there or path.read_bytes() != data:
        write_file(path, data)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A name to write to; the file is synced and renamed to `path` when the block ends.

    What killed writers have left beside `path` is removed first. After an exception `path` is as
    it was and nothing is left beside it. An OSError that does not say which file it is about, as
    that of a full disk, is given the name.
    """
    with _locked_aside(path, Path.touch) as aside:
        mode = _mode_of_files(aside)
        with naming(str(path)):
            yield aside
            _give_mode(aside, mode)
            sync(aside)
            aside.replace(path)
    sync(path.parent)


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A folder to fill, which is renamed to `path` when the block ends without an exception.

    Every file in it is synced first. `path` must not exist, or be empty. What killed writers have
    left beside it is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked_aside(path, Path.mkdir) as aside:
        mode = _mode_of_files(aside)
        yield aside
        for folder, _, files in os.walk(aside):
            for file in files:
                _give_mode(Path(folder, file), mode)
                sync(Path(folder, file))
            sync(Path(folder))
        aside.replace(path)
    sync(path.parent)


def _mode_of_files(aside: Path) -> int:
    """The permissions that the umask gives to a file, read from `aside`, which was just made.

    Libraries may give others: what safetensors writes is readable for its owner alone.
    """
    return aside.stat().st_mode & 0o666


def _give_mode(path: Path, mode: int) -> None:
    if stat.S_IMODE(path.stat().st_mode) != mode:  # some file systems refuse any chmod
        path.chmod(mode)


def remove_leftovers(folder: Path) -> None:
    """Removes what interrupted writers left in `folder`, not what a living process writes there."""
    _remove_unlocked(folder.glob(f"{PREFIX}*"))


def aside(path: Path, word: str) -> Path:
    """A temporary name beside `path`, which `remove_leftovers` removes.

    Args:
        word: "new" for what will replace `path`, "former" for what it replaces.
    """
    return path.with_name(f"{PREFIX}{word}-{path.name}")


def _remove_unlocked(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError), ExitStack() as stack:
            descriptor = _open(path)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its writer lives
            remove(path)


def remove(path: Path) -> None:
    """Removes a folder, a file or a link, never what a link leads to; nothing there is fine.

    Raises:
        OSError: it, or something in it, cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def free_name(path: Path, reason: str) -> Path:
    """An unused name beside `path`: `REASON-NUMBER-NAME`."""
    names = (path.with_name(f"{reason}-{number}-{path.name}") for number in itertools.count(1))
    return next(name for name in names if not os.path.lexists(name))


@contextmanager
def _locked_aside(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A new file or folder beside `path`, locked and then removed, unless it was renamed.

    On a file system without locks it is not locked, and no writer takes it for a leftover.
    """
    _remove_unlocked(beside for beside in path.parent.iterdir() if _LOCKED.match(beside.name))
    while True:
        # the end of the name tells a person what it is; all of it might make this one too long
        aside = path.with_name(f"{PREFIX}{secrets.token_hex(4)}-{path.name[-40:]}")
        with ExitStack() as stack:
            stack.callback(_discard, aside)  # before it is there: a signal may come at any moment
            make(aside)
            try:
                descriptor = _open(aside)
            except FileNotFoundError:  # another writer took it for a leftover before it was locked
                continue
            stack.callback(os.close, descriptor)
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if aside.exists():  # as above
                yield aside
                return


def _discard(path: Path) -> None:
    with suppress(OSError):
        remove(path)


def _open(path: Path) -> int:
    """Opens a file or folder so that it can be locked; the lock lasts until this is closed."""
    return os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # NFS locks what can write


def refuse_link(path: Path) -> None:
    """Raises InputError if a name that only nmt uses is a symbolic link, whose target is not ours.

    The directory that the name is in may be one.
    """
    if path.is_symlink():
        raise InputError(f"a symbolic link, {path}, remove it; {path.parent} itself may be one")


def refuse_existing(path: Path) -> None:
    """Raises InputError if no folder can be made at `path`, or it is there and not empty.

    An empty one is replaced, which a link to it or a mounted one cannot be.
    """
    refuse_not_utf8(path)
    if path.is_dir() and not any(path.iterdir()):
        if path.is_symlink() or path.is_mount() or path.samefile("."):
            what = "a link, a mounted folder or the current one"
            raise InputError(f"{what}, {path}, name a new folder in it")
        return
    if path.exists() or path.is_symlink():
        raise InputError(f"exists and is not an empty folder, {path}, name another output")


@contextmanager
def lock(folder: Path, purpose: str) -> Iterator[None]:
    """Holds `folder` for one writer; the operating system frees it if the process dies.

    Args:
        purpose: the command, "nmt train", for who finds the folder locked.

    Raises:
        InputError: another process holds it, whose command, pid and host it names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    with ExitStack() as stack:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # nothing in it: not yet written
            content = os.pread(descriptor, _MAX_HOLDER_BYTES, 0)
            by = content.decode(errors="replace").strip() or "another process"
            raise InputError(f"{folder} is in use by {by}. Wait for it, or stop it.") from None
        # `nmt prepare` removes the lock of a folder in which it leaves nothing
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(descriptor)):
            raise InputError(f"{folder} was in use by another process. Start this again.")
        stack.callback(os.ftruncate, descriptor, 0)
        holder = f"{purpose}, process {os.getpid()} on {socket.gethostname()}\n".encode()
        with suppress(OSError):  # it is for a person alone
            os.ftruncate(descriptor, os.pwrite(descriptor, holder, 0))
        yield
