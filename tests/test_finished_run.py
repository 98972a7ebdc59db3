"""Commands on a finished run: `nmt average` and `nmt report`, also on a full disk."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nmt.cli import main
from nmt.config import validate
from nmt.training.train import train
from tests.full_disk import full_disk
from tests.tiny import tiny_settings


@pytest.fixture(scope="module")
def trained(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps with a checkpoint after each; the model is the mean of the last two."""
    content = tiny_settings(tiny_data)
    directory = tmp_path_factory.mktemp("finished") / "run"
    content["training"] |= {
        "run_directory": str(directory), "max_steps": 4, "checkpoint_every": 1,
        "keep_checkpoints": 4, "validate_every": 4,
    }  # fmt: skip
    train(validate(content, {}, "tiny"), lambda line: None)
    return directory


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_average_writes_the_mean_as_a_model(run: Path, tmp_path: Path, capsys):
    averaged, text = tmp_path / "averaged", tmp_path / "text"
    assert main(["average", str(run), "--last", "3", "--output", str(averaged)]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.endswith(
        f"Wrote {averaged}: the mean of the checkpoints of steps 2, 3, 4.\n"
    )
    steps = [weights(run / f"checkpoints/step-0000000{step}") for step in (2, 3, 4)]
    for name, value in weights(averaged).items():
        mean = torch.stack([step[name].double() for step in steps]).mean(0)
        torch.testing.assert_close(value.double(), mean, atol=1e-7, rtol=1e-6)
    two = tmp_path / "two"
    assert main(["average", str(run), "--last", "2", "--output", str(two)]) == 0
    assert weights(two).keys() == weights(run / "model").keys()
    assert all(torch.equal(value, weights(two)[k]) for k, value in weights(run / "model").items())
    text.write_text("The dog sees a cat.\n")
    arguments = ["--input", str(text), "--output", str(tmp_path / "out")]
    assert main(["translate", str(averaged), *arguments]) == 0
    assert (tmp_path / "out").read_bytes().count(b"\n") == 1
    assert main(["average", str(run), "--last", "5", "--output", str(tmp_path / "five")]) == 2
    assert not (tmp_path / "five").exists()


def test_report_writes_one_page_of_several_runs(run: Path, tmp_path: Path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(run), f"{run}/../run", "--output", str(page)]) == 0
    assert (run / "evaluation/test.json").is_file()
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.endswith(f"Wrote {page}.\n")
    one = page.read_text()
    assert one.startswith("<!DOCTYPE html>") and one.rstrip().endswith("</html>")
    shutil.copytree(run, tmp_path / "other")
    assert main(["report", str(run), str(tmp_path / "other"), "--output", str(page)]) == 0
    assert "Settings in which the runs differ" in page.read_text()
    assert "Settings in which the runs differ" not in one  # two paths of the same run
    assert not list(tmp_path.rglob(".tmp-*"))


def test_r12_a_full_disk_leaves_no_partial_output(run: Path, tmp_path: Path, capsys):
    """Checks the translations, the averaged weights, and a report's scores and page."""
    before = sorted(path for path in tmp_path.rglob("*") if not path.name.startswith(".lock"))
    out, averaged, page = (str(tmp_path / name) for name in ("out", "averaged", "page.html"))
    commands = [
        (["evaluate", str(run), "--output", out], 10),
        (["average", str(run), "--last", "2", "--output", averaged], 10_000),
        (["report", str(run), "--output", page], 1000),
    ]
    for arguments, room in commands:
        with full_disk(room):
            assert main(arguments) == 5, arguments
        errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
        assert len(errors) == 1 and errors[0].startswith("nmt: error: "), arguments
        after = [path for path in tmp_path.rglob("*") if not path.name.startswith(".lock")]
        assert sorted(p for p in after if p.name != "evaluation") == before, arguments
    for arguments, _ in commands:
        assert main(arguments) == 0
    former = Path(page).read_bytes()
    with full_disk(10_000):  # the page is larger; the scores are already saved
        assert main(commands[2][0]) == 5
    assert Path(page).read_bytes() == former
