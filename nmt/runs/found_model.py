"""Describes models that have not been loaded.

This module does not import torch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import Config, load_resolved
from nmt.errors import InputError, NoModelError
from nmt.storage.names import CONFIG


@dataclass(frozen=True)
class FoundModel:
    """The directory, the manifest and the configuration of a model or checkpoint."""

    directory: Path
    manifest: dict[str, Any]
    config: Config

    @property
    def step(self) -> int:
        """Returns the number of optimizer steps that the model was trained for."""
        return int(self.manifest["step"])


def read_config(folder: Path) -> Config:
    """Returns a model directory's configuration; raises NoModelError if the file is invalid."""
    try:
        return load_resolved(folder / CONFIG)
    except InputError as error:
        raise NoModelError(*error.problems) from None
