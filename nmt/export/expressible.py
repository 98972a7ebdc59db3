"""Checks whether an export format supports all settings of a model."""

from collections.abc import Collection, Mapping
from typing import Any

from nmt.config import Config, Model
from nmt.errors import InputError


def refuse_inexpressible(
    config: Config,
    expressed: Mapping[str, Collection[Any] | None],
    engine: str,
    remedy: str = "Translate with nmt instead.",
) -> None:
    """Raises InputError if another program does not support a setting of the model.

    A setting that is not in `expressed` must have its default value. If nmt adds a setting, models
    that use it are therefore rejected until the export supports the setting.

    Args:
        expressed: maps the name of each supported setting to its supported values, or to None if
            every value is supported.
        engine: name of the other program, for the error message.
        remedy: the last sentence of the error message.

    Raises:
        InputError: a setting is not supported.
    """
    for name, field in Model.model_fields.items():
        value = getattr(config.model, name)
        allowed = expressed.get(name, (field.default,))
        if allowed is not None and value not in allowed:
            raise InputError(f"{engine} does not support model.{name}: {value}. {remedy}")
