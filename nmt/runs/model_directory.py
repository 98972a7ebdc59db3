"""A model directory: configuration, tokenizer and weights with their manifest, self-contained.

A model may come from anywhere, with a manifest that fits what is in it, so the manifest protects
against damage alone. What keeps a model from running code, crashing the process or filling the
memory is how it is read: strict YAML; a tokenizer only in the form that ours have; tensors whose
names, types and shapes, read first from a bounded header, are those the configuration asks for.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt import config as configuration
from nmt.config import Config
from nmt.data.shortlist import Shortlist
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, LastingError, NoModelError, Note, StorageError, of_system
from nmt.model.transformer import Transformer
from nmt.runs.run_directory import RunDirectory
from nmt.storage import manifest
from nmt.storage.atomic import new_directory
from nmt.storage.names import (
    CONFIG,
    CTRANSLATE2_WEIGHTS,
    HUGGINGFACE_CONFIG,
    MODEL,
    OPTIMIZER,
    SHORTLIST,
    STATE,
    TOKENIZER,
    WEIGHTS,
)

MOMENTS = ("exp_avg", "exp_avg_sq")  # Adam's, of each parameter
_MAX_HEADER_BYTES = 10_000_000  # names and shapes of some 100,000 tensors


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to translate."""

    config: Config
    tokenizer: Tokenizer
    transformer: Transformer  # in evaluation mode
    step: int  # optimizer steps behind the weights
    directory: Path
    target_symbols: Sequence[str] = ()  # those of the vocabulary that its training targets held
    shortlist: Shortlist | None = None  # if its data were prepared with one


def find_model(path: Path, note: Note = lambda text: None) -> tuple[Path, str]:
    """The directory that a model's path means, and its kind, "model" or "checkpoint".

    Of a run directory: its `model/` or its newest sound checkpoint, whichever has the higher
    step, `model/` if equal.

    Args:
        note: is told what of a run directory was taken, and what was passed over.

    Raises:
        InputError: nothing there, or written by a later version of nmt (2).
        NoModelError: no sound model in it (3).
    """
    folder, content = _find(path, note)
    return folder, content["kind"]


def _find(path: Path, note: Note) -> tuple[Path, dict[str, Any]]:
    """`find_model`, with the manifest found there."""
    if not path.is_dir():
        raise InputError(f"no such model directory, {path}, name a model, checkpoint or run")
    run = RunDirectory(path)
    _refuse_exported(run)
    if (path / manifest.NAME).is_file():
        kind = "checkpoint" if (path / STATE).exists() else "model"
        content = manifest.read(path, kind)
        manifest.verify(path, content, (CONFIG, TOKENIZER))
        return path, content
    if not run.may_hold_models:
        raise NoModelError(f"no model, checkpoint or run, {path}, it has no {manifest.NAME}")
    while True:
        problems: list[str] = []
        folders = run.models()
        candidates = []
        for folder in folders:
            kind = "model" if folder.name == MODEL else "checkpoint"
            with passing_over(problems.append):
                candidates.append((manifest.read(folder, kind), folder))
        for content, folder in sorted(candidates, key=_newest_last, reverse=True):
            with passing_over(problems.append):
                refuse_unsound(folder, content)
                for problem in problems:
                    note(f"passed over: {problem}")
                note(f"using {folder}")
                return folder, content
        if all(map(os.path.lexists, folders)):
            if not problems:
                raise NoModelError(f"no checkpoint yet, {path}, train on")
            for problem in problems[1:]:
                note(f"passed over: {problem}")
            raise NoModelError(problems[0])
        # else a running trainer has removed one, which it does only once there is a newer one


def _refuse_exported(run: RunDirectory) -> None:
    """Raises NoModelError for what `nmt export` writes, which other programs load."""
    path = run.path
    is_ours = (path / manifest.NAME).is_file() or run.may_hold_models
    if (path / CTRANSLATE2_WEIGHTS).is_file():
        what, then = "CTranslate2", f"nmt serve {path} serves it"
    elif (path / HUGGINGFACE_CONFIG).is_file() and not is_ours:
        what, then = "transformers", "load it with AutoModelForSeq2SeqLM"
    else:
        return
    raise NoModelError(f"a model for {what}, {path}, {then}, or name what it was exported from")


