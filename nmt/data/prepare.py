"""Implements `nmt prepare`, whose stages are in `nmt.data.stages`."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nmt import signals
from nmt.config import Config, refuse_file
from nmt.data import workers
from nmt.data.corpora import check_corpus, input_files
from nmt.data.languages import code_problem
from nmt.data.prepared_data import PreparedData, changes, refuse_if_used, settings_of
from nmt.data.stages import job as jobs
from nmt.data.stages.assemble import assemble
from nmt.data.stages.clean import clean
from nmt.data.stages.counts import nothing_left
from nmt.data.stages.deduplicate import deduplicate
from nmt.data.stages.encode import encode
from nmt.data.stages.inspect_corpora import inspect_corpora
from nmt.data.stages.job import CorpusEntry, Job
from nmt.data.stages.learn_table import learn_table
from nmt.data.stages.publish import publish, refuse_what_is_not_ours, remove_work
from nmt.data.stages.vocabulary import given_tokenizer, learn_vocabulary
from nmt.errors import InputError, LastingError, Note, SettingError, Status, StorageError
from nmt.storage import atomic, manifest


def prepare(
    config: Config,
    *,
    note: Note,
    tokenizer: Path | None = None,
    processes: int | None = None,
) -> None:
    """Prepares the corpora of a configuration and writes the result to `config.data.directory`.

    If the sections `data` and `tokenizer` and the content of all local input files have not changed
    since the last call, the prepared data is verified but not written again. The same input and
    settings always produce the same files, regardless of the number of processes and of
    interruptions.

    Args:
        config: the configuration, of which only the sections `data` and `tokenizer` are used.
        note: function that is called with each user-facing message.
        tokenizer: path of an existing tokenizer to use for fine-tuning, or None to train a
            tokenizer.
        processes: maximum number of processes. None means the result of
            `workers.default_processes`.

    Raises:
        InputError: a corpus cannot be read, or the vocabulary size is not possible with the
            training text or the given tokenizer. InputError is also raised if another process is
            preparing the same directory, if a run was trained on data that would be replaced, or if
            the directory contains files or links that nmt prepare did not create.
        Stopped: a signal interrupted the call; the next call continues the work.
    """
    began = time.monotonic()
    directory = Path(config.data.directory)
    refuse_file(("data", "directory"), directory)
    with signals.stoppable(
        f"Stopped. Finished work is kept in {directory}; nmt prepare continues from there."
    ):
        job = _job(config, tokenizer, processes or workers.default_processes())
        reasons: list[str] = []  # to prepare the data again
        if _is_prepared(job, reasons.append):
            note(f"{directory} is already prepared. There is nothing to do.")
            remove_work(job)
            return
        refuse_what_is_not_ours(job)
        refuse_if_used(directory, job.origin_sha256, job.origin["settings"])
        warnings = _check_input(job, note)
        for reason in reasons:
            note(reason)
        with _locked(job):
            if _is_prepared(job, lambda line: None):  # by the process that previously held the lock
                note(f"{directory} was prepared by another process. There is nothing to do.")
                return
            job.remove_leftovers()
            try:
                described = run_stages(job, warnings, note)
            finally:
                job.remove_leftovers()  # files of killed workers
            # The input is hashed again, because it may have changed while the stages read it.
            if _origin(config, job.entries, tokenizer) != job.origin:
                atomic.remove(job.work)  # it may contain a mixture of old and new input
                raise InputError(
                    "The text of a corpus changed while the data was being prepared. Run nmt "
                    "prepare again."
                )
            # A run may have been started in the meantime.
            refuse_if_used(directory, job.origin_sha256, job.origin["settings"])
            publish(job, described["files"])
    note(f"Prepared {directory} in {time.monotonic() - began:.0f} s.")


@contextlib.contextmanager
def _locked(job: Job) -> Iterator[None]:
    """Locks the data directory.

    If the body of the `with` statement fails before `job.work` exists, the lock file and the
    folders that this function created are removed.
    """
    lock = job.directory / atomic.LOCK
    new = [path for path in (job.directory, *job.directory.parents) if not path.exists()]
    is_new = not lock.exists()
    with atomic.lock(job.directory, "nmt prepare"):
        try:
            yield
        except BaseException:
            if is_new and not job.work.exists():
                lock.unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # another program has created a file there
                    for folder in new:
                        folder.rmdir()
            raise


def run_stages(job: Job, warnings: list[str], note: Note) -> dict[str, Any]:
    """Runs all stages except `publish`, which moves the final files to the data directory.

    Args:
        warnings: the result of `_check_input`, which is written to the manifest.

    Returns:
        The manifest of the prepared data.
    """
    warnings = [*warnings, *inspect_corpora(job, note)]
    text = clean(job, note)
    training = deduplicate(job, text["train"])
    if not any(mask.any() for _, mask in training):
        raise nothing_left(text["train"])
    tokenizer = learn_vocabulary(job, training, note)
    tokens = encode(job, training, text["validation"], tokenizer, note)
    learn_table(job, tokens["train"], note)
    return assemble(job, text, tokens, tokenizer, warnings, note)


def _job(config: Config, tokenizer: Path | None, processes: int) -> Job:
    splits = ("train", "validation", "test")
    entries = tuple(
        CorpusEntry(split, number, corpus)
        for split in splits
        for number, corpus in enumerate(getattr(config.data, split))
    )
    origin = _origin(config, entries, tokenizer)
    directory = Path(config.data.directory)
    return Job(config.data, config.tokenizer, directory, entries, origin, tokenizer, processes)


def _origin(
    config: Config, entries: Iterable[CorpusEntry], tokenizer: Path | None
) -> dict[str, Any]:
    """Returns the settings and the hashes of all input files, which determine the prepared data."""
    files = dict.fromkeys(file for entry in entries for file in _input_files(entry))
    # Modification times are omitted, so that the data is not prepared again after the same text
    # has been checked out or copied again.
    inputs = {
        str(file): {"size": file.stat().st_size, "sha256": manifest.file_hash(file)}
        for file in files
    }
    origin = {"recipe": jobs.RECIPE, "settings": settings_of(config), "inputs": inputs}
    if given := tokenizer or config.tokenizer.model:
        if not Path(given).is_file():
            raise SettingError(("tokenizer", "model"), f"{given} is not a file. Check the path.")
        origin["given_tokenizer"] = manifest.file_hash(Path(given))
    return origin


def _input_files(entry: CorpusEntry) -> list[Path]:
    """Returns a corpus's local files; if a file does not exist, the error names the setting."""
    try:
        return input_files(entry.corpus)
    except InputError as error:
        if error.status != Status.INPUT:  # for example, if read permission is missing
            raise
        raise SettingError(("data", entry.split, entry.number), *error.problems) from None


