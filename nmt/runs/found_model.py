"""Defines `FoundModel`, which describes a model that has not been loaded.

This module does not import torch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import Config


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
