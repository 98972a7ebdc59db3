"""A run's finished model, the mean of its last checkpoints: reading its step, replacing it."""

import os
from typing import Any

from torch import Tensor

from nmt.config import Config
from nmt.errors import InputError, Note
from nmt.runs.model_directory import refuse_unsound, save_model
from nmt.runs.run_directory import RunDirectory
from nmt.storage import atomic, manifest


def step_of(run: RunDirectory) -> int | None:
    """The step of a run's finished model; None if it has no sound one."""
    try:
        content = manifest.read(run.model, "model")
        refuse_unsound(run.model, content)
    except InputError:
        return None
    return int(content["step"])


def write(
    run: RunDirectory,
    lock: atomic.Lock,
    config: Config,
    tokenizer: bytes,
    weights: dict[str, Tensor],
    facts: dict[str, Any],
    note: Note,
    shortlist: bytes | None = None,
) -> None:
    """Writes a run's finished model; what is in its place but not ours is kept under another name.

    Args:
        lock: on the run, checked before and after the writing, which takes a while.
        facts, shortlist: as of `save_model`.
        note: is told under which name files that are not ours are kept.
    """
    lock.check()
    new = atomic.aside(run.model, "new")
    try:
        save_model(new, config, tokenizer, weights, facts, shortlist)
        lock.check()
        if _is_ours(run):
            run.model.replace(atomic.aside(run.model, "former"))
        elif os.path.lexists(run.model):
            kept = atomic.free_name(run.model, "former")
            run.model.replace(kept)
            note(f"nmt: warning: {run.model} held files nmt did not make, kept in {kept}")
        new.replace(run.model)
    finally:
        atomic.remove(new)
    atomic.remove_leftovers(run.path)


def _is_ours(run: RunDirectory) -> bool:
    """Whether only the run's own model, sound or damaged, is in its place."""
    try:
        content = manifest.read(run.model, "model")
        run.refuse_foreign(run.model)
        return not run.model.is_symlink() and not manifest.unlisted(run.model, content)
    except InputError:
        return False