@contextmanager
def passing_over(tell: Note) -> Iterator[None]:
    """Tells why a model or checkpoint cannot be used, so that the next one is tried.

    Raises:
        LastingError: from the block, as no other model may be used instead.
    """
    try:
        yield
    except LastingError:
        raise
    except InputError as error:
        for problem in error.problems:
            tell(problem)


def refuse_unsound(folder: Path, content: dict[str, Any], others: Sequence[str] = ()) -> None:
    """Raises InputError unless a model or checkpoint in a run's directory is sound and its own.

    Its files are as the manifest says and fit each other, its settings are the run's, and all
    numbers are such as training gives. Moments are checked too: given short ones, Adam's fused
    kernel would write out of bounds.

    Args:
        content: the manifest.
        others: files to check besides those of a model.
    """
    try:
        _checked(folder, content, others)
        run = RunDirectory.around(folder)
        if content["kind"] == "checkpoint" and folder != run.checkpoint(step := content["step"]):
            raise NoModelError(f"a checkpoint of step {step}, {folder}, give it its own name again")
        run.refuse_foreign(folder)
        for name in {WEIGHTS, OPTIMIZER} & {WEIGHTS, *others}:
            read_tensors(folder / name)
    except OSError as error:  # as of a file that a trainer has removed meanwhile
        raise of_system(error) from None


def _newest_last(candidate: tuple[dict[str, Any], Path]) -> tuple[int, bool]:
    """By step, not by the files' times; of one step, the finished model after the checkpoint."""
    content, _ = candidate
    return content["step"], content["kind"] == "model"


def tokenizer_to_fine_tune(config: Config) -> Path | None:
    """The tokenizer of the model that `training.initialize_from` names, if it names one."""
    origin = config.training.initialize_from
    return find_model(Path(origin))[0] / TOKENIZER if origin else None


def load_model(path: Path, *, device: torch.device, note: Note = lambda text: None) -> LoadedModel:
    """Loads a model, checkpoint or run directory onto a device.

    Args:
        note: see `find_model`.

    Raises:
        InputError: nothing at `path`, or written by a later version of nmt (status 2).
        NoModelError: a file missing or damaged, or files that do not fit each other (status 3).
    """
    while True:
        folder, content = _find(path, note)
        try:
            return _load(folder, content, device)
        except (InputError, FileNotFoundError):
            if _is_still_there(folder, content):
                raise
            # else its trainer has removed or replaced it meanwhile: there is a newer one


def _is_still_there(folder: Path, content: dict[str, Any]) -> bool:
    try:
        return manifest.read(folder, content["kind"]) == content
    except InputError:
        return False


def _load(folder: Path, content: dict[str, Any], device: torch.device) -> LoadedModel:
    config, tokenizer, transformer = _checked(folder, content)
    transformer.load_state_dict(read_tensors(folder / WEIGHTS), assign=True)
    shortlist = None
    if SHORTLIST in content["files"]:
        shortlist = Shortlist.load(folder / SHORTLIST, tokenizer.vocabulary_size)
    return LoadedModel(
        config, tokenizer, transformer.to(device).eval(), content["step"], folder,
        content["target_symbols"], shortlist,
    )  # fmt: skip


def _checked(
    folder: Path, content: dict[str, Any], others: Sequence[str] = ()
) -> tuple[Config, Tokenizer, Transformer]:
    """A model directory's configuration, tokenizer and Transformer, whose weights have no values.

    Raises:
        InputError: its files are not as the manifest says, or do not fit each other (status 3).
    """
    optional = {SHORTLIST} & content["files"].keys()
    manifest.verify(folder, content, (CONFIG, TOKENIZER, WEIGHTS, *optional, *others))
    config, tokenizer = read_config(folder), Tokenizer.load(folder / TOKENIZER)
    if content["tokenizer_sha256"] != tokenizer.sha256:
        raise NoModelError(
            f"tokenizer of another model (sha256 {tokenizer.sha256[:12]}…, the model's is "
            f"{content['tokenizer_sha256'][:12]}…), {folder / TOKENIZER}, restore its own"
        )
    if tokenizer.vocabulary_size != config.tokenizer.vocabulary_size:
        raise NoModelError(
            f"{tokenizer.vocabulary_size} pieces, the configuration says "
            f"{config.tokenizer.vocabulary_size}, {folder / TOKENIZER}, restore its own"
        )
    with torch.device("meta"):
        transformer = new_transformer(config)
    for name in {WEIGHTS, OPTIMIZER} & {WEIGHTS, *others}:
        _refuse_unfit(folder / name, transformer)
    return config, tokenizer, transformer


