"""Reads and writes model directories.

A model directory contains a configuration, a tokenizer, weights and a manifest. The manifest
reveals accidental damage but not malicious changes, because an attacker can also change the
manifest. Three checks prevent a malicious model from running code, crashing the process or
exhausting memory. First, the YAML parser rejects tags and aliases. Second, the tokenizer file is
rejected unless nmt could have written it. Third, before any tensor is read, the names, types and
shapes of all tensors are read from a header of limited size and compared with the configuration.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.shortlist import Shortlist
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, LastingError, NoModelError, Note, of_system
from nmt.model.transformer import Transformer
from nmt.runs.exported_model import is_exported
from nmt.runs.found_model import FoundModel, read_config
from nmt.runs.run_directory import RunDirectory, RunIdentity
from nmt.runs.tensor_files import read_tensors, shapes_of, write_tensors
from nmt.storage import manifest
from nmt.storage.atomic import new_directory
from nmt.storage.names import (
    CHECKPOINTS,
    CONFIG,
    HUGGINGFACE_CONFIG,
    MODEL,
    OPTIMIZER,
    SHORTLIST,
    STATE,
    TOKENIZER,
    WEIGHTS,
)
from nmt.storage.opening import entries

T = TypeVar("T")
_NEAREST = 3  # maximum number of paths that are suggested instead of an incorrect path


@dataclass(frozen=True)
class LoadedModel:
    """A model that has been loaded and can translate."""

    config: Config
    tokenizer: Tokenizer
    transformer: Transformer  # in evaluation mode
    step: int  # number of optimizer steps that the model was trained for
    directory: Path
    sha256: str  # hash of the files and manifest entries that determine translations
    data_sha256: str  # hash of the training data
    target_symbols: Sequence[str] = ()  # symbols that occurred in the training targets
    shortlist: Shortlist | None = None  # None if the prepared data has no shortlist


@dataclass(frozen=True)
class OpenedModel(FoundModel):
    """A model or checkpoint whose files are consistent with its manifest and with each other."""

    tokenizer: Tokenizer
    transformer: Transformer  # on the meta device
    shortlist: Shortlist | None  # None if the prepared data has no shortlist
    weights: dict[str, Tensor]  # finite, in fp32
    optimizer: dict[str, Tensor] | None = None  # finite, in fp32; None unless requested


def find_model(path: Path, note: Note = lambda text: None) -> FoundModel:
    """Finds the model or checkpoint in a directory.

    If `path` is a run directory, returns the finished model or the newest valid checkpoint,
    whichever was trained for more steps. If the finished model and the checkpoint were trained for
    the same number of steps, returns the finished model. The weights of a run's models are verified
    but not kept in memory. If `path` is a model or checkpoint, its weights are not read.

    Args:
        note: a function that is called with messages about the model that is used and the models
            that are skipped.

    Raises:
        InputError: no directory exists at `path`, or a later version of nmt wrote it (exit status
            2).
        NoModelError: the directory contains no valid model (exit status 3).
    """

    def described(folder: Path, content: dict[str, Any]) -> FoundModel:
        manifest.verify(folder, content, (CONFIG, TOKENIZER))
        return FoundModel(folder, content, read_config(folder))

    found = _first_sound(path, note, described, open_in_run)
    return FoundModel(found.directory, found.manifest, found.config)


def load_model(path: Path, *, device: torch.device, note: Note = lambda text: None) -> LoadedModel:
    """Loads a model, a checkpoint or the newest model of a run onto a device.

    Args:
        note: see `find_model`.

    Raises:
        InputError: no directory exists at `path`, or a later version of nmt wrote it (exit status
            2).
        NoModelError: a file is missing or damaged, or the files belong to different models (exit
            status 3).
    """
    opened = _first_sound(path, note, open_model, open_in_run)
    opened.transformer.load_state_dict(opened.weights, assign=True)
    files, symbols = opened.manifest["files"], opened.manifest["target_symbols"]
    # A hash of the manifest would change when training removes the optimizer's state.
    used = [files.get(name) for name in (CONFIG, TOKENIZER, WEIGHTS, SHORTLIST)]
    return LoadedModel(
        opened.config, opened.tokenizer, opened.transformer.to(device).eval(), opened.step,
        opened.directory, manifest.value_hash([used, symbols]), opened.manifest["data_sha256"],
        symbols, opened.shortlist,
    )  # fmt: skip


def _first_sound(
    path: Path,
    note: Note,
    use: Callable[[Path, dict[str, Any]], T],
    use_in_run: Callable[[RunIdentity, Path, dict[str, Any]], T],
) -> T:
    """Calls `use` for a model or checkpoint, or `use_in_run` for a run's newest usable model."""
    try:
        is_directory = path.is_dir()
    except OSError as error:  # for example, the name is too long
        raise of_system(error) from None
    if not is_directory:
        if path.suffix in (".yaml", ".yml") and path.name != CONFIG and path.is_file():
            raise InputError(
                f"{path} is a configuration, not a model. Specify its training.run_directory."
            )
        problem = f"{path} is a file" if path.is_file() else f"There is no model directory {path}"
        raise InputError(f"{problem}. {_specify_another(path)}")
    run = RunDirectory(path)
    refuse_exported(path)
    if (path / manifest.NAME).is_file():
        return _in_place(path, use)
    if (path / WEIGHTS).is_file():
        raise NoModelError(f"{path / manifest.NAME} is missing. Restore it from a copy.")
    if not (run.may_hold_models or run.data_manifest.is_file()):
        raise NoModelError(
            f"{path} is not a model, checkpoint or run: it has no {manifest.NAME}. "
            f"{_specify_another(path)}"
        )
    return _newest_sound(run, note, use_in_run)


