"""What checkpoints and models of the tiny data are made of."""

from pathlib import Path

import pytest

from nmt.config import Config
from nmt.storage import manifest


@pytest.fixture
def config(settings) -> Config:
    return settings()


@pytest.fixture
def tokenizer(tiny_data: Path) -> bytes:
    return (tiny_data / "data" / "tokenizer.model").read_bytes()


@pytest.fixture
def hashes(tiny_data: Path) -> dict[str, str]:
    content = manifest.read(tiny_data / "data", "data")
    return {key: content[key] for key in ("tokenizer_sha256", "data_sha256", "target_symbols")}
