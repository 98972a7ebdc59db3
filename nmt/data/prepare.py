"""`nmt prepare`: from corpora to cleaned pairs, tokenizer, token shards and their manifest.

`stages` does the work in DATA/.work; when all is there it moves under its final names, the manifest
last: data without a manifest is no data. Here is also what tells whether prepared data are what a
configuration asks for, and who uses them.
"""

import contextlib
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

from nmt import signals
from nmt.config import Config
from nmt.data import stages, workers
from nmt.data.corpora import check_corpus, input_files
from nmt.data.languages import code_problem
from nmt.data.prepared import PreparedData, changes, refuse_if_used, settings_of
from nmt.data.stages import Job, Part, Report
from nmt.errors import InputError
from nmt.storage import atomic, manifest
from nmt.storage.names import TEST_SET, TOKENIZER, TRAIN, VALIDATION, WORK

_PUBLISHED = (TOKENIZER, TRAIN, VALIDATION, TEST_SET)  # and the manifest


def prepare(
    config: Config,
    *,
    report: Report,
    tokenizer: Path | None = None,
    processes: int | None = None,
) -> None:
    """Makes `config.data.directory` from the configuration's corpora.

    With nothing changed since the last call, that is the settings of `data` and `tokenizer` and
    the size and SHA-256 of each local input file, it checks what is there and does nothing more.
    The same input and settings give the same bytes, whatever the number of processes and however
    often it was interrupted.

    Args:
        config: sections `data` and `tokenizer` count.
        report: receives lines for a person.
        tokenizer: a tokenizer to use, that of a model to fine-tune, instead of learning one.
        processes: at most so many for what can be shared; None: `workers.default_processes`.

    Raises:
        InputError: a corpus cannot be read, the vocabulary does not fit the text, another process
            prepares the same directory, a run was trained on data of other settings there, or
            files or links stand there that were not prepared.
        Stopped: a signal came; the next call goes on from there.
    """
    began = time.monotonic()
    directory = Path(config.data.directory)
    with signals.stoppable(
        f"stopped, {directory} is as it was left: nmt prepare takes it up again"
    ):
        job = _job(config, tokenizer)
        if _is_prepared(job, report):
            report(f"{directory} is prepared already and whole: nothing to do")
            _remove_work(job)
            return
        _refuse_links(job)
        _refuse_foreign(job)
        refuse_if_used(job.directory, job.origin)
        for side in ("source", "target"):
            if problem := code_problem(getattr(config.data, f"{side}_language")):
                report(f"nmt: warning: {problem}, data.{side}_language, write that of ISO 639")
        for part in job.parts:
            check_corpus(part.corpus, config.data)
        with atomic.lock(directory, "nmt prepare"):
            if _is_prepared(job, _unheard):  # by now, by the process that had the lock
                report(f"{directory} has been prepared by another process: nothing to do")
                return
            stages.remove_leftovers(job)
            try:
                stages.run(replace(job, processes=processes or workers.default_processes()), report)
            finally:
                stages.remove_leftovers(job)  # of workers that were ended
            refuse_if_used(job.directory, job.origin)  # by a run that has begun meanwhile
            _publish(job)
    report(f"prepared {directory} in {time.monotonic() - began:.0f} s")


def _unheard(line: str) -> None:
    """What has been reported before."""


def _remove_work(job: Job) -> None:
    """Removes what the last call left if it was killed at its very end."""
    if job.tokens.exists():  # not what an interrupted preparation of other settings left
        # Who holds the lock prepares other settings there.
        with contextlib.suppress(InputError, OSError), atomic.lock(job.directory, "nmt prepare"):
            _remove(job.work)


def _job(config: Config, tokenizer: Path | None) -> Job:
    splits = ("train", "validation", "test")
    parts = tuple(
        Part(split, number, corpus)
        for split in splits
        for number, corpus in enumerate(getattr(config.data, split))
    )
    files = dict.fromkeys(file for part in parts for file in input_files(part.corpus))
    # Not the time of change: a fresh checkout or copy of the same text is the same input.
    inputs = {
        str(file): {"size": file.stat().st_size, "sha256": manifest.file_hash(file)}
        for file in files
    }
    origin = {"recipe": stages.RECIPE, "settings": settings_of(config), "inputs": inputs}
    if tokenizer:
        origin["given_tokenizer"] = manifest.file_hash(tokenizer)
    return Job(config, Path(config.data.directory), parts, origin, tokenizer)


def _is_prepared(job: Job, report: Report) -> bool:
    """Whether the directory holds what this job would make, every file checked by its hash."""
    if not PreparedData.is_in(job.directory):
        return False
    try:
        data = PreparedData.open(job.directory)
        if data.manifest["origin_sha256"] != manifest.value_hash(job.origin):
            changed = changes(data.manifest["settings"], job.origin["settings"])
            report(f"preparing again: {changed}")
            return False
        data.verify_all()
    except manifest.NewerFormatError:
        raise
    except InputError as error:
        report(f"preparing again: {error.problems[0]}")
        return False
    return True


def _refuse_links(job: Job) -> None:
    """Keeps data from going elsewhere, or from being removed there, than where they are named."""
    for name in (*_PUBLISHED, WORK):
        if (job.directory / name).is_symlink():
            raise InputError(
                f"a symbolic link, {job.directory / name}, remove it; "
                "data.directory itself may be one"
            )


def _refuse_foreign(job: Job) -> None:
    """Keeps `_publish` from removing what somebody else has put under its names."""
    # in the order in which another process, publishing, makes the one untrue and the other true
    if job.work.exists() or PreparedData.is_in(job.directory):
        return
    for name in _PUBLISHED:
        if os.path.lexists(job.directory / name):
            raise InputError(
                f"not made by nmt prepare, {job.directory / name}, move it away, "
                "or name another data.directory"
            )


def _publish(job: Job) -> None:
    """Moves what is finished under its final names, the manifest last; may be called again."""
    described = manifest.read(job.final, "data")["files"]
    (job.directory / manifest.NAME).unlink(missing_ok=True)
    for name in (*_PUBLISHED, manifest.NAME):
        new, old = job.final / name, job.directory / name
        gone = not any(file == name or file.startswith(f"{name}/") for file in described)
        if new.exists() or gone:
            _remove(old)
        if new.exists():
            new.replace(old)
    atomic.sync(job.directory)
    _remove(job.work)


def _remove(path: Path) -> None:
    """Removes a folder, a file or a link, never what a link leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