def _specify_another(path: Path) -> str:
    """Returns a sentence that suggests models, checkpoints or runs instead of an incorrect path."""
    folder = next((each for each in (path, *path.parents) if each.is_dir()), Path())
    found: list[Path] = []
    with suppress(OSError, InputError):
        run = RunDirectory(folder.parent if folder.name == CHECKPOINTS else folder)
        found = run.models() or [each for each in entries(folder) if (each / CONFIG).is_file()]
        found = [folder] if folder != path and (folder / WEIGHTS).is_file() else found
    likeness = {each: SequenceMatcher(None, path.name, each.name).ratio() for each in found}
    nearest = sorted(found, key=likeness.__getitem__, reverse=True)[:_NEAREST]
    examples = f", such as {' or '.join(map(str, nearest))}" if nearest else ""
    return f"Specify a model, checkpoint or run{examples}."


def _in_place(folder: Path, use: Callable[[Path, dict[str, Any]], T]) -> T:
    """Calls `use` for a model or checkpoint; retries if `nmt train` has replaced the directory."""
    while True:
        content = read_manifest(folder)
        try:
            return use(folder, content)
        except (InputError, FileNotFoundError):
            if _is_still_there(folder, content):
                raise


def _newest_sound(
    run: RunDirectory, note: Note, use: Callable[[RunIdentity, Path, dict[str, Any]], T]
) -> T:
    """Calls `use` for a run's models, newest first, until a call succeeds; returns its result.

    If all calls fail, but `nmt train` has removed or replaced a model in the meantime, the search
    starts again, because a newer model exists.
    """
    while True:
        skipped: list[Skipped] = []
        own, folders = run.identity(), run.models()
        candidates: list[tuple[dict[str, Any], Path]] = []
        for folder in folders:
            kind = "model" if folder.name == MODEL else "checkpoint"
            with skipping(folder, skipped):
                candidates.append((manifest.read(folder, kind), folder))
        for content, folder in sorted(candidates, key=_newest_last, reverse=True):
            with skipping(folder, skipped):
                result = use(own, folder, content)
                for each in skipped:
                    note(str(each))
                note(f"Using {folder}.")
                return result
        is_unchanged = all(_is_still_there(folder, content) for content, folder in candidates)
        if is_unchanged and all(map(os.path.lexists, folders)):
            if not skipped:
                raise NoModelError(
                    f"{run} has no checkpoint yet. Continue the training until a checkpoint is "
                    "saved."
                )
            for each in skipped[1:]:
                note(str(each))
            raise NoModelError(skipped[0].problem)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Returns the manifest of a model or checkpoint; raises the same errors as `manifest.read`."""
    return manifest.read(folder, "checkpoint" if (folder / STATE).exists() else "model")


def refuse_exported(path: Path) -> None:
    """Raises NoModelError if a directory contains a model that was exported for another program."""
    is_ours = (path / manifest.NAME).is_file() or RunDirectory(path).may_hold_models
    if is_exported(path):
        program, how = "CTranslate2", f'run "nmt translate {path}"'
    elif (path / HUGGINGFACE_CONFIG).is_file() and not is_ours:
        program, how = "transformers", "load the exported model with AutoModelForSeq2SeqLM"
    else:
        return
    raise NoModelError(f"{path} is a model for {program}. Use the original model, or {how}.")


class Skipped(NamedTuple):
    """A skipped model or checkpoint of a run, and the problem that makes it unusable.

    `str` converts the object to a message for the user.
    """

    folder: Path
    problem: str

    def __str__(self) -> str:
        name = self.folder.name
        what = "finished model" if name == MODEL else f"checkpoint of step {int(name[5:])}"
        return f"Skipping the {what}: {self.problem}"


@contextmanager
def skipping(folder: Path, skipped: list[Skipped]) -> Iterator[None]:
    """Suppresses InputErrors in a `with` statement, so that another model can be tried.

    Args:
        folder: the model or checkpoint that is used in the body of the `with` statement.
        skipped: a list to which the problems of a suppressed error are appended.

    Raises:
        LastingError: the body of the `with` statement raised a LastingError, which is not
            suppressed, because no other model may be used instead.
    """
    try:
        yield
    except LastingError:
        raise
    except InputError as error:
        skipped += [Skipped(folder, problem) for problem in error.problems]


def open_in_run(
    own: RunIdentity, folder: Path, content: dict[str, Any], *, with_optimizer: bool = False
) -> OpenedModel:
    """Opens a model or checkpoint in a run, and checks that it belongs to the run.

    Raises:
        NoModelError: a file is invalid (see `open_model`), the step in the name of a checkpoint's
            directory is not the step in its manifest, or the model was trained with other settings
            or data than the run.
        InputError: the operating system cannot read the directory.
    """
    try:
        opened = open_model(folder, content, with_optimizer=with_optimizer)
        step, is_checkpoint = content["step"], content["kind"] == "checkpoint"
        if is_checkpoint and folder != own.directory.checkpoint(step):
            name = own.directory.checkpoint(step).name
            raise NoModelError(
                f"The name of {folder} is wrong, because its checkpoint is from step {step}. "
                f"Rename the directory to {name}."
            )
        own.refuse_foreign(folder, content)
        return opened
    except OSError as error:  # for example, `nmt train` has removed a file meanwhile
        raise of_system(error) from None


def open_model(
    folder: Path, content: dict[str, Any], *, with_optimizer: bool = False
) -> OpenedModel:
    """Opens a model directory or checkpoint, and checks its files.

    Args:
        content: the content of the manifest in `folder`.
        with_optimizer: whether to also read the optimizer's state and verify state.json.

    Raises:
        NoModelError: a file is missing or differs from its manifest entry, the files belong to
            different models, or a weight or an optimizer state is not finite (exit status 3).
    """
    others = {SHORTLIST} & content["files"].keys() | ({STATE} if with_optimizer else set())
    manifest.verify(folder, content, (CONFIG, TOKENIZER, *others))
    config, tokenizer = read_config(folder), Tokenizer.load(folder / TOKENIZER)
    if content["tokenizer_sha256"] != tokenizer.sha256:
        raise NoModelError(
            f"{folder / TOKENIZER} is the tokenizer of another model (sha256 "
            f"{tokenizer.sha256[:12]}..., but {content['tokenizer_sha256'][:12]}... is needed). "
            "Restore the model's tokenizer from a copy."
        )
    if tokenizer.vocabulary_size != config.tokenizer.vocabulary_size:
        raise NoModelError(
            f"{folder / TOKENIZER} has {tokenizer.vocabulary_size} tokens, but the configuration "
            f"requires {config.tokenizer.vocabulary_size}. Restore the tokenizer from a copy."
        )
    with torch.device("meta"):
        transformer = new_transformer(config)
    shapes, shortlist = shapes_of(transformer.state_dict()), None
    with manifest.verified(folder, content, WEIGHTS) as file:
        weights, optimizer = read_tensors(file, folder / WEIGHTS, shapes), None
    if with_optimizer:
        with manifest.verified(folder, content, OPTIMIZER) as file:
            optimizer = read_tensors(file, folder / OPTIMIZER, shapes, are_states=True)
    if SHORTLIST in content["files"]:
        shortlist = Shortlist.load(folder / SHORTLIST, tokenizer.vocabulary_size)
    return OpenedModel(
        folder, content, config, tokenizer, transformer, shortlist, weights, optimizer
    )


def tokenizer_to_fine_tune(config: Config) -> Path | None:
    """Returns the path of the initial model's tokenizer, or None if no model is fine-tuned."""
    origin = config.training.initialize_from
    return find_model(Path(origin)).directory / TOKENIZER if origin else None


