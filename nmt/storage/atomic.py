"""Writes files and directories atomically.

A file or directory gets its final name only when it is complete. A path therefore always has either
its old or its new content, even after a power failure or `kill -9`. An interrupted process may
leave behind temporary files and directories, whose names begin with `PREFIX`. The next process that
writes to the same directory removes all temporary files and directories that are not locked by a
running process.
"""

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
from nmt.system import lock_file

PREFIX, LOCK = ".tmp-nmt-", ".lock"
_LOCKED = re.compile(re.escape(PREFIX) + "[0-9a-f]{8}-.")  # names from `_locked_aside`
_MAX_HOLDER_BYTES = 1000


def sync(path: Path) -> None:
    """Flushes a file or directory to disk with `os.fsync`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes | str) -> None:
    """Writes `data` to a file atomically (see `new_file`)."""
    with new_file(path) as aside:
        aside.write_bytes(data.encode() if isinstance(data, str) else data)


def write_if_changed(path: Path, data: bytes) -> None:
    """Writes `data` to a file atomically, unless the file already contains exactly `data`."""
    is_there = path.is_file() and path.stat().st_size == len(data)
    if not is_there or path.read_bytes() != data:
        write_file(path, data)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yields the path of a temporary file, and renames the file to `path` afterwards.

    When the body of the `with` statement ends, the temporary file is synced and renamed to `path`.
    After an exception, `path` is unchanged and the temporary file is removed. Temporary files in
    the same directory that were left behind by killed processes are also removed. If an OSError
    names no file, for example because the disk is full, `path` is added to the error.

    If a file is replaced, the new file has the same permissions, and its owner may write to it.
    """
    with _locked_aside(path, Path.touch) as aside:
        mode = _mode_of_files(aside)
        if path.is_file():
            mode = stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR
            _give_mode(aside, mode)  # so that nobody else reads the temporary file
        with naming(str(path)):
            yield aside
            _give_mode(aside, mode)
            sync(aside)
            aside.replace(path)
    sync(path.parent)


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yields the path of a temporary directory, and renames it to `path` afterwards.

    When the body of the `with` statement ends, every file in the temporary directory is synced, and
    the temporary directory is renamed to `path`. `path` must be an empty directory, or it must not
    exist. After an exception, the temporary directory is removed. Temporary directories in the same
    parent directory that were left behind by killed processes are also removed. If an OSError names
    no file, `path` is added to the error.

    Raises:
        InputError: another process created `path` before the temporary directory was renamed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked_aside(path, Path.mkdir) as aside:
        mode = _mode_of_files(aside)
        with naming(str(path)):
            yield aside
            for folder, _, files in os.walk(aside):
                for file in files:
                    _give_mode(Path(folder, file), mode)
                    sync(Path(folder, file))
                sync(Path(folder))
        try:
            aside.replace(path)
        except OSError:
            refuse_existing(path)  # if another process has created `path` meanwhile
            raise
    sync(path.parent)


def _mode_of_files(aside: Path) -> int:
    """Returns the default permissions of new files, which depend only on the umask.

    The permissions are read from `aside`, which must be a new file or directory. Files that
    libraries write may have other permissions. For example, safetensors writes files that only the
    owner can read.
    """
    return aside.stat().st_mode & 0o666


def _give_mode(path: Path, mode: int) -> None:
    if stat.S_IMODE(path.stat().st_mode) != mode:  # some file systems refuse any chmod
        path.chmod(mode)


def remove_leftovers(folder: Path) -> None:
    """Removes the temporary files in `folder` whose writers have exited."""
    _remove_unlocked(folder.glob(f"{PREFIX}*"))


def aside(path: Path, word: str) -> Path:
    """Returns a temporary path in the directory of `path`.

    `remove_leftovers` later removes files that remain at the temporary path.

    Args:
        word: a part of the temporary name, such as "new" for the future content of `path`, or
            "former" for its previous content.
    """
    return path.with_name(f"{PREFIX}{word}-{path.name}")


def _remove_unlocked(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError), ExitStack() as stack:
            descriptor = _open(path)
            stack.callback(os.close, descriptor)
            lock_file(descriptor)  # fails while the writer of the file is running
            remove(path)


