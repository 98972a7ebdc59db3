"""Commands work without the packages of the extras, or name the extra that is missing."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from nmt.cli import _EXTRAS, COMMANDS
from nmt.cli.parser import parse
from tests.fixtures.make import copied
from tests.manual import ROOT

PROGRAM = """\
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import contextlib, io, pathlib
from nmt import Translator
from nmt.cli import main
found = Translator.load("run", device="cpu").translate("A child.", attention=True, align=True)
assert found.text
for command in sys.stdin.read().splitlines():
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        status = main(command.split())
    print(status, command.split()[0], said.getvalue().splitlines()[-1:])
"""
WITHOUT_EXTRAS = """\
translate run --input text --output translated --mbr 4 --alignment links
score run --source text --target text
average run --last 2 --output averaged
attention run --source A --output attention.html
info run
info demo.yaml
config
"""
WITH_EXTRAS = {
    "prepare demo.yaml": "train",
    "train demo.yaml": "train",
    "evaluate run": "train",
    "report run --output report.html": "train",
    "benchmark train demo.yaml": "train",
    "benchmark translate run": "train",
    "attention run --source A --output attention.png": "plots",
    "serve run --port 0": "serve",
    "export run --format ctranslate2 --output exported": "ctranslate2",
    "export run --format huggingface --output exported": "huggingface",
}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def packages(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[]", each)[0] for each in requirements}


def test_translation_needs_no_extra_and_other_commands_name_theirs(tmp_path: Path):
    """No package of an extra can be imported; commands report that before they write anything."""
    place = copied(tmp_path / "place")
    (place / "text").write_text("The dog sees a cat.\n", encoding="utf-8")
    demo = (ROOT / "configs" / "demo.yaml").read_text(encoding="utf-8")
    (place / "demo.yaml").write_text(demo, encoding="utf-8")
    before = {*place.iterdir()}
    missing = ",".join(sorted({name for each in _EXTRAS.values() for name in each}))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, missing], cwd=place, text=True, capture_output=True,
        input=WITHOUT_EXTRAS + "\n".join(WITH_EXTRAS),
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    n = len(WITHOUT_EXTRAS.splitlines())
    assert [line.split()[0] for line in told[:n]] == ["0"] * n, told
    for line, extra in zip(told[n:], WITH_EXTRAS.values(), strict=True):
        assert line.startswith("2 "), line
        assert f"pip install 'nmt[{extra}]'" in line.replace("\\", ""), line
        assert line.count("nmt: error: ") == 1 and "is not installed" in line
    made = {path.name for path in {*place.iterdir()} - before}
    assert made == {"translated", "links", "averaged", "attention.html"}


def test_pyproject_declares_the_packages_of_each_extra():
    extras = {name: packages(each) for name, each in project()["optional-dependencies"].items()}
    for name, modules in _EXTRAS.items():
        assert extras[name] - {"nmt"} == set(modules)
    assert not packages(project()["dependencies"]) & {*sum(_EXTRAS.values(), ())}
    [all_of_them] = [each for each in project()["optional-dependencies"]["dev"] if "nmt[" in each]
    assert set(all_of_them[4:-1].split(",")) == {*_EXTRAS}


def test_the_image_has_what_serving_an_export_needs():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    [installed] = re.findall(r"--constraint \S+ +([^&]*?) +&&", text)
    without = {"torch", "safetensors"}  # not for exports, see test_exported.py
    wanted = packages(project()["dependencies"]) - without
    for extra in ("ctranslate2", "serve"):
        wanted |= packages(project()["optional-dependencies"][extra])
    assert set(installed.split()) == wanted
    entry, command = map(json.loads, re.findall("^(?:ENTRYPOINT|CMD) (.*)$", text, re.M))
    assert entry[0] == "nmt"
    assert parse(COMMANDS, entry[1:] + command).host == "0.0.0.0"
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name in ("nmt", "configs", "pyproject.toml", "README.md", "LICENSE", "constraints.txt"):
        assert f"!{name}" in ignored
