"""Manifests: size and SHA-256 of every file in a folder, so that damage is found before use.

A manifest is `manifest.json` in the folder that it describes: `format_version`, `kind`, `files`
(name -> size and sha256), the facts that its writer adds, and `sha256` of its own canonical
JSON (sorted keys, no spaces) without that key.
"""

import hashlib
import json
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.errors import InputError, LastingError, NoModelError, of_system
from nmt.storage import manifest_form
from nmt.storage.atomic import write_file
from nmt.storage.opening import below, small_file

FORMAT_VERSION = 1
NAME = "manifest.json"
_MAX_BYTES = 100_000_000


class NewerFormatError(LastingError):
    """Written by a later version of nmt (status 2): nothing older is taken in its place."""


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def value_hash(value: Any) -> str:
    """SHA-256 of a JSON value's canonical form, in hexadecimal."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write(folder: Path, kind: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Describes every file now in `folder` and below it, and writes the manifest, last of all.

    Args:
        kind: "data", "checkpoint", "model", ...: see `manifest_form`.
        facts: further keys of the manifest.
    """
    names = sorted(
        str(path.relative_to(folder))
        for path in below(folder)
        if path.is_file() and path.name != NAME and not path.name.startswith(".")
    )
    files = {
        name: {"size": (folder / name).stat().st_size, "sha256": file_hash(folder / name)}
        for name in names
    }
    return rewrite(folder, {"format_version": FORMAT_VERSION, "kind": kind, "files": files} | facts)


def rewrite(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Writes `content` as the manifest, with the hash of its own canonical JSON."""
    content = {key: value for key, value in content.items() if key != "sha256"}
    content["sha256"] = value_hash(content)
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    # a lone surrogate, in a fact from elsewhere, is written as the escape that JSON has for it
    write_file(folder / NAME, text.encode(errors="backslashreplace"))
    return content


def read(folder: Path, kind: str, name: str = NAME) -> dict[str, Any]:
    """The manifest of `folder`, itself checked.

    Args:
        name: of the file; a copy may have another.

    Raises:
        NoModelError: missing, unreadable, damaged, or of another kind (status 3).
        NewerFormatError: written by a newer version (status 2).
        InputError: the operating system does not give it (2 or 5, see `of_system`).
    """
    path = folder / name
    damaged = NoModelError(f"damaged manifest, {path}, restore the {kind} directory from a copy")
    try:
        content = json.loads(small_file(path, _MAX_BYTES))
    except FileNotFoundError:
        raise NoModelError(f"no {name}, {folder}, this is no complete {kind} directory") from None
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
        raise NewerFormatError(
            f"format version {version} is newer than {FORMAT_VERSION}, {path}, update nmt"
        )
    own = value_hash({key: value for key, value in content.items() if key != "sha256"})
    if content.get("sha256") != own:
        raise damaged
    if content.get("kind") != kind:
        raise NoModelError(f"a {content.get('kind')} directory, {folder}, a {kind} was expected")
    if fault := manifest_form.fault(kind, content):
        raise NoModelError(f"damaged manifest ({fault}), {path}, restore it from a copy")
    return content


def is_foreign(folder: Path) -> bool:
    """Whether a file there has the name of a manifest, and nothing of what one of ours holds.

    Ours may be damaged. False if there is none.
    """
    try:
        data = small_file(folder / NAME, _MAX_BYTES)
    except FileNotFoundError:
        return False
    return not (b'"format_version"' in data and b'"sha256"' in data)


def unlisted(folder: Path, content: dict[str, Any]) -> list[str]:
    """Names of what is in `folder`, or in folders below it, but not in its manifest."""
    known = {NAME, *content["files"]}
    known |= {str(parent) for name in known for parent in Path(name).parents}
    found = (str(path.relative_to(folder)) for path in below(folder))
    return sorted(name for name in found if name not in known)


def verify(folder: Path, content: dict[str, Any], names: Iterable[str] | None = None) -> None:
    """Checks files against a manifest read before.

    Args:
        names: the files to check; all that the manifest lists if None.

    Raises:
        NoModelError: a file is missing or differs; names the first such file.
        InputError: the operating system does not give one (2 or 5).
    """
    for name in content["files"] if names is None else names:
        path, expected = folder / name, content["files"].get(name)
        if expected is None:
            raise NoModelError(f"not in the manifest, {path}, restore it from a copy")
        try:
            status_of = path.stat()
            if not stat.S_ISREG(status_of.st_mode):
                found = "no ordinary file"
            elif status_of.st_size != expected["size"]:
                found = f"{status_of.st_size} bytes, {expected['size']} in the manifest"
            else:
                digest = file_hash(path)
                if digest == expected["sha256"]:
                    continue
                found = f"sha256 {digest[:12]}…, {expected['sha256'][:12]}… in the manifest"
        except FileNotFoundError:
            raise NoModelError(f"missing file, {path}, restore it from a copy") from None
        except OSError as error:
            raise of_system(error) from None
        raise NoModelError(f"damaged file ({found}), {path}, restore it from a copy")
