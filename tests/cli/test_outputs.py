"""Paths that `--output` refuses."""

import os
from pathlib import Path

import pytest

from nmt.cli import main
from nmt.storage import atomic, manifest

WORDS = {
    "translate": ["--input", os.devnull, "--output"],
    "report": ["--output"],
    "attention": ["--source", "x", "--output"],
    "evaluate": ["--output"],
}


def refusal(capsys, command: str, output: Path) -> str:
    """Returns the error line for a refused output; the model does not exist, so it comes first."""
    assert main([command, "none", *WORDS[command], str(output)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The files of a run and its data, without valid content."""
    run = tmp_path / "run"
    for name in ("config.yaml", "log.jsonl", "model/model.safetensors", "exp/train/x.arrow",
                 "exp/test_set/target.txt", "exp/tokenizer.model"):  # fmt: skip
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("ours")
    with atomic.lock(run, "nmt train"):
        pass
    for kind in ("model", "exp"):
        manifest.write(run / kind, kind, {})
    return run


@pytest.mark.parametrize(
    "name",
    [
        "config.yaml", "log.jsonl", ".lock", "model/manifest.json", "model/model.safetensors",
        "checkpoints/step-00000001/model.safetensors", "evaluation/test.json",
        "exp/tokenizer.model", "exp/test_set/target.txt", "exp/train/x.arrow", "exp/manifest.json",
        "exp/.used-by/0.json",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["translate", "evaluate", "report"])
def test_files_of_a_run_or_of_data_are_no_output(run: Path, capsys, command: str, name: str):
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    before = files(run)
    line = refusal(capsys, command, run / name)
    assert line.startswith("nmt: error: ") and str(run / name) in line
    assert "is inside" in line
    (run.parent / "link").symlink_to(run / name)
    assert "which nmt manages" in refusal(capsys, command, run.parent / "link")
    assert files(run) == before


@pytest.mark.parametrize(
    "name", ["checkpoints/step-00000099", "model/new", "exp/train", "exp/train/new"]
)
def test_a_mean_of_checkpoints_is_not_put_among_them(run: Path, capsys, name: str):
    """Later commands would take the directory for a damaged checkpoint."""
    if name == "exp/train":
        (run / name / "x.arrow").unlink()
    before = files(run)
    assert main(["average", str(run), "--last", "1", "--output", str(run / name)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("nmt: error: ") and "is inside " in line
    assert f"--output {run / name} is" in line
    assert files(run) == before


@pytest.mark.parametrize("name", ["test.de", "exp/test.de", "configs/config.yaml"])
def test_beside_them_there_is_room(run: Path, capsys, name: str):
    (run / name).parent.mkdir(exist_ok=True)
    assert "There is no model directory" in refusal(capsys, "translate", run / name)


@pytest.mark.parametrize("command", WORDS)
def test_a_link_that_leads_nowhere_is_no_output(tmp_path: Path, capsys, command: str):
    loop, lost = tmp_path / "loop.html", tmp_path / "lost.html"
    loop.symlink_to(loop.name)
    lost.symlink_to("gone/file.html")
    assert f"--output {loop} is a symbolic link to itself" in refusal(capsys, command, loop)
    assert f"{tmp_path}/gone for --output does not exist" in refusal(capsys, command, lost)
    assert loop.is_symlink() and lost.is_symlink()