def _newest_last(candidate: tuple[dict[str, Any], Path]) -> tuple[int, bool]:
    """Returns a sort key: the step; a finished model follows the checkpoint of its step."""
    content, _ = candidate
    return content["step"], content["kind"] == "model"


def _is_still_there(folder: Path, content: dict[str, Any]) -> bool:
    try:
        return manifest.read(folder, content["kind"]) == content
    except InputError:
        return False


def new_transformer(config: Config) -> Transformer:
    """Returns a Transformer with the settings in `config` and uninitialized weights."""
    return Transformer(config.model, config.tokenizer.vocabulary_size, config.data.max_length)


def model_files(tokenizer: bytes, shortlist: bytes | None) -> dict[str, bytes]:
    """Maps the name of the tokenizer file, and of the shortlist file if any, to its content."""
    return {TOKENIZER: tokenizer} | ({} if shortlist is None else {SHORTLIST: shortlist})


def write_model_files(
    folder: Path, config: Config, files: Mapping[str, bytes], weights: Mapping[str, Tensor]
) -> None:
    """Writes a model's configuration, weights and other files, but not its manifest."""
    (folder / CONFIG).write_text(config.to_yaml(), encoding="utf-8")
    for name, data in files.items():
        (folder / name).write_bytes(data)
    write_tensors(folder / WEIGHTS, weights)


def save_model(
    path: Path,
    config: Config,
    files: Mapping[str, bytes],
    weights: Mapping[str, Tensor],
    facts: Mapping[str, Any],
) -> None:
    """Writes a model directory atomically.

    Args:
        path: the directory to write, which must be empty or not exist.
        files: see `model_files`.
        facts: entries that are written to the manifest, such as `step` and the hashes of the
            tokenizer and the data.
    """
    with new_directory(path) as folder:
        write_model_files(folder, config, files, weights)
        manifest.write(folder, "model", dict(facts))
