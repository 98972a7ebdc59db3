"""Rejects configured directories that cannot be created or that an nmt command would replace."""

import os
from pathlib import Path

from nmt.errors import SettingError
from nmt.storage import names
from nmt.storage.atomic import PREFIX


def misplaced(data: str, run: str, origin: str | None) -> str | None:
    """Returns a message if an nmt command would replace a configured directory, otherwise None.

    Args:
        data: the value of the setting `data.directory`.
        run: the value of the setting `training.run_directory`.
        origin: the value of the setting `training.initialize_from`.
    """
    if os.path.realpath(data) == os.path.realpath(run):
        return f"data.directory and training.run_directory must differ, but are both {data}"
    replaced = [
        ("data.directory", data, names.IN_DATA, "nmt prepare"),
        ("training.run_directory", run, names.IN_RUN, "nmt train"),
    ]
    kept = [("data.directory", data), ("training.run_directory", run)]
    kept += [("training.initialize_from", origin)] if origin else []
    for owner, directory, taken, command in replaced:
        for key, path in kept:
            name = _first_name(directory, path)
            if name in taken or name.startswith(PREFIX):
                return f"{key} is {path}, but {command} replaces {name} in {owner} ({directory})"
    return None


def refuse_file(key: tuple[str, ...], directory: Path) -> None:
    """Raises SettingError if `directory` or one of its parents is a file.

    Args:
        key: key of the setting whose value is `directory`, for the error message.
    """
    for path in (directory, *directory.parents):
        if path.exists() and not path.is_dir():
            raise SettingError(key, f"{path} is not a directory. Choose another path.")


def _first_name(directory: str, path: str) -> str:
    """Returns the first component of `path` relative to `directory`, or "" if `path` is not inside.

    Symbolic links in `directory` and `path` are resolved first.
    """
    below = os.path.relpath(os.path.realpath(path), os.path.realpath(directory))
    first = "".join(Path(below).parts[:1])
    return "" if first == os.pardir else first
