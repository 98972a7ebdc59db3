"""`nmt prepare`: from corpora to cleaned pairs, tokenizer, token shards and their manifest.

`stages` does the work in DATA/.work; when all is there it moves under its final names, the manifest
last: data without a manifest is no data. Here is also what tells whether prepared data are what a
configuration asks for, and who uses them.
"""

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt import signals
from nmt.config import Config
from nmt.data import stages, workers
from nmt.data.corpora import check_corpus, input_files
from nmt.data.languages import code_problem
from nmt.data.stages import Job, Part, Report
from nmt.errors import InputError, NoModelError
from nmt.storage import atomic, manifest
from nmt.storage.names import TEST_SET, TOKENIZER, TRAIN, USED_BY, VALIDATION, WORK
from nmt.storage.opening import small_file

_MAX_NOTE_BYTES = 100_000
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
        _refuse_if_used(job)
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
            _refuse_if_used(job)  # by a run that has begun meanwhile
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


def read_manifest(config: Config) -> dict[str, Any]:
    """The manifest of prepared data, checked against itself and against the configuration.

    Keys beside those of every manifest: `data_sha256` (over the hashes of all Arrow files),
    `tokenizer_sha256`, `shards` (split -> list of file, pairs, source_tokens, target_tokens,
    weight, and with BPE-dropout segmentation), `corpora` (with counts by cleaning rule),
    `settings`, `inputs`, `origin_sha256`.

    Raises:
        InputError: nothing is prepared there, the manifest is damaged, or the data were prepared
            with other settings; names them.
    """
    directory = Path(config.data.directory)
    content = _manifest(directory)
    settings = _settings(config)
    if content["settings"] != settings:
        changed = _changed(content["settings"], settings)
        raise InputError(
            f"prepared with other settings ({changed}), {directory}, "
            "run nmt prepare, or name another data.directory"
        )
    return content


def mark_used(directory: Path, run: Path) -> None:
    """Notes that a run was trained on this data, which `prepare` then refuses to replace.

    The note counts as long as the run's directory exists.

    Args:
        directory: of prepared data.
        run: the run directory.
    """
    note = {"run": str(run.resolve()), "origin_sha256": _manifest(directory)["origin_sha256"]}
    name = hashlib.sha256(note["run"].encode()).hexdigest()[:16] + ".json"
    try:
        path, content = directory / USED_BY / name, (json.dumps(note) + "\n").encode()
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or small_file(path, _MAX_NOTE_BYTES) != content:
            atomic.write_file(path, content)
    except OSError:
        if os.access(directory, os.W_OK):
            raise
        # What nobody here may write, nobody here may replace either.


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
    origin = {"recipe": stages.RECIPE, "settings": _settings(config), "inputs": inputs}
    if tokenizer:
        origin["given_tokenizer"] = manifest.file_hash(tokenizer)
    return Job(config, Path(config.data.directory), parts, origin, tokenizer)


def _settings(config: Config) -> dict[str, Any]:
    """The settings that prepared data depend on."""
    data = config.data.model_dump(mode="json", exclude={"directory"})
    # data without dropout are as they were before there was this setting
    absent = set() if config.tokenizer.bpe_dropout else {"bpe_dropout"}
    return {"data": data, "tokenizer": config.tokenizer.model_dump(mode="json", exclude=absent)}


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What differs between two origins' settings, each with its values, for a message."""
    found = []
    for section in new:
        was, now = old.get(section, {}), new[section]
        for key in dict.fromkeys([*now, *was]):
            if was.get(key) != now.get(key):
                values = [json.dumps(v.get(key), ensure_ascii=False) for v in (was, now)]
                short = len("".join(values)) <= 80
                found.append(
                    f"{section}.{key}" + (f" was {values[0]}, is {values[1]}" if short else "")
                )
    return "; ".join(found) or "other input files"


def _manifest(directory: Path) -> dict[str, Any]:
    if not (directory / manifest.NAME).exists():
        raise InputError(f"no prepared data, {directory}, run nmt prepare")
    try:
        return manifest.read(directory, "data")
    except NoModelError as error:
        what = error.problems[0].split(",")[0]
        raise InputError(f"{what}, {directory}, run nmt prepare again") from None


def _is_prepared(job: Job, report: Report) -> bool:
    """Whether the directory holds what this job would make, every file checked by its hash."""
    if not (job.directory / manifest.NAME).exists():
        return False
    try:
        content = _manifest(job.directory)
        if content["origin_sha256"] != manifest.value_hash(job.origin):
            changed = _changed(content["settings"], job.origin["settings"])
            report(f"preparing again: {changed}")
            return False
        manifest.verify(job.directory, content)
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
    if job.work.exists() or (job.directory / manifest.NAME).exists():
        return
    for name in _PUBLISHED:
        if os.path.lexists(job.directory / name):
            raise InputError(
                f"not made by nmt prepare, {job.directory / name}, move it away, "
                "or name another data.directory"
            )


def _refuse_if_used(job: Job) -> None:
    wanted = manifest.value_hash(job.origin)
    for path in sorted((job.directory / USED_BY).glob("*.json")):
        try:
            note = json.loads(small_file(path, _MAX_NOTE_BYTES))
            run, used = Path(note["run"]), note["origin_sha256"]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"damaged note of a run that was trained on these data, {path}, "
                "name another data.directory, or remove the note if that run is gone"
            ) from None
        if used == wanted or not run.is_dir():
            continue
        try:
            changed = _changed(_manifest(job.directory)["settings"], job.origin["settings"])
        except InputError:
            changed = "their manifest is lost"
        raise InputError(
            f"a run was trained on these data, which would change ({changed}), "
            f"{run} on {job.directory}, name another data.directory or remove the run"
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
