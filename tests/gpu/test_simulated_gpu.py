"""Runs the files `simulated_*.py` together, in one process with a simulated GPU."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nmt.errors import InputError
from recipes.speed.simulated import stub
from tests.manual import ROOT

FILES = sorted(Path(__file__).parent.glob("simulated_*.py"))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[ElementTree.Element]]:
    """Maps each file's name to pytest's results for its tests."""
    folder = tmp_path_factory.mktemp("simulated")
    report = folder / "report.xml"
    options = f"--junitxml={report}", f"--basetemp={folder / 'tmp'}"
    subprocess.run(
        [sys.executable, "-m", "tests.gpu.inside", *options, *map(str, FILES)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    found: dict[str, list[ElementTree.Element]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        found.setdefault(case.get("classname", "").rpartition(".")[2], []).append(case)
    return found


@pytest.mark.skipif(bool(stub.why_not()), reason=str(stub.why_not()))
@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_on_a_simulated_gpu(results, name: str):
    """`python -m tests.gpu.inside tests/gpu/simulated_training.py` runs only that file."""
    cases = results[name]
    problems = [
        f"{case.get('name')}\n{problem.text}"
        for case in cases
        for problem in case
        if problem.tag in ("failure", "error", "skipped")
    ]
    assert len(cases) > 1
    assert not problems, "\n\n".join(problems)


def test_why_no_gpu_is_simulated(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match=r"No C\+\+ compiler was found"):
        stub.load()
    monkeypatch.setattr(stub, "why_not", lambda: None)
    with pytest.raises(InputError, match="must be loaded before torch"):
        stub.load()
