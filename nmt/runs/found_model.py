"""Defines a model or checkpoint that was found but not yet loaded, without importing torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import Config


@dataclass(frozen=True)
class FoundModel:
    """The directory of a model or checkpoint, with its manifest and configuration."""

    directory: Path
    manifest: dict[str, Any]
    config: Config

    @property
    def step(self) -> int:
        """Returns the number of optimizer steps."""
        return int(self.manifest["step"])
