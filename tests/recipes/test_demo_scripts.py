"""The scripts show.py and stand_in.py. The test of `make demo` runs show.py completely."""

import runpy
import sys
from pathlib import Path

import pytest

from nmt.errors import InputError
from recipes.back_translation import halves
from recipes.demo import show
from recipes.paper_figures import paper_figures
from recipes.table3 import table3
from recipes.your_own_text import stand_in
from tests.fixtures.make import TRAINED


def test_show_refuses_a_run_of_something_else(tmp_path: Path):
    run = TRAINED / "run"
    with pytest.raises(InputError, match="no demo test set"):
        show.main([str(run)])
    with pytest.raises(InputError, match="There is no model directory"):
        show.main([str(tmp_path / "nothing")])


@pytest.mark.parametrize("script", [show, stand_in, halves, paper_figures, table3])
def test_help_is_no_folder(script, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        script.main(["--help"])
    assert end.value.code == 0
    assert "usage: " in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("script", [stand_in, halves])
def test_a_file_instead_of_a_folder_is_said_in_one_line(
    script, tmp_path: Path, monkeypatch, capsys
):
    (tmp_path / "a").write_text("a\n")
    names = ["a"] if script == stand_in else ["a", "a", "a/new/b"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["script", *names])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(script.__file__, run_name="__main__")
    [line] = capsys.readouterr().err.splitlines()
    assert end.value.code == 2 and ": error: " in line


def test_stand_in_files_are_of_two_domains(tmp_path: Path, monkeypatch):
    sizes = {"train": 40, "valid": 8, "test": 9}
    monkeypatch.setattr(stand_in, "SIZES", dict.fromkeys(stand_in.SIZES, sizes))
    stand_in.main([str(tmp_path / "text")])
    lines = {
        path.name: path.read_text(encoding="utf-8").splitlines()
        for path in (tmp_path / "text").iterdir()
    }
    assert len(lines) == 12
    for name, found in lines.items():
        domain, split, _ = name.split(".")
        assert len(found) == sizes[split]
        assert {line.endswith("?") for line in found} == {domain == "questions"}
    for domain in ("general", "questions"):
        pairs = [
            set(zip(lines[f"{domain}.{split}.en"], lines[f"{domain}.{split}.de"], strict=True))
            for split in sizes
        ]
        assert not (pairs[0] & pairs[1] or pairs[0] & pairs[2] or pairs[1] & pairs[2])


def test_halves_are_every_other_pair(tmp_path: Path):
    for language in ("en", "de"):
        lines = [f"{language} {i}\n" for i in range(7)]
        (tmp_path / f"a.{language}").write_text("".join(lines), encoding="utf-8")
    halves.main([f"{tmp_path}/a.en", f"{tmp_path}/a.de", f"{tmp_path}/new/b"])
    found = {
        path.name: path.read_text(encoding="utf-8").split() for path in (tmp_path / "new").iterdir()
    }
    assert found == {
        "b.half.en": ["en", "0", "en", "2", "en", "4", "en", "6"],
        "b.half.de": ["de", "0", "de", "2", "de", "4", "de", "6"],
        "b.mono.de": ["de", "1", "de", "3", "de", "5"],
    }
    (tmp_path / "a.de").write_text("de 0\n")
    with pytest.raises(InputError, match=r"a\.en has 7 source lines, but .*a\.de has 1 ref"):
        halves.main([f"{tmp_path}/a.en", f"{tmp_path}/a.de", f"{tmp_path}/new/b"])
