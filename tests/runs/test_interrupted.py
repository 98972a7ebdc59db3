"""Commands that are stopped by a signal while they write."""

import signal
from pathlib import Path

import pytest

from nmt.cli import main
from nmt.runs import model_directory
from nmt.translator import Translator
from tests.runs.steps import save_step


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT])
@pytest.mark.parametrize("command", ["translate", "average"])
def test_a_signal_leaves_nothing_of_what_was_being_written(
    config, files, hashes, tmp_path: Path, monkeypatch, capsys, command: str, number
):
    def stop(*arguments, **options):
        assert list(place.glob(".tmp-*"))
        signal.raise_signal(number)

    run, place, text = tmp_path / "run", tmp_path / "place", tmp_path / "text"
    place.mkdir()
    text.write_text("The man reads.\n")
    save_step(run, 1, config, files, hashes)
    monkeypatch.setattr(Translator, "n_best", stop)
    monkeypatch.setattr(model_directory, "write_tensors", stop)
    options = {"translate": ["--input", str(text)], "average": ["--last", "1"]}[command]
    status = main([command, str(run), *options, "--output", str(place / "out")])
    assert status == (130 if number == signal.SIGINT else 143)
    assert capsys.readouterr().err.splitlines()[-1] == "nmt: Interrupted."
    assert list(place.iterdir()) == []
