"""A configuration from its file, the file's `base:`, overrides, and the model it fine-tunes.

A file may name another as its `base:`, relative to itself, of which it overrides parts; overrides
of the form `section.key=value` come last. Where a model is fine-tuned, what they leave open of
`model` and `tokenizer` is that model's. Every problem is reported at once.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.config.comparing import differences
from nmt.config.problems import described
from nmt.config.settings import Config, Model
from nmt.config.strict_yaml import KeyPath, inline, parse, read
from nmt.errors import ArgumentError, InputError
from nmt.storage import names


def load(path: str | Path, overrides: Sequence[str] = (), *, origin: str = "overrides") -> Config:
    """The configuration in a file, with its `base:` and the overrides applied.

    With `training.initialize_from`, what they do not set of `model` and `tokenizer` is that
    model's; what its weights fix may not be set to anything else.

    Args:
        path: a YAML file.
        overrides: `dotted.key=value`, the value in YAML.
        origin: where they come from, for messages.

    Raises:
        InputError: one line for each problem found, with file, line and key.
    """
    if isinstance(overrides, str):
        raise ArgumentError("one override, {overrides} {}, give a list of them", overrides)
    content, origins = _read_with_base(Path(path), seen=())
    problems: list[str] = []
    for override in overrides:
        try:
            _apply(override, content, origins, origin)
        except InputError as error:
            problems += error.problems
    try:
        initial = _initial_config(content, origins)
        if initial:
            _inherit(content, initial)
        config = validate(content, origins, str(path))
    except InputError as error:
        raise InputError(*problems, *error.problems) from None
    if initial:
        problems += _misfits(config, initial, origins)
    if problems:
        raise InputError(*problems)
    return config


def read_merged(path: Path) -> dict[str, Any]:
    """What a file and its `base:` set, in one mapping, not checked; InputError as for `load`."""
    return _read_with_base(path, seen=())[0]


def load_resolved(path: Path) -> Config:
    """The configuration in a file that `to_yaml` wrote: no `base:` leads out of it."""
    content, lines = read(path)
    if not isinstance(content, dict):
        raise InputError(f"no settings, {path}, a mapping of sections was expected")
    return validate(content, {key: f"{path}:{line}" for key, line in lines.items()}, str(path))


def _initial_config(content: Mapping[str, Any], origins: Mapping[KeyPath, str]) -> Config | None:
    """The configuration of the model that `training.initialize_from` names, if it names one.

    A run in which it was fine-tuned has the same model and tokenizer, and may outlive it.

    Returns:
        None as well if there is no such model yet and both sections are set: nothing is left to it.

    Raises:
        InputError: there is no such model, and something is left to it.
    """
    training = content.get("training")
    origin = training.get("initialize_from") if isinstance(training, dict) else None
    if not isinstance(origin, str) or not origin:
        return None
    folders = (Path(origin), Path(origin, names.MODEL), Path(str(training.get("run_directory"))))  # type: ignore[union-attr]
    for folder in folders:
        if (folder / names.CONFIG).is_file():
            return load_resolved(folder / names.CONFIG)
    if {"model", "tokenizer"} <= content.keys():
        return None
    raise InputError(
        f"no model to fine-tune, training.initialize_from {origin}, "
        f"{origins[('training', 'initialize_from')]}, name a model, checkpoint or run directory"
    )


def _inherit(content: dict[str, Any], initial: Config) -> None:
    """Fills in what a parsed configuration leaves to the model that it fine-tunes."""
    given = initial.model_dump()
    for section in ("model", "tokenizer"):
        own = content.setdefault(section, {})
        if isinstance(own, dict):
            content[section] = given[section] | own
    if initial.model.positions == "learned" and isinstance(content.get("data"), dict):
        content["data"].setdefault("max_length", initial.data.max_length)  # their number


def _misfits(config: Config, initial: Config, origins: Mapping[KeyPath, str]) -> list[str]:
    """A line for each setting that contradicts the weights to start from; dropout never does."""
    fixed = {f"model.{name}" for name in Model.model_fields if not name.endswith("dropout")}
    fixed |= {"tokenizer.vocabulary_size", "tokenizer.symbols", "tokenizer.model"}
    if config.model.positions == "learned":
        fixed |= {"data.max_length"}
    return [
        f"{key} is {inline(ours)}, {config.training.initialize_from} has "
        f"{inline(theirs)}, {origins[tuple(key.split('.'))]}, leave it out or set it so too"
        for key, (theirs, ours) in differences(initial, config).items()
        if key in fixed
    ]


def validate(content: Any, origins: Mapping[KeyPath, str], name: str) -> Config:
    """Checks a parsed configuration; `origins` tells for each key where it was written."""
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        raise InputError(*described(error, origins, name)) from None


def _read_with_base(path: Path, seen: tuple[str, ...]) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    content, lines = read(path)
    resolved = os.path.realpath(path)
    if resolved in seen:
        raise InputError(f"base: leads back to this file, {path}, break the circle")
    if not isinstance(content, dict):
        raise InputError(f"no settings found, {path}, a mapping of sections was expected")
    origins = {key: f"{path}:{line}" for key, line in lines.items()}
    base = content.pop("base", None)
    if base is None:
        return content, origins
    if not isinstance(base, str):
        raise InputError(f"base must be a file name, {origins[('base',)]}, correct it")
    below, below_origins = _read_with_base(path.parent / base, (*seen, resolved))
    return _merged(below, content), below_origins | origins


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(value, dict) and isinstance(old, dict)
        result[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return result


def _apply(
    override: str, content: dict[str, Any], origins: dict[KeyPath, str], origin: str
) -> None:
    dotted, equals, text = override.partition("=")
    keys = dotted.split(".")
    if not equals or not all(keys):
        raise InputError(f"not an override: {override:.100}, {origin}, write section.key=value")
    value, lines = parse(text, f"{origin}: {dotted}")
    node = content
    for key in keys[:-1]:
        child = node.setdefault(key, {})
        if not isinstance(child, dict):
            child = node[key] = {}
        node = child
    node[keys[-1]] = value
    path: KeyPath = tuple(keys)
    origins.update({path[:n]: origin for n in range(1, len(path)) if path[:n] not in origins})
    origins.update({(*path, *below): origin for below in lines or {(): 1}})
