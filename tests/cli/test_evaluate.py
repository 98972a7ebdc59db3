"""`nmt evaluate` names the flags that exclude each other, before it reads anything."""

import pytest

from nmt.cli import main

OF_TRANSLATING = ("--beam 5", "--length-penalty 1", "--batch-tokens 9", "--device cpu",
                  "--precision bf16")  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m --source s", "--source requires --reference"),
        ("m --reference r", "--reference requires --source"),
        ("m --reference r --test-set x", "--reference conflicts with --test-set"),
        ("m --source s --reference r --hypothesis h", "--source conflicts with --hypothesis"),
        ("m --hypothesis h --reference r --comet", "--comet requires --source"),
        ("m --hypothesis h --reference r --analysis", "--analysis requires --source"),
        (
            "--hypothesis h --reference r --target-language de --contrastive c",
            "--contrastive requires MODEL",
        ),
        (
            "--source s --reference r",
            "nothing to score. Add MODEL or --hypothesis",
        ),
        (
            "m --hypothesis h --source s --reference r --analysis --device cpu",
            "no model directory m",
        ),
        ("--hypothesis h", "Add --reference or --test-set"),
        ("--hypothesis h --reference r", "Add --target-language or MODEL"),
        *(
            (f"m --hypothesis h {option}", f"Remove {option.split()[0]}.")
            for option in OF_TRANSLATING
        ),
    ],
)
def test_what_does_not_go_together(line: str, message: str, capsys):
    assert main(["evaluate", *line.split()]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("m --output none/out", "Directory {}/none for --output does not exist."),
        ("nowhere", "There is no model directory nowhere. "),
        ("mine.yaml", "mine.yaml is a configuration, not a model. Specify its training.run_direc"),
        ("m/model.safetensors", "m/model.safetensors is a file. Specify a model, checkpoint or "
         "run, such as m."),
        ("--hypothesis h --reference r --target-language german",
         "--target-language german is not an ISO 639 language code. Did you mean de?"),
        ("--hypothesis h --test-set wmt99 --target-language de",
         "--test-set: Unknown test set wmt99. "),
    ],
)  # fmt: skip
def test_the_librarys_parameters_are_named_as_flags(line: str, message: str, capsys, tmp_path,
                                                    monkeypatch):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    for name in ("mine.yaml", "m/model.safetensors"):
        (tmp_path / name).touch()
    assert main(["evaluate", *line.split()]) == 2
    message = message.replace("{}", str(tmp_path))
    assert capsys.readouterr().err.startswith(f"nmt: error: {message}")


def test_model_may_stand_behind_the_references(capsys, tmp_path, monkeypatch):
    """A directory is not a reference, so `--reference F MODEL` works with several references."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r").write_text("Ja.\n")
    for references in ("r", "r r"):
        line = f"--source r --reference {references} {tmp_path} --device none"
        assert main(["evaluate", *line.split()]) == 3
        assert f"{tmp_path} is not a model, checkpoint or run" in capsys.readouterr().err
