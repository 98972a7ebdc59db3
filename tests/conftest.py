"""Fixtures for all tests: small prepared data, a small configuration, one thread, no GPU.

Fixtures import torch and nmt late, because pytest-xdist's main process, which runs no tests, waits
for this module before it starts its workers.
"""

import os

# must be set before torch is imported, here and in child processes
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NMT_TESTS_GPUS", os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # `tests.gpus` makes GPUs visible to some processes

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.tiny import one_pixel, tiny_settings

if TYPE_CHECKING:
    from nmt.config import Config

Settings = Callable[..., "Config"]

# no deadlines, because the machine may be slow; derandomized, so that all machines run the same
# examples
hypothesis_settings.register_profile(
    "unhurried", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def one_thread():
    """Uses one thread, because tiny matrices on many threads are slow if other processes use the
    cores.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", autouse=True)
def little_work():
    """Makes tiny runs faster: data is prepared without worker processes, as starting them takes
    longer, validations write a single pixel, because matplotlib takes a third of the time, and
    files are not flushed to disk, which only a power failure could notice.
    """
    from nmt.data import workers
    from nmt.training import validation

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "default_processes", lambda: 1)
        patch.setattr(validation, "write_png", one_pixel)
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose data/ holds the prepared data of `tiny_settings`."""
    from nmt.config import validate
    from nmt.data.prepare import prepare

    directory = tmp_path_factory.mktemp("tiny")
    config = validate(tiny_settings(directory), {}, "tiny")
    prepare(config, note=lambda line: None)
    return directory


def make_settings(data: Path, folder: Path, **changes) -> "Config":
    """Returns a configuration that uses the prepared data in `data` and the run directory in
    `folder`.

    Keyword arguments are dotted keys with two underscores for the dot: training__max_steps=3.
    """
    from nmt.config import validate

    content = tiny_settings(data)
    content["training"]["run_directory"] = str(folder / "run")
    for key, value in changes.items():
        section, name = key.split("__")
        content[section][name] = value
    return validate(content, {}, "tiny")


@pytest.fixture
def settings(tiny_data: Path, tmp_path: Path) -> Settings:
    """`make_settings` with the prepared tiny data and a run directory in the test's `tmp_path`."""
    return partial(make_settings, tiny_data, tmp_path)


# Files that take more than about four seconds, the slowest first. A worker gets whole files, so all
# workers end at about the same time only if the last files are short. `pytest --durations=0` lists
# the durations.
_LONG = [
    "test_fast_paths.py", "test_ranks.py", "test_simulated_gpu.py", "test_faults.py",
    "test_documents.py", "test_cli.py", "test_page.py", "test_prepare_interrupted.py",
    "test_train.py",
    "test_gpu.py", "test_export.py", "test_speed.py", "test_compiling.py", "test_run_directory.py",
    "test_max_hours.py", "test_translator.py", "test_hostile_models.py",
    "test_validating_on_a_gpu.py", "test_prepare.py", "test_asynchronous.py",
    "test_serve_command.py", "test_report.py", "test_bleu.py", "test_wheel.py",
    "test_architecture.py", "test_health.py", "test_on_a_gpu.py", "test_table3.py",
    "test_checkpoint.py", "test_telling.py", "test_glossary.py", "test_paper_figures.py",
    "test_scaling.py", "test_sentences.py", "test_learning.py", "test_symbols.py",
    "test_extras.py",
]  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the slowest test files first."""
    places = {name: place for place, name in enumerate(_LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
