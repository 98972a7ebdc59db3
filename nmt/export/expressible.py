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
    """Raises InputError if an export format does not support one of the model's settings.

    A setting that is not in `expressed` must have its default value. Therefore a model that uses a
    newly introduced setting is rejected until the export supports this setting.

    Args:
        expressed: maps the name of each supported setting to its supported values, or to None if
            every value is supported.
        engine: name of the program for which the model is exported, for the error message.
        remedy: the last sentence of the error message.

    Raises:
        InputError: the export format does not support a setting.
    """
    for name, field in Model.model_fields.items():
        value = getattr(config.model, name)
        allowed = expressed.get(name, (field.default,))
        if allowed is not None and value not in allowed:
            raise InputError(f"{engine} does not support model.{name}: {value}. {remedy}")
