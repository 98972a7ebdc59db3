"""A model directory: configuration, tokenizer and weights with their manifest, self-contained.

Everything read is first checked against the manifest, and the weights against the shapes that
the configuration asks for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt import config as configuration
from nmt.config import Config
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, NoModelError, Status
from nmt.model.transformer import Transformer
from nmt.storage import manifest
from nmt.storage.atomic import new_directory

CONFIG, TOKENIZER, WEIGHTS = "config.yaml", "tokenizer.model", "model.safetensors"


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to translate."""

    config: Config
    tokenizer: Tokenizer
    transformer: Transformer  # in evaluation mode
    step: int  # optimizer steps behind the weights
    directory: Path


def find_model(path: Path, note: Callable[[str], None] = lambda text: None) -> tuple[Path, str]:
    """The directory that MODEL means, and its kind, "model" or "checkpoint".

    Of a run directory: its `model/` or its newest sound checkpoint, whichever has the higher
    step, `model/` if equal.

    Args:
        note: is told what of a run directory was taken, and what was passed over.

    Raises:
        InputError: nothing there (2); NoModelError: no sound model in it (3).
    """
    if not path.is_dir():
        raise InputError(f"no such model directory, {path}, name a model, checkpoint or run")
    if (path / manifest.NAME).is_file():
        kind = "checkpoint" if (path / "state.json").exists() else "model"
        manifest.verify(path, manifest.read(path, kind), (CONFIG,))
        return path, kind
    if not (path / "checkpoints").is_dir() and not (path / "model").is_dir():
        raise NoModelError(f"no model, checkpoint or run, {path}, it has no {manifest.NAME}")
    problems: list[str] = []
    candidates: list[tuple[int, int, Path, str]] = []
    if (path / "model").is_dir():
        candidates += _candidate(path / "model", "model", 1, problems)
    for folder in (path / "checkpoints").glob("step-*"):
        candidates += _candidate(folder, "checkpoint", 0, problems)
    for _, _, folder, kind in sorted(candidates, reverse=True):
        try:
            manifest.verify(folder, manifest.read(folder, kind), (CONFIG, TOKENIZER, WEIGHTS))
            for problem in problems:
                note(f"passed over: {problem}")
            note(f"using {folder}")
            return folder, kind
        except InputError as error:
            problems += error.problems
    raise NoModelError(*(problems or [f"no checkpoint yet, {path}, train on"]))


def _candidate(
    folder: Path, kind: str, rank: int, problems: list[str]
) -> list[tuple[int, int, Path, str]]:
    try:
        return [(int(manifest.read(folder, kind)["step"]), rank, folder, kind)]
    except InputError as error:
        problems += error.problems
        return []


def tokenizer_to_fine_tune(config: Config) -> Path | None:
    """The tokenizer of the model that `training.initialize_from` names, if it names one."""
    origin = config.training.initialize_from
    return find_model(Path(origin))[0] / TOKENIZER if origin else None


def load_model(
    path: Path, *, device: torch.device, note: Callable[[str], None] = lambda text: None
) -> LoadedModel:
    """Loads a MODEL (model, checkpoint or run directory) onto a device.

    Args:
        note: see `find_model`.

    Raises:
        InputError: nothing at `path` (status 2).
        NoModelError: a file missing or damaged, or weights that do not fit (status 3).
    """
    folder, kind = find_model(path, note)
    content = manifest.read(folder, kind)
    manifest.verify(folder, content, (CONFIG, TOKENIZER, WEIGHTS))
    if content["tokenizer_sha256"] != content["files"][TOKENIZER]["sha256"]:
        raise NoModelError(f"tokenizer of another model, {folder / TOKENIZER}, restore its own")
    config = configuration.load(folder / CONFIG)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    transformer = build(config, read_tensors(folder / WEIGHTS), folder / WEIGHTS)
    return LoadedModel(config, tokenizer, transformer.to(device).eval(), content["step"], folder)


def build(config: Config, weights: dict[str, Tensor], name: Path) -> Transformer:
    """A Transformer that takes `weights` as its own; NoModelError if they do not fit."""
    with torch.device("meta"):
        transformer = Transformer(config)
    check_fit(transformer, weights, name)
    transformer.load_state_dict(weights, assign=True)
    return transformer


def check_fit(transformer: Transformer, weights: dict[str, Tensor], name: Path) -> None:
    """Raises NoModelError unless names, shapes and type are exactly the Transformer's."""
    expected = {key: tuple(value.shape) for key, value in transformer.state_dict().items()}
    found = {key: tuple(value.shape) for key, value in weights.items()}
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            raise NoModelError(
                f"tensor {key} has shape {found.get(key, 'none')}, the configuration asks for "
                f"{expected.get(key, 'none')}, {name}, restore the files that belong together"
            )
        if weights[key].dtype != torch.float32:
            raise NoModelError(f"tensor {key} is {weights[key].dtype}, {name}, float32 is needed")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file; NoModelError if it is damaged."""
    try:
        return load_file(path)
    except (SafetensorError, ValueError, OverflowError) as error:
        raise NoModelError(f"not a sound safetensors file ({error}), {path}, restore it") from None


def write_model_files(
    folder: Path, config: Config, tokenizer: bytes, weights: dict[str, Tensor]
) -> None:
    """Writes configuration, tokenizer and weights into an unfinished directory."""
    (folder / CONFIG).write_text(config.to_yaml(), encoding="utf-8")
    (folder / TOKENIZER).write_bytes(tokenizer)
    write_tensors(folder / WEIGHTS, weights)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Writes a safetensors file; InputError (status 5) if the disk does not take it."""
    try:
        save_file({key: value.detach().contiguous() for key, value in tensors.items()}, path)
    except SafetensorError as error:
        raise InputError(
            f"cannot write ({error}), {path}, make room or allow it", status=Status.STORAGE
        ) from None


def save_model(
    path: Path, config: Config, tokenizer: bytes, weights: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    """Writes a model directory, whole or not at all.

    Args:
        path: must not exist, or be an empty directory.
        facts: keys of the manifest besides its own: `step`, hashes of tokenizer and data.
    """
    with new_directory(path) as folder:
        write_model_files(folder, config, tokenizer, weights)
        manifest.write(folder, "model", facts)
