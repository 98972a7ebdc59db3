"""What several tests need: a small prepared data set, a small configuration, one thread."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, here and in children

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nmt.config import Config, validate
from nmt.data.prepare import prepare

Settings = Callable[..., Config]


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny matrices on many threads are slow where other processes want the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tiny_settings(directory: Path) -> dict:
    """A configuration as a file would hold it: 2 + 2 layers, a vocabulary of 400."""
    return {
        "data": {
            "directory": str(directory / "data"),
            "source_language": "en",
            "target_language": "de",
            "max_length": 100,
            "train": [{"demo": {"pairs": 200, "seed": 1}}],
            "validation": [{"demo": {"pairs": 20, "seed": 1}}],
            "test": [{"demo": {"pairs": 20, "seed": 1}}],
        },
        "tokenizer": {"vocabulary_size": 400},
        "model": {
            "encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "d_ff": 64,
            "heads": 2, "d_k": 12, "d_v": 20,
        },
        "training": {
            "run_directory": str(directory / "run"),
            "max_steps": 12, "batch_tokens": 400, "warmup_steps": 10, "checkpoint_every": 4,
            "keep_checkpoints": 3, "average_last": 2, "validate_every": 6, "log_every": 1,
            "deterministic": True,
        },
        "decoding": {"beam": 2, "max_extra_length": 10},
    }  # fmt: skip


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose data/ is prepared for `tiny_settings`."""
    directory = tmp_path_factory.mktemp("tiny")
    prepare(validate(tiny_settings(directory), {}, "tiny"), report=lambda line: None)
    return directory


@pytest.fixture
def settings(tiny_data: Path, tmp_path: Path) -> Settings:
    """A configuration on the prepared tiny data, a run in a folder of the test's own.

    Keyword arguments are dotted keys with two underscores for the dot: training__max_steps=3.
    """

    def make(**changes) -> Config:
        content = tiny_settings(tiny_data)
        content["training"]["run_directory"] = str(tmp_path / "run")
        for key, value in changes.items():
            section, name = key.split("__")
            content[section][name] = value
        return validate(content, {}, "tiny")

    return make
