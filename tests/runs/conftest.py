"""Fixtures with the parts of a checkpoint or model of the tiny data."""

from pathlib import Path

import pytest

from nmt.config import Config
from nmt.storage import manifest
from nmt.storage.names import TOKENIZER


@pytest.fixture
def config(settings) -> Config:
    return settings()


@pytest.fixture
def files(tiny_data: Path) -> dict[str, bytes]:
    return {TOKENIZER: (tiny_data / "data" / TOKENIZER).read_bytes()}


@pytest.fixture
def hashes(tiny_data: Path) -> dict[str, str]:
    content = manifest.read(tiny_data / "data", "data")
    return {key: content[key] for key in ("tokenizer_sha256", "data_sha256", "target_symbols")}