def remove(path: Path) -> None:
    """Removes a file, a directory or a symbolic link, but not the target of a link.

    If `path` does not exist, nothing is removed.

    Raises:
        OSError: `path` or an entry of the directory cannot be removed.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link(path: Path, name: Path) -> None:
    """Creates `name` as a hard link to a file, or as a copy if hard links are not supported."""
    try:
        os.link(path, name)
    except OSError:
        with new_file(name) as aside:
            shutil.copyfile(path, aside)


def free_name(path: Path, reason: str) -> Path:
    """Returns an unused path of the form `REASON-NUMBER-NAME` in the directory of `path`."""
    names = (path.with_name(f"{reason}-{number}-{path.name}") for number in itertools.count(1))
    return next(name for name in names if not os.path.lexists(name))


@contextmanager
def _locked_aside(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Yields the path of a new, locked temporary file or directory.

    The temporary path is in the directory of `path`. On exit, the temporary file or directory is
    removed unless it was renamed. If the file system does not support file locking, the temporary
    file or directory is not locked, and other processes never remove it.
    """
    _remove_unlocked(beside for beside in path.parent.iterdir() if _LOCKED.match(beside.name))
    while True:
        # contains a part of the name, to be recognizable; the whole name might be too long
        aside = path.with_name(f"{PREFIX}{secrets.token_hex(4)}-{path.name[-40:]}")
        with ExitStack() as stack:
            stack.callback(_discard, aside)  # before `make`, as a signal may arrive at any time
            make(aside)
            try:
                descriptor = _open(aside)
            except FileNotFoundError:  # another process removed it before it was locked
                continue
            stack.callback(os.close, descriptor)
            with suppress(OSError):
                lock_file(descriptor, wait=True)
            if aside.exists():  # otherwise another process removed it
                yield aside
                return


def _discard(path: Path) -> None:
    with suppress(OSError):
        remove(path)


def _open(path: Path) -> int:
    """Opens a file or directory in order to lock it; closing the descriptor releases the lock."""
    return os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # NFS locks need write access


def refuse_link(path: Path) -> None:
    """Raises InputError if `path` is a symbolic link, because nmt would replace the link.

    The parent directory of `path` may be a symbolic link.
    """
    if path.is_symlink():
        raise InputError(
            f"{path} must not be a symbolic link. Remove the link. To store the data elsewhere, "
            f"make the directory {path.parent} a link instead."
        )


def refuse_existing(path: Path) -> None:
    """Raises InputError if `path` exists and is not an empty directory that can be replaced.

    Symbolic links, mount points and the current directory cannot be replaced. `path` must also be
    valid UTF-8.
    """
    refuse_not_utf8(path)
    if path.is_dir() and not any(path.iterdir()):
        what = (
            "a symbolic link" if path.is_symlink()
            else "a mount point" if path.is_mount()
            else "the current directory" if path.samefile(".")
            else None
        )  # fmt: skip
        if what:
            raise InputError(
                f"{path} is {what} and cannot be replaced. Choose a new directory inside it."
            )
        return
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists and is not an empty directory. Choose another path.")


@contextmanager
def lock(folder: Path, purpose: str) -> Iterator[None]:
    """Locks `folder` for this process; the operating system releases the lock if the process dies.

    Args:
        purpose: the command of this process, such as "nmt train", which other processes show in
            their error messages.

    Raises:
        InputError: the lock file is not a regular file, or another process holds the lock. If
            another process holds the lock, the message contains its command, process id and host.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    if path.exists() and not path.is_file():
        raise InputError(
            f"{path} is not a regular file, so it cannot be used as a lock file. Remove it."
        )
    with ExitStack() as stack:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        stack.callback(os.close, descriptor)
        try:
            lock_file(descriptor)
        except BlockingIOError:  # the file is empty until its holder writes to it
            content = os.pread(descriptor, _MAX_HOLDER_BYTES, 0)
            by = content.decode(errors="replace").strip() or "another process"
            raise InputError(
                f"{folder} is in use by {by}. Wait until that process ends, or stop it."
            ) from None
        # `nmt prepare` removes the lock file if it leaves nothing else in the directory
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(descriptor)):
            raise InputError(
                f"{folder} was locked by another process, which has since ended. Run the "
                "command again."
            )
        stack.callback(os.ftruncate, descriptor, 0)
        holder = f"{purpose}, process {os.getpid()} on {socket.gethostname()}\n".encode()
        with suppress(OSError):  # the holder's name is needed only in messages
            os.ftruncate(descriptor, os.pwrite(descriptor, holder, 0))
        yield
