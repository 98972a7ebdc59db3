"""The wheel, installed outside the checkout, contains all files that the code reads."""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.fixtures.make import copied
from tests.manual import ROOT

PROGRAM = """\
import sys, nmt
from nmt.cli import main
print(nmt.__file__)
run = sys.argv[1]
for command in (
    ["info", "demo.yaml"],
    ["info", run],
    ["attention", run, "--source", "A child.", "--output", "attention.html"],
    ["report", run, "--output", "report.html"],
):
    assert main(command) == 0, command
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the wheel is installed, built from a copy of the source."""
    needed = metadata.metadata("setuptools")["version"] if _has("setuptools") else "0"
    if int(needed.split(".")[0]) < 77 or not _has("pip"):
        pytest.skip("builds need pip and setuptools 77 or later, which are not here")
    place = tmp_path_factory.mktemp("wheel")
    source, target = place / "source", place / "site"
    source.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__")
    for name in ("nmt", "configs"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    offline = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    pip(["wheel", *offline, "--no-build-isolation", "--wheel-dir", str(place), str(source)])
    (wheel,) = place.glob("*.whl")
    pip(["install", *offline, "--target", str(target), str(wheel)])
    return target


def _has(name: str) -> bool:
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


def pip(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def below(folder: Path) -> set[str]:
    """Returns the relative paths of all files, in linked folders too, without compiled files."""
    return {
        str(Path(place, name).relative_to(folder))
        for place, _, names in os.walk(folder, followlinks=True)
        for name in names
        if not name.endswith(".pyc")
    }


def test_every_file_of_the_package_is_in_the_wheel(installed: Path):
    assert below(installed / "nmt") == below(ROOT / "nmt")
    assert (installed / "nmt" / "configs" / "table3" / "base.yaml").is_file()
    assert not (installed / "nmt" / "configs").is_symlink()
    assert not {"tests", "recipes", "configs"} & {path.name for path in installed.iterdir()}


def test_a_checkout_named_nmt_is_imported_from_its_parent_folder(installed: Path, tmp_path: Path):
    """After `pip install -e`, Python must not take the checkout's folder itself for the package."""
    checkout = tmp_path / "nmt"
    shutil.copytree(installed.parent / "source", checkout, symlinks=True)
    build = "from setuptools.build_meta import build_editable; build_editable('built')"
    subprocess.run([sys.executable, "-c", build], cwd=checkout, check=True, capture_output=True)
    (wheel,) = (checkout / "built").glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    find = (
        "import site; site.addsitedir('site');"
        "from importlib.util import find_spec; print(find_spec('nmt').origin)"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", find],
        cwd=tmp_path, env={}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert found.stdout.strip() == str(checkout / "nmt" / "__init__.py")


def test_commands_work_in_any_directory(installed: Path, tmp_path: Path):
    """Outside a checkout, the installed package finds its configurations and page templates."""
    place = copied(tmp_path / "place")
    environment = os.environ | {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    options: dict = {"cwd": place, "env": environment, "capture_output": True, "text": True}
    demo = subprocess.run([sys.executable, "-m", "nmt", "config", "demo"], **options)
    assert demo.returncode == 0, demo.stderr
    assert demo.stdout == (ROOT / "configs" / "demo.yaml").read_text(encoding="utf-8")
    (place / "demo.yaml").write_text(demo.stdout, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PROGRAM, "run"], **options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(installed / "nmt" / "__init__.py")
    for page in ("attention.html", "report.html"):
        assert (place / page).read_text(encoding="utf-8").startswith("<!")
