"""Commands that a signal stops while they write or read."""

import signal
import sys
from pathlib import Path
from types import FrameType

import pytest
import torch

from nmt.cli import main
from nmt.errors import Stopped
from nmt.runs import model_directory
from nmt.signals import stoppable
from nmt.storage import manifest
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_weights_are_read_is_not_damage(
    config, files, hashes, tmp_path: Path, number: signal.Signals
):
    """The signal arrives in a Python function that a buffered reader calls."""
    folder = save_step(tmp_path, 1, config, files, hashes)
    calls = 0

    def stop(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        if event == "call" and frame.f_code is manifest._Hashing.readinto.__code__:
            calls += 1
            if calls == 5:
                sys.setprofile(None)
                signal.raise_signal(number)

    try:
        with pytest.raises(Stopped) as caught, stoppable("Interrupted."):
            sys.setprofile(stop)
            model_directory.load_model(folder, device=torch.device("cpu"))
    finally:
        sys.setprofile(None)
    assert calls == 5
    assert caught.value.status == (130 if number == signal.SIGINT else 143)
