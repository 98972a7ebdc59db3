"""Loads a configuration from a file, its base file, overrides and the model to fine-tune.

The key `base` in a configuration file names another file, the base file. The path of the base file
is relative to the folder of the configuration file. A configuration file inherits all settings of
its base file and may override them. Overrides of the form `section.key=value` are applied last. For
fine-tuning, unset keys in the sections `model` and `tokenizer` get their values from the model to
fine-tune. A single error reports all problems of a configuration.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.config.comparing import differences
from nmt.config.problems import described
from nmt.config.settings import Config, Model, with_home
from nmt.config.strict_yaml import KeyPath, inline, parse, read
from nmt.errors import ArgumentError, InputError
from nmt.storage import names


def load(path: str | Path, overrides: Sequence[str] = (), *, origin: str = "overrides") -> Config:
    """Loads the configuration in a file, merged with its base file and the overrides.

    If `training.initialize_from` names a model, unset keys in the sections `model` and `tokenizer`
    get their values from that model. Settings that determine the shapes or the meaning of weights,
    such as `model.d_model`, must have the same values as in the model to fine-tune.

    Args:
        path: path of the YAML file with the configuration.
        overrides: strings of the form `dotted.key=value`, with the value in YAML.
        origin: text that identifies the source of the overrides in error messages.

    Raises:
        InputError: the configuration is not valid. The message has one line per problem, which
            names the file, the line and the key.
    """
    if isinstance(overrides, str):
        raise ArgumentError("{overrides} must be a list of strings, not the string {}.", overrides)
    content, origins = _read_with_base(Path(path), seen=())
    problems: list[str] = []
    for override in overrides:
        try:
            _apply(override, content, origins, origin)
        except InputError as error:
            problems += error.problems
    if isinstance(data := content.get("data"), dict) and data.get("train") == []:
        place = origins.get(("data", "train"), str(path))  # valid only in imported models
        problems.append(f"{place}: data.train is empty. Specify a corpus.")
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


def place_of(key: KeyPath, path: Path, overrides: Sequence[str] = (), origin: str = "") -> str:
    """Returns the file and line that set a key, or `origin` if an override sets the key.

    Args:
        path, overrides, origin: the arguments of an earlier, successful call of `load`.
    """
    content, origins = _read_with_base(path, seen=())
    for override in overrides:
        _apply(override, content, origins, origin)
    return next((origins[key[:n]] for n in range(len(key), 0, -1) if key[:n] in origins), str(path))


def read_merged(path: Path) -> dict[str, Any]:
    """Merges the settings of a configuration file and its base file, without validating them."""
    return _read_with_base(path, seen=())[0]


def load_resolved(path: Path) -> Config:
    """Loads a configuration that `to_yaml` wrote, and rejects the key `base`."""
    content, lines = read(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged: it has no settings. Restore it from a copy.")
    return validate(content, {key: f"{path}:{line}" for key, line in lines.items()}, str(path))


def _initial_config(content: Mapping[str, Any], origins: Mapping[KeyPath, str]) -> Config | None:
    """Returns the configuration of the model that `training.initialize_from` names.

    If the model to fine-tune no longer exists, returns the configuration in
    `training.run_directory`, because a run that was fine-tuned from a model has the same `model`
    and `tokenizer` settings as the model.

    Returns:
        The configuration. The result is None in two cases: `training.initialize_from` does not name
        a model, or no configuration is found, but `content` itself contains the sections `model`
        and `tokenizer`.

    Raises:
        InputError: no configuration is found, and `content` lacks the section `model` or
            `tokenizer`.
    """
    training = content.get("training")
    origin = training.get("initialize_from") if isinstance(training, dict) else None
    if not isinstance(origin, str) or not origin:
        return None
    origin, run = with_home(origin), with_home(str(training.get("run_directory")))  # type: ignore[union-attr]
    folders = (Path(origin), Path(origin, names.MODEL), Path(run))
    for folder in folders:
        if (folder / names.CONFIG).is_file():
            return load_resolved(folder / names.CONFIG)
    if {"model", "tokenizer"} <= content.keys():
        return None
    raise InputError(
        f"{origins[('training', 'initialize_from')]}: training.initialize_from {origin} has no "
        "model to fine-tune. Specify a model, checkpoint or run directory."
    )


def _inherit(content: dict[str, Any], initial: Config) -> None:
    """Copies missing `model` and `tokenizer` settings from the model to fine-tune."""
    given = initial.model_dump()
    for section in ("model", "tokenizer"):
        own = content.setdefault(section, {})
        if isinstance(own, dict):
            content[section] = given[section] | own
    if initial.model.positions == "learned" and isinstance(content.get("data"), dict):
        content["data"].setdefault("max_length", initial.data.max_length)  # number of positions


def _misfits(config: Config, initial: Config, origins: Mapping[KeyPath, str]) -> list[str]:
    """Returns a message for each setting that is incompatible with the model to fine-tune."""
    fixed = {f"model.{name}" for name in Model.model_fields if not name.endswith("dropout")}
    fixed |= {"tokenizer.vocabulary_size", "tokenizer.symbols", "tokenizer.model"}
    if config.model.positions == initial.model.positions == "learned":
        fixed |= {"data.max_length"}
    return [
        f"{origins[tuple(key.split('.'))]}: {key} is {inline(ours)}, but "
        f"{config.training.initialize_from}, which is fine-tuned, has {inline(theirs)}. Set {key} "
        "to the value of that model, or remove it."
        for key, (theirs, ours) in differences(initial, config).items()
        if key in fixed
    ]


def validate(content: Any, origins: Mapping[KeyPath, str], name: str) -> Config:
    """Validates a parsed configuration.

    Args:
        content: the parsed YAML, merged with the base file and the overrides.
        origins: maps each key to the file and line that set it, for error messages.
        name: what error messages call the configuration if a key is not in `origins`.

    Raises:
        InputError: the configuration is not valid. The message has one line per problem.
    """
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        raise InputError(*described(error, origins, name)) from None


def _read_with_base(path: Path, seen: tuple[str, ...]) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    try:
        content, lines = read(path)
    except InputError:
        _refuse_text(path)
        raise
    resolved = os.path.realpath(path)
    if resolved in seen:
        cycle = " -> ".join([*seen[seen.index(resolved) :], resolved])
        raise InputError(
            f'The base files form a cycle: {cycle}. Remove the key "base" from one of them.'
        )
    if not isinstance(content, dict):
        _refuse_text(path)
        raise InputError(f"{path} has no sections. Add sections such as data and training.")
    origins = {key: f"{path}:{line}" for key, line in lines.items()}
    base = content.pop("base", None)
    if base is None:
        return content, origins
    if not isinstance(base, str):
        raise InputError(f"{origins[('base',)]}: base must be a file name.")
    if not (path.parent / base).exists():
        raise InputError(
            f"{origins[('base',)]}: base {path.parent / base} does not exist. Check the path, "
            "which is relative to the directory of the configuration file. To use a "
            "configuration that is shipped with nmt, write it to a file first, for example with "
            '"nmt config multi30k > multi30k.yaml".'
        )
    merged, merged_origins = _read_with_base(path.parent / base, (*seen, resolved))
    _merge(content, (), merged, merged_origins)
    return merged, merged_origins | origins


def _refuse_text(path: Path) -> None:
    """Raises InputError if the file `path` exists, but does not end in .yaml or .yml."""
    if path.is_file() and path.suffix not in (".yaml", ".yml"):
        raise InputError(
            f"{path} is not a configuration. Specify a YAML file that names your text files, such "
            "as the example in docs/data.md."
        )


def _merge(
    above: dict[str, Any], at: KeyPath, merged: dict[str, Any], origins: dict[KeyPath, str]
) -> None:
    """Merges `above` into `merged`; both are values of the configuration's key `at`."""
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            _merge(value, (*at, key), merged[key], origins)
        else:
            _replace(merged, (*at, key), value, origins)


def _replace(node: dict[str, Any], path: KeyPath, value: Any, origins: dict[KeyPath, str]) -> None:
    """Sets the last key of `path` in `node`; removes it and all keys below it from `origins`."""
    node[str(path[-1])] = value
    for key in [key for key in origins if key[: len(path)] == path]:
        del origins[key]


def _apply(
    override: str, content: dict[str, Any], origins: dict[KeyPath, str], origin: str
) -> None:
    dotted, equals, text = override.partition("=")
    dotted = dotted.strip()
    keys = dotted.split(".")
    if not equals or not all(keys):
        raise InputError(
            f"{origin}: {override:.100} is not a valid override. Use the form section.key=value."
        )
    value, lines = parse(text, f"{origin}: {dotted}")
    node, path = content, tuple(keys)
    for n, key in enumerate(keys[:-1], start=1):
        if not isinstance(node.get(key), dict):
            _replace(node, path[:n], {}, origins)
        node = node[key]
    _replace(node, path, value, origins)
    origins.update({path[:n]: origin for n in range(1, len(path)) if path[:n] not in origins})
    origins.update({(*path, *below): origin for below in lines or {(): 1}})
