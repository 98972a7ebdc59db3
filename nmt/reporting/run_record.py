"""Reads the settings, log, manifests and test scores of a run for a report.

The report lists files that cannot be read. Therefore, a report can be written even if the run is
still training, the prepared data was deleted, or the model is damaged.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from nmt.config import Config
from nmt.data.languages import language_of
from nmt.errors import InputError, Note, count
from nmt.evaluation.analysis import Analysis, training_data
from nmt.evaluation.contrastive import Contrastive, contrastive_accuracy, read_contrastive
from nmt.evaluation.evaluate import evaluate
from nmt.evaluation.paper_bleu import CONVENTIONS
from nmt.reporting.chart import Point
from nmt.reporting.info import info
from nmt.runs.found_model import FoundModel
from nmt.runs.run_directory import RunDirectory, RunIdentity
from nmt.storage import manifest
from nmt.storage.atomic import write_file
from nmt.storage.opening import small_file
from nmt.training.run_log import log_lines
from nmt.translator import Translator

_MAX_TEST_BYTES = 200_000_000

Judge = Callable[[Path], Contrastive]


class TestScores(BaseModel):
    """A model's scores on `data.test`, which are saved to avoid translating the test set again."""

    __test__ = False  # tells pytest that this is not a test

    model_config = ConfigDict(frozen=True)

    model_sha256: str  # hash of the model with these scores, from the model's manifest
    scores: dict[str, Any]  # the result of `Evaluation.as_json`, without the analysis
    analysis: Analysis
    sources: list[str]
    references: list[str]
    translations: list[str]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if number(self.scores.get("bleu")) is None:
            raise ValueError("no BLEU")
        if not len(self.sources) == len(self.references) == len(self.translations) > 0:
            raise ValueError("sources, references and translations differ in number")
        return self

    @classmethod
    def of_file(cls, data: bytes) -> Self:
        """Parses the content of a test score file. Raises ValueError if the content is damaged."""
        content = json.loads(data)
        if not isinstance(content, dict):
            raise ValueError("not an object")
        if content.pop("sha256", None) != manifest.value_hash(content):
            raise ValueError("the stored hash does not match")
        return cls.model_validate(content)

    def as_file(self) -> bytes:
        """Returns the content of a test score file: all fields, and their hash."""
        content = self.model_dump(mode="json")
        return manifest.file_of(content | {"sha256": manifest.value_hash(content)})


@dataclass(frozen=True)
class Sitting:
    """The training time on one kind of hardware."""

    device: str
    world_size: int
    hours: float


@dataclass(frozen=True)
class RunRecord:
    """The data of one run, from which a report's tables and charts are created."""

    directory: Path
    name: str  # unique on the page
    config: Config
    info: dict[str, Any]  # the result of `info`
    log: list[dict[str, Any]]
    model: dict[str, Any] | None = None  # the finished model's manifest
    test: TestScores | None = None
    contrastive: Contrastive | None = None  # None without a file of contrastive pairs
    data: dict[str, Any] | None = None  # the prepared data's manifest
    missing: list[str] = field(default_factory=list)  # data that could not be read, with reasons

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The log entries that describe training steps."""
        return [line for line in self.log if "event" not in line]

    @property
    def validations(self) -> list[dict[str, Any]]:
        """The log entries that describe validations."""
        return [line for line in self.log if line.get("event") == "validation"]

    @property
    def step(self) -> int:
        """The last logged step, or the step of the finished model if that step is later."""
        return max([line["step"] for line in self.log] + [self.model["step"] if self.model else 0])

    @property
    def elapsed_s(self) -> float:
        """The training time in seconds, or 0 if no training time is logged."""
        return max((_elapsed_s(line) or 0.0 for line in self.log), default=0.0)

    @property
    def final_validation(self) -> dict[str, Any]:
        """The validation scores in the finished model's manifest, or {} if there are no scores."""
        found = (self.model or {}).get("validation")
        return found if isinstance(found, dict) else {}

    @property
    def warnings(self) -> list[str]:
        """The warnings of `nmt prepare` and `nmt train`, from the data and model manifests."""
        found = [(content or {}).get("warnings") for content in (self.data, self.model)]
        lines = chain.from_iterable(each for each in found if isinstance(each, list))
        return [line for line in lines if isinstance(line, str)]

    def points(self, key: str, *, validation: bool = False) -> list[Point]:
        """Returns the logged values of a quantity. Skips log entries without a finite value."""
        return [
            Point(line["step"], _elapsed_s(line), value)
            for line in (self.validations if validation else self.steps)
            if (value := number(line.get(key))) is not None
        ]

    @property
    def sittings(self) -> list[Sitting]:
        """The training time on each kind of hardware, or an empty list if no time is logged."""
        hours: dict[tuple[str, int], float] = {}
        before, key = 0.0, ("unknown hardware", 1)
        for line in self.log:
            elapsed = _elapsed_s(line)
            if elapsed is None:
                continue
            if "device" in line:
                key = (str(line["device"]), int(number(line.get("world_size")) or 1))
            hours[key] = hours.get(key, 0.0) + max(0.0, elapsed - before) / 3600
            before = elapsed
        return [Sitting(*key, spent) for key, spent in hours.items()]


