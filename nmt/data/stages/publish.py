"""Moves the finished files into the data directory.

The stage moves the files in `Job.final` to `Job.directory`. The previous manifest is removed first
and the new manifest is moved last, because data without a manifest counts as incomplete. Only files
that nmt prepare created are replaced, and links are not followed.
"""

import contextlib
import os
import re
from collections.abc import Collection

from nmt.data.prepared_data import PreparedData
from nmt.data.stages.job import Job
from nmt.errors import InputError
from nmt.storage import atomic, manifest
from nmt.storage.names import SHORTLIST, TEST_SET, TOKENIZER, TRAIN, USED_BY, VALIDATION, WORK
from nmt.storage.opening import entries

_PUBLISHED = (TOKENIZER, SHORTLIST, TRAIN, VALIDATION, TEST_SET)  # in addition to the manifest
_TEMPORARY = re.escape(atomic.PREFIX) + ".*"
_SPLIT = r"data-\d{5}-of-\d{5}\.arrow|state\.json|dataset_info\.json|cache-.*|" + _TEMPORARY
_ENTRIES = {  # for each folder that is replaced: a regular expression for the files of nmt prepare
    TRAIN: _SPLIT,
    VALIDATION: _SPLIT,
    TEST_SET: r"source\.txt|target\.txt|" + _TEMPORARY,
    WORK: r"(text|tokenizer|tokens)-[0-9a-f]{12}(\.model|\.json)?|" + _TEMPORARY,
}


def refuse_what_is_not_ours(job: Job) -> None:
    """Checks that `publish` will not replace any files that nmt prepare did not create.

    Raises:
        InputError: a path to which `publish` or a stage would write is a link, or contains files
            that nmt prepare did not create.
    """
    for name in (*_PUBLISHED, WORK, USED_BY):
        atomic.refuse_link(job.directory / name)
    others = [
        path
        for name, ours in _ENTRIES.items()
        for path in entries(job.directory / name)
        if not re.fullmatch(ours, path.name)
    ]
    if manifest.is_foreign(job.directory, "data"):
        others.append(job.directory / manifest.NAME)
    # The order matters: `publish` in another process moves the manifest before it removes `work`.
    if not (job.work.exists() or PreparedData.is_in(job.directory)):
        others += filter(os.path.lexists, (job.directory / name for name in _PUBLISHED))
    if others:
        raise InputError(
            f"{others[0]} was not created by nmt prepare, so it will not be overwritten. Move it "
            "elsewhere, or choose another data.directory."
        )


def publish(job: Job, described: Collection[str]) -> None:
    """Moves the prepared data to its final paths, and then removes `Job.work`.

    If a call is interrupted, the next call of `publish` moves the remaining files.

    Args:
        described: names of the files that the new manifest lists. Files of previously prepared data
            that the new manifest does not list are removed.
    """
    (job.directory / manifest.NAME).unlink(missing_ok=True)
    for name in (*_PUBLISHED, manifest.NAME):
        new, old = job.final / name, job.directory / name
        gone = not any(file == name or file.startswith(f"{name}/") for file in described)
        if new.exists() or gone:
            atomic.remove(old)
        if new.exists():
            new.replace(old)
    atomic.sync(job.directory)
    atomic.remove(job.work)


def remove_work(job: Job) -> None:
    """Removes `Job.work` if a previous `nmt prepare` was killed after it had published the data."""
    if job.tokens.exists():  # otherwise, `work` is from an interrupted call with other settings
        # If the lock is held, another process is preparing the directory with other settings.
        with contextlib.suppress(InputError, OSError), atomic.lock(job.directory, "nmt prepare"):
            atomic.remove(job.work)
