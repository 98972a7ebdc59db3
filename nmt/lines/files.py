"""Opens the input and output files of commands."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from nmt.errors import ArgumentError, naming
from nmt.runs.run_directory import owner
from nmt.storage.atomic import new_file
from nmt.storage.opening import compressed, opened


@contextlib.contextmanager
def opened_input(path: str | Path | None) -> Iterator[BinaryIO]:
    """Opens an input file, or standard input if `path` is None.

    A compressed file at `path` is decompressed, unless it is a pipe.
    """
    if path is None:
        if sys.stdin is None:
            raise ArgumentError("Standard input is closed. Specify a file with {input}.")
        yield sys.stdin.buffer
    elif is_stream(Path(path)) and not Path(path).is_dir():
        # LineReader decompresses the data of a pipe as it arrives
        with Path(path).open("rb") as file:
            yield file
    else:
        with opened(Path(path)) as file:
            yield file


def input_file(path: str | Path | None) -> str | Path | int | None:
    """Returns the path or descriptor of the input, or None if the input is not a regular file."""
    if path is not None:
        return path if Path(path).is_file() else None
    with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or has no descriptor
        descriptor = sys.stdin.fileno()
        return descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    return None


def check_output(
    path: Path, name: str = "output", read: Iterable[tuple[str, str | Path | int | None]] = ()
) -> None:
    """Raises ArgumentError if `path` cannot be used as an output file.

    Args:
        name: the name of the parameter that specifies `path`.
        read: the input files that the output must not overwrite. Each item consists of a
            parameter's name and the path or descriptor of the parameter's file.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ArgumentError(f"{{{name}}} {{}} is a directory. Specify a file.", path)
    if target.is_symlink():  # realpath cannot resolve a loop of links
        raise ArgumentError(f"{{{name}}} {{}} is a symbolic link to itself. Specify a file.", path)
    if not target.parent.is_dir():
        raise ArgumentError(
            f"Directory {{}} for {{{name}}} does not exist. Create it first.", target.parent
        )
    if own := owner(target):
        raise ArgumentError(
            f"{{{name}}} {{}} is inside {{}}, which nmt manages. Choose a file outside it.",
            path,
            own,
        )
    for other, file in read:
        if file is not None and _are_same(file, target):
            raise ArgumentError(
                f"{{{name}}} and {{{other}}} are both {{}}. Choose another file for {{{name}}}.",
                path,
            )


def _are_same(file: str | Path | int, path: Path) -> bool:
    """Returns whether two paths refer to the same file, possibly through symbolic or hard links.

    `file` may also be a file descriptor.
    """
    if isinstance(file, int):
        return path.exists() and os.path.samestat(os.fstat(file), path.stat())
    if os.path.realpath(file) == os.path.realpath(path):
        return True
    return Path(file).exists() and path.exists() and path.samefile(file)


@contextlib.contextmanager
def opened_output(path: str | Path | None) -> Iterator[BinaryIO]:
    """Opens an output file, or standard output if `path` is None.

    A new regular file appears at `path` only when the body of the `with` statement has ended
    without an exception. The file is compressed if its name ends in .gz, .bz2 or .xz.
    """
    if path is None:
        if sys.stdout is None:
            raise ArgumentError("Standard output is closed. Specify a file with {output}.")
        with naming("standard output"):
            yield sys.stdout.buffer
        return
    path = Path(path)
    check_output(path)
    whole = Path(os.path.realpath(path))  # replaces the target of a symbolic link, not the link
    with (
        naming(str(path)),
        contextlib.nullcontext(path) if is_stream(path) else new_file(whole) as place,
        place.open("wb") as file,
        compressed(file, path.suffix) as compressor,
    ):
        yield compressor


def is_stream(path: Path) -> bool:
    """Returns whether `path` exists and is not a regular file, for example if it is a pipe."""
    return path.exists() and not path.is_file()
