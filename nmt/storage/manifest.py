"""Writes and checks manifests, which list the size and SHA-256 hash of every file in a directory.

The hashes reveal damage to a file before the file is used. A manifest is stored as `manifest.json`
in the directory that it describes. Every manifest has the keys `format_version`, `kind`, `files`
and `sha256`; additional keys depend on the kind of manifest. `files` maps each file name to the
`size` and the `sha256` of the file. The manifest's own `sha256` is the hash of its canonical JSON,
which has sorted keys and no spaces, and which does not include the `sha256` key itself.
"""

import errno
import hashlib
import io
import json
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import InputError, LastingError, NoModelError, of_system
from nmt.storage import manifest_form
from nmt.storage.atomic import write_file
from nmt.storage.opening import below, small_file

FORMAT_VERSION = 1
NAME = "manifest.json"
_MAX_BYTES = 100_000_000
_BLOCK_BYTES = 1 << 20


class OtherKindError(NoModelError):
    """Raised if a manifest is valid, but not of the expected kind (exit status 3)."""


def file_hash(path: Path) -> str:
    """Returns the SHA-256 hash of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def value_hash(value: Any) -> str:
    """Returns the SHA-256 hash of a value's canonical JSON, in hexadecimal."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write(
    folder: Path, kind: str, facts: dict[str, Any], files: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Writes and returns the manifest of `folder`, whose files must already be complete.

    Args:
        kind: one of the kinds that `manifest_form` defines, such as "data" or "checkpoint".
        facts: a dictionary with the additional keys of the manifest and their values.
        files: the result of `sizes_and_hashes`, or None to call that function.
    """
    files = sizes_and_hashes(folder) if files is None else files
    return rewrite(folder, {"format_version": FORMAT_VERSION, "kind": kind, "files": files} | facts)


def sizes_and_hashes(folder: Path) -> dict[str, Any]:
    """Maps the relative path of each file below `folder` to the file's size and SHA-256 hash.

    The result does not contain hidden files and manifests.
    """
    names = sorted(
        str(path.relative_to(folder))
        for path in below(folder)
        if path.is_file() and path.name != NAME and not path.name.startswith(".")
    )
    return {
        name: {"size": (folder / name).stat().st_size, "sha256": file_hash(folder / name)}
        for name in names
    }


def rewrite(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Writes the manifest `content` with a new `sha256` to `folder`, and returns the manifest."""
    content = {key: value for key, value in content.items() if key != "sha256"}
    content["sha256"] = value_hash(content)
    write_file(folder / NAME, file_of(content))
    return content


def file_of(content: dict[str, Any]) -> bytes:
    """Returns the manifest `content` as the bytes of a manifest file."""
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    # a value from another source may contain a lone surrogate, for which JSON has an escape
    return text.encode(errors="backslashreplace")


def read(folder: Path, kind: str, name: str = NAME) -> dict[str, Any]:
    """Returns the manifest of `folder`, after checking its hash and schema.

    Args:
        name: the name of the manifest file. A copy of a manifest may have a name other than
            `manifest.json`.

    Raises:
        NoModelError: the manifest does not exist, is damaged, or is not of the given kind (exit
            status 3).
        LastingError: a newer, incompatible version of nmt wrote the manifest (exit status 2).
        InputError: the operating system cannot read the file (exit status 2 or 5; see `of_system`).
    """
    path = folder / name
    damaged = NoModelError(f"{path} is damaged. Restore the {kind} directory from a copy.")
    try:
        content = json.loads(small_file(path, _MAX_BYTES))
    except FileNotFoundError:
        raise NoModelError(
            f"{folder} has no {name}, so it is not a complete {kind} directory. Check the path, or "
            "restore the directory from a copy."
        ) from None
    except OSError as error:
        raise of_system(error) from None
    except (InputError, ValueError, RecursionError):
        raise damaged from None
    if not isinstance(content, dict):
        raise damaged
    version = content.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise damaged
    if version > FORMAT_VERSION:
        raise LastingError(
            f"{path} has format version {version}; this version of nmt supports versions up to "
            f"{FORMAT_VERSION}. Update nmt."
        )
    own = value_hash({key: value for key, value in content.items() if key != "sha256"})
    if content.get("sha256") != own:
        raise damaged
    if content.get("kind") != kind:
        found = content.get("kind")
        raise OtherKindError(
            f"{folder} is a {found} directory. Specify a {kind} directory instead."
        )
    if fault := manifest_form.fault(kind, content):
        raise NoModelError(f"{path} is damaged ({fault}). Restore it from a copy.")
    return content