def _is_prepared(job: Job, note: Note) -> bool:
    """Returns whether the data directory contains this job's result with correct hashes."""
    if not PreparedData.is_in(job.directory):
        return False
    try:
        data = PreparedData.open(job.directory)
        if data.manifest["origin_sha256"] != job.origin_sha256:
            changed = changes(data.manifest["settings"], job.origin["settings"])
            note(f"Preparing again: {changed}.")
            return False
        data.verify_files()
    except LastingError:
        raise
    except InputError as error:
        note(f"Preparing again. {error.problems[0]}")
        return False
    return True


def _check_input(job: Job, note: Note) -> list[str]:
    """Checks the language codes, the given tokenizer and the corpora.

    Returns:
        Warnings about the language codes, which the function has also passed to `note`.

    Raises:
        InputError: a corpus cannot be read, or the given tokenizer cannot be used.
    """
    data = job.data
    warnings = []
    for side in ("source", "target"):
        if problem := code_problem(getattr(data, f"{side}_language")):
            warnings.append(f"data.{side}_language: {problem}")
            note(f"nmt: warning: {warnings[-1]}")
    given_tokenizer(job)
    for entry in job.entries:
        try:
            check_corpus(entry.corpus, data)
        except StorageError as error:  # the setting may come from a base file
            name = f"data.{entry.split}.{entry.number}"
            raise StorageError(*(f"{name}: {problem}" for problem in error.problems)) from None
    return warnings