_LARGEST = 1e100  # sums and products of a few numbers up to this value do not overflow


def number(value: Any) -> float | None:
    """Returns `value` as a float if it is a number that can be plotted, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        return None
    return float(value) if abs(value) >= 1 / _LARGEST else 0.0


def _elapsed_s(line: dict[str, Any]) -> float | None:
    found = number(line.get("elapsed_s"))
    return None if found is None or found < 0 else found


def read_runs(
    directories: Sequence[Path], note: Note, contrastive: Path | None = None
) -> list[RunRecord]:
    """Returns a record for each distinct run directory.

    Args:
        note: called with a message if data cannot be read, and before a test set is translated.
        contrastive: a file of contrastive pairs on which the accuracy of each finished model is
            computed, or None.

    Raises:
        InputError: a directory is not a run directory, or its settings cannot be read (status 2).
        NoModelError: a model or the file data.json belongs to another run (status 3).
    """
    unique = list({os.path.realpath(directory): directory for directory in directories}.values())
    for directory in unique:
        _check(directory)
    judge = _judge(contrastive, note) if contrastive else None
    names = _names([Path(os.path.realpath(directory)) for directory in unique])
    return [
        _read(directory, name, judge, note) for directory, name in zip(unique, names, strict=True)
    ]


def _check(directory: Path) -> None:
    if not RunDirectory(directory).is_run:
        raise InputError(
            f"{directory} is not a run directory. Specify a run directory written by nmt train."
        )


def _names(paths: Sequence[Path]) -> list[str]:
    """Returns a unique name for each path.

    Each name consists of the last n components of the path, where n is the smallest number for
    which all names differ.
    """
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        names = [str(Path(*path.parts[-length:])) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def _read(directory: Path, name: str, judge: Judge | None, note: Note) -> RunRecord:
    run = RunDirectory(directory)
    config = run.settings()
    missing: list[str] = []

    def tried(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except InputError as error:
            missing.extend(error.problems)
            note(f"nmt: warning: The report is incomplete. {error.problems[0]}")
            return None

    def sound(folder: Path, kind: str) -> dict[str, Any] | None:
        return tried(lambda: manifest.read(folder, kind))

    test, model = None, sound(run.model, "model") if run.model.is_dir() else None
    data = tried(lambda: manifest.read(directory, "data", run.data_manifest.name))
    trained = {run.model: model}
    if not model:
        trained = {folder: sound(folder, "checkpoint") for _, folder in run.by_step()[:1]}
    for folder, content in trained.items():
        if content:  # raises NoModelError if it belongs to another run
            RunIdentity(run, b"", data).data_of(folder, content)
    if model and config.data.test:
        test = tried(lambda: test_scores(run, note))
    judged = tried(lambda: judge(run.model)) if model and judge else None
    lines = list(log_lines(directory))
    log = [entry for entry in lines if entry]
    for fault in _log_faults(run, log, len(lines) - len(log), model):
        missing.append(fault)
        note(f"nmt: warning: The report is incomplete. {fault}")
    return RunRecord(directory, name, config, info(config), log, model, test, judged, data, missing)


def _log_faults(
    run: RunDirectory, log: list[dict[str, Any]], invalid: int, model: dict[str, Any] | None
) -> list[str]:
    """Returns the problems with a run's log.

    Args:
        log: the valid entries of the log.
        invalid: the number of invalid lines in the log.
        model: the manifest of the finished model, or None. If the log ends before the step of the
            finished model, this is reported as a problem.
    """
    faults = []
    if not log and run.models():
        faults.append(f"{run.log} is missing or has no valid entry. Restore it from a copy.")
    elif model and (last := max(entry["step"] for entry in log)) < model["step"]:
        faults.append(
            f"{run.log} ends at step {last:,}, but the finished model is from step "
            f"{model['step']:,}. Restore it from a copy."
        )
    if invalid:
        faults.append(f"{run.log} has {count(invalid, 'invalid line')}, which the report skips.")
    return faults


def _judge(file: Path, note: Note) -> Judge:
    """Returns a function that computes a model's accuracy on the contrastive pairs in a file."""
    pairs = read_contrastive(file)
    return lambda model: contrastive_accuracy(
        Translator.load(model, precision="fp32", note=note), pairs, file
    )


