"""Checks on a GPU, skipped without one: `python -m pytest -n 0 -s tests/training/test_gpu.py`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests import gpus
from tests.conftest import make_settings
from tests.training import children
from tests.training.gpu_checks import CHECKS, Check, Place

ROOT = Path(__file__).parents[2]


def with_settings(data: Path, folder: Path, **changes) -> Path:
    """Writes the settings of the checks."""
    (folder / "config.yaml").write_text(make_settings(data, folder, **changes).to_yaml())
    return folder


@pytest.fixture(scope="module")
def folder(tiny_data, tmp_path_factory) -> Path:
    """Settings with which the checks take little time on a CPU, where they only test themselves."""
    little = {
        "model__encoder_layers": 1, "model__decoder_layers": 1, "decoding__beam": 1,
        "decoding__max_extra_length": 0, "training__batch_tokens": 200,
    }  # fmt: skip
    return with_settings(tiny_data, tmp_path_factory.mktemp("checks"), **little)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_checks_of_a_gpu_hold_on_a_cpu(folder, check: Check):
    check(Place(torch.device("cpu"), folder))


@pytest.mark.skipif(not gpus.count(), reason="no GPU")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_a_gpu(tiny_data, tmp_path, check: Check):
    if gpus.count() < CHECKS[check]:
        pytest.skip(f"needs {CHECKS[check]} GPUs")
    with_settings(tiny_data, tmp_path)
    command = [sys.executable, "-m", "tests.training.gpu_checks", check.__name__, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=gpus.environment(), capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr


def test_other_tests_and_their_children_see_no_gpu(tmp_path):
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert not torch.cuda.is_available()
    file = tmp_path / "seen"
    children.nmt("--version", directory=tmp_path / "said", fault=Seen(file)).wait()
    assert file.read_text() == "''"


class Seen:
    """Writes the GPUs that are visible to a child process to a file."""

    def __init__(self, file: Path):
        self.file = file

    def __call__(self) -> None:
        self.file.write_text(repr(os.environ.get("CUDA_VISIBLE_DEVICES")))


@pytest.mark.parametrize(("given", "seen"), [("all", None), ("", ""), ("2,3", "2,3")])
def test_checks_see_the_gpus_that_pytest_was_given(monkeypatch, given: str, seen: str | None):
    monkeypatch.setenv("NMT_TESTS_GPUS", given)
    assert gpus.environment().get("CUDA_VISIBLE_DEVICES") == seen


def test_a_pytest_process_hides_its_gpus_and_knows_which(monkeypatch):
    """This also holds for a worker of pytest, which starts with hidden GPUs."""
    monkeypatch.delenv("NMT_TESTS_GPUS")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    conftest = (ROOT / "tests" / "conftest.py").read_text()
    before_imports, imports, _ = conftest.partition("\nfrom ")
    assert imports and "torch" not in re.findall(r"^import (.+)$", before_imports, re.M)
    for _ in range(2):
        exec(before_imports, {})  # noqa: S102
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "" and os.environ["NMT_TESTS_GPUS"] == "2,3"
