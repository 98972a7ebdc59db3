"""What every kind of corpus gives, and what it raises where there is nothing."""

from collections.abc import Iterator
from pathlib import Path

from nmt.errors import InputError

Pairs = Iterator[tuple[str, str]]


def empty(path: Path) -> InputError:
    return InputError(f"empty file, {path}, name a file that holds text")