def _can_be_completed(kept: TestScores, run: RunDirectory, config: Config) -> bool:
    """Returns whether word frequencies, which the saved analysis lacks, can be counted now."""
    if kept.analysis.by_word_frequency is not None:
        return False
    try:
        training_data(FoundModel(run.model, manifest.read(run.model, "model"), config))
    except InputError:
        return False
    return True


def test_scores(run: RunDirectory, note: Note) -> TestScores:
    """Returns the scores of a run's finished model on the test set.

    Saved scores are reused if they are undamaged, belong to the model, follow the current
    conventions of paper BLEU, and contain the word frequencies or the training data is unavailable.
    Otherwise, the test set is translated and scored again, and the new scores are saved if the run
    directory is writable.

    Args:
        run: a finished run whose configuration specifies a test set.
    """
    config, model_sha256 = run.settings(), manifest.read(run.model, "model")["sha256"]
    path = run.test_scores
    convention = CONVENTIONS.get(language_of(config.data.target_language))
    try:
        if path.is_file():  # reading a pipe would block
            kept = TestScores.of_file(small_file(path, _MAX_TEST_BYTES))
            is_of_today = kept.scores.get("paper_bleu_convention") == convention
            is_of_model = kept.model_sha256 == model_sha256
            if is_of_model and is_of_today and not _can_be_completed(kept, run, config):
                return kept
    except (OSError, InputError, ValueError, RecursionError):
        pass  # missing or damaged scores are computed again
    note(f"Translating the test set with {run.model}. The scores will be saved in {path}.")
    found = evaluate(run.model, analysis=True, note=note)
    assert found.test_set.sources is not None and found.analysis
    test = TestScores(
        model_sha256=model_sha256,
        scores=replace(found, analysis=None).as_json(),
        analysis=found.analysis,
        sources=found.test_set.sources,
        references=found.test_set.references[0],
        translations=found.translations,
    )
    try:
        path.parent.mkdir(exist_ok=True)
        write_file(path, test.as_file())
    except OSError as error:
        if os.access(run.path, os.W_OK):
            raise
        note(f"nmt: warning: The scores cannot be saved to {path} ({error.strerror}).")
    return test