def new_transformer(config: Config) -> Transformer:
    """The model that a configuration asks for, its weights without values."""
    return Transformer(config.model, config.tokenizer.vocabulary_size, config.data.max_length)


def read_config(folder: Path) -> Config:
    """The configuration in a model directory; NoModelError if it is none of ours."""
    try:
        return configuration.load_resolved(folder / CONFIG)
    except InputError as error:
        raise NoModelError(*error.problems) from None


def check_fit(transformer: Transformer, weights: dict[str, Tensor], name: Path) -> None:
    """Raises NoModelError unless names and shapes are exactly the Transformer's."""
    _compare(_shapes_of(transformer.state_dict()), _shapes_of(weights), name)


def _refuse_unfit(path: Path, transformer: Transformer) -> None:
    """Raises NoModelError unless a file's tensors are the weights, or all of Adam's moments."""
    expected = _shapes_of(transformer.state_dict())
    if path.name == OPTIMIZER:
        expected = {f"{m}.{key}": shape for key, shape in expected.items() for m in MOMENTS}
    _compare(expected, _shapes(path), path)


def _shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in tensors.items()}


def _compare(
    expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], name: Path
) -> None:
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            raise NoModelError(
                f"tensor {key} has shape {found.get(key, 'none')}, the configuration asks for "
                f"{expected.get(key, 'none')}, {name}, restore the files that belong together"
            )


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file of weights or moments, fp32.

    Raises:
        NoModelError: it is damaged, or holds other types, or values that no training gives.
    """
    _shapes(path)
    tensors = load_file(path)
    for name, tensor in tensors.items():
        if not tensor.isfinite().all() or (name.startswith("exp_avg_sq.") and tensor.min() < 0):
            raise NoModelError(f"values that no training has ({name}), {path}, restore it")
    return tensors


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The tensors of a safetensors file by its header alone, which is checked."""
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
    try:
        if header_bytes > _MAX_HEADER_BYTES:
            raise ValueError(f"a header of {header_bytes} bytes")
        with safe_open(path, framework="pt") as content:
            slices = {key: content.get_slice(key) for key in content.keys()}  # noqa: SIM118
        other = {part.get_dtype() for part in slices.values()} - {"F32"}
        if other:
            raise ValueError(f"tensors of type {', '.join(sorted(other))}, F32 is needed")
        return {key: tuple(part.get_shape()) for key, part in slices.items()}
    except (SafetensorError, ValueError, OverflowError) as error:
        raise NoModelError(f"not a sound safetensors file ({error}), {path}, restore it") from None


def write_model_files(
    folder: Path,
    config: Config,
    tokenizer: bytes,
    weights: dict[str, Tensor],
    shortlist: bytes | None,
) -> None:
    """Writes configuration, tokenizer, weights and any shortlist into an unfinished directory."""
    (folder / CONFIG).write_text(config.to_yaml(), encoding="utf-8")
    (folder / TOKENIZER).write_bytes(tokenizer)
    if shortlist is not None:
        (folder / SHORTLIST).write_bytes(shortlist)
    write_tensors(folder / WEIGHTS, weights)


def write_tensors(
    path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Writes a safetensors file; StorageError if the disk does not take it."""
    contiguous = {key: value.detach().contiguous() for key, value in tensors.items()}
    try:
        save_file(contiguous, path, metadata)
    except SafetensorError as error:
        raise StorageError(f"cannot write ({error}), {path}, make room or allow it") from None


def save_model(
    path: Path,
    config: Config,
    tokenizer: bytes,
    weights: dict[str, Tensor],
    facts: dict[str, Any],
    shortlist: bytes | None = None,
) -> None:
    """Writes a model directory, whole or not at all.

    Args:
        path: must not exist, or be an empty directory.
        facts: keys of the manifest besides its own: `step`, hashes of tokenizer and data.
        shortlist: its file, if there is one.
    """
    with new_directory(path) as folder:
        write_model_files(folder, config, tokenizer, weights, shortlist)
        manifest.write(folder, "model", facts)
