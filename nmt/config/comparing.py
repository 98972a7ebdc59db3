"""Finds the settings in which two configurations differ."""

from typing import Any

from nmt.config.settings import Config

AUTO = ("training.precision", "training.compile")


def differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Returns a mapping from the dotted key of each changed setting to its old and its new value.

    For the settings in `AUTO`, the value `auto` counts as equal to every other value, because its
    meaning depends on the machine.
    """
    flat_old, flat_new = flatten(old.model_dump()), flatten(new.model_dump())
    keys = list(dict.fromkeys([*flat_old, *flat_new]))
    return {
        key: (flat_old.get(key), flat_new.get(key))
        for key in keys
        if flat_old.get(key) != flat_new.get(key)
        and not (key in AUTO and "auto" in (flat_old.get(key), flat_new.get(key)))
    }


def flatten(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings as a flat mapping from dotted keys to values."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