def is_foreign(folder: Path, kind: str | None = None) -> bool:
    """Returns whether `folder` contains a file `manifest.json` that nmt did not write.

    The result is False if the file does not exist, or if nmt wrote it and it was later damaged.

    Args:
        kind: if given, manifests of all other kinds also count as foreign.
    """
    try:
        data = small_file(folder / NAME, _MAX_BYTES)
    except FileNotFoundError:
        return False
    ours = [b'"format_version"', b'"sha256"']
    if kind:
        ours.append(f'"kind": "{kind}"'.encode())
    return not all(part in data for part in ours)


def unlisted(folder: Path, content: dict[str, Any]) -> list[str]:
    """Returns the relative paths below `folder`, at any depth, that the manifest does not list."""
    known = {NAME, *content["files"]}
    known |= {str(parent) for name in known for parent in Path(name).parents}
    found = (str(path.relative_to(folder)) for path in below(folder))
    return sorted(name for name in found if name not in known)


def verify(folder: Path, content: dict[str, Any], names: Iterable[str] | None = None) -> None:
    """Checks that files match the manifest `content`; raises the same errors as `verified`.

    Args:
        names: the files to check, or None for all files that the manifest lists.
    """
    for name in content["files"] if names is None else names:
        with verified(folder, content, name):
            pass


@contextmanager
def verified(folder: Path, content: dict[str, Any], name: str) -> Iterator[BinaryIO]:
    """Opens a file that is listed in the manifest `content`, and checks the file's hash at the end.

    The hash is checked at the end of the `with` statement. The hash is computed from the bytes that
    are read inside the `with` statement, so that later changes to the file have no effect. The file
    must be read sequentially, and the data must not be used before the `with` statement has ended.
    If an InputError is raised inside the `with` statement and the file is damaged, a NoModelError
    about the damage is raised instead.

    Raises:
        NoModelError: the file does not exist or does not match the manifest.
        InputError: the operating system cannot read the file (exit status 2 or 5).
    """
    path, expected = folder / name, content["files"].get(name)
    if expected is None:
        raise NoModelError(
            f"The manifest in {folder} does not list {name}. Restore {folder} from a copy."
        )
    try:
        status_of, problem = path.stat(), None
        if not stat.S_ISREG(status_of.st_mode):
            found = "not a regular file"
        elif status_of.st_size != expected["size"]:
            found = f"{status_of.st_size} bytes, but the manifest lists {expected['size']}"
        else:
            with path.open("rb", buffering=0) as file:
                hashing = _Hashing(file)
                reader = io.BufferedReader(hashing, _BLOCK_BYTES)
                try:
                    yield reader
                except InputError as error:
                    problem = error
                while reader.read(_BLOCK_BYTES):
                    pass
            digest = hashing.sha256.hexdigest()
            if digest == expected["sha256"]:
                if problem:
                    raise problem
                return
            found = f"sha256 {digest[:12]}…, but the manifest lists {expected['sha256'][:12]}…"
    except FileNotFoundError:
        raise NoModelError(f"{path} is missing. Restore it from a copy.") from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise of_system(error) from None
        found = "a symbolic link to itself"
    raise NoModelError(f"{path} is damaged ({found}). Restore it from a copy.")


class _Hashing(io.RawIOBase):
    """A stream that reads a file and hashes the bytes that have been read."""

    def __init__(self, file: io.FileIO):
        self._file, self.sha256 = file, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = memoryview(buffer)[:_BLOCK_BYTES]  # hashed while it is in the CPU's cache
        size = self._file.readinto(block) or 0
        self.sha256.update(block[:size])
        return size
