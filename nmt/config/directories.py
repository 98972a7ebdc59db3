"""What `nmt prepare` and `nmt train` replace in their directories: nothing else may lie there."""

import os
from pathlib import Path

# What `nmt prepare` and `nmt train` make, replace and remove in their directories.
_IN_BOTH = {"test_set", "tokenizer.model", ".lock", ".lock-holder"}  # and what begins with .tmp-
DATA_NAMES = _IN_BOTH | {"train", "validation", "manifest.json", ".work", ".used-by"}
RUN_NAMES = _IN_BOTH | {
    "model", "checkpoints", "tensorboard", "evaluation", "config.yaml", "data.json",
    "log.jsonl",
}  # fmt: skip


def misplaced(data: str, run: str, origin: str | None) -> str | None:
    """Says which of a configuration's directories would be removed with another; None: none.

    Args:
        data: `data.directory`.
        run: `training.run_directory`.
        origin: `training.initialize_from`.
    """
    if os.path.realpath(data) == os.path.realpath(run):
        return f"data.directory and training.run_directory are both {data}"
    replaced = [
        ("data.directory", data, DATA_NAMES, "nmt prepare"),
        ("training.run_directory", run, RUN_NAMES, "nmt train"),
    ]
    kept = [("data.directory", data), ("training.run_directory", run)]
    kept += [("training.initialize_from", origin)] if origin else []
    for owner, directory, names, command in replaced:
        for key, path in kept:
            name = _first_name(directory, path)
            if name in names or name.startswith(".tmp-"):
                return f"{key} is {path}, in what {command} replaces in {owner} {directory}"
    return None


def _first_name(directory: str, path: str) -> str:
    """Of the entry of `directory` in which `path` lies, links resolved; empty if in none."""
    below = os.path.relpath(os.path.realpath(path), os.path.realpath(directory))
    first = "".join(Path(below).parts[:1])
    return "" if first == os.pardir else first
