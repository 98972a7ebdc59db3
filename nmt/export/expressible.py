"""Checks which settings of a model an export format can express."""

from collections.abc import Collection, Mapping
from typing import Any

from nmt.config import Config, Model
from nmt.errors import InputError


def refuse_inexpressible(
    config: Config, expressed: Mapping[str, Collection[Any] | None], engine: str
) -> None:
    """Refuses a model with a setting that the export does not express in the other format.

    A setting that is not listed must have its default. An export therefore refuses settings that
    are added to the model later, until the export supports them.

    Args:
        expressed: supported values by name of the setting; None for any value.
        engine: name of the program that reads the format, for the message.

    Raises:
        InputError: a setting cannot be expressed.
    """
    for name, field in Model.model_fields.items():
        value = getattr(config.model, name)
        allowed = expressed.get(name, (field.default,))
        if allowed is not None and value not in allowed:
            raise InputError(
                f"{engine} does not support model.{name}: {value}. Translate with nmt instead."
            )
