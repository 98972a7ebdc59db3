"""Handlers of the signals that ask a process to stop."""

import importlib
import signal
import time

import pytest

from nmt import signals
from nmt.errors import Stopped
from nmt.signals import STOP, stoppable
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("number", STOP)
def test_each_signal_stops_only_its_block(number: signal.Signals):
    former = [signal.getsignal(each) for each in STOP]
    with pytest.raises(Stopped, match="saved") as caught, stoppable("saved"):
        signal.raise_signal(number)
    assert caught.value.status == (130 if number == signal.SIGINT else 143)
    assert [signal.getsignal(each) for each in STOP] == former


def test_nohup_still_ignores_hangups():
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable("saved"):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)


@pytest.mark.parametrize("patience_s", [PATIENCE_S, 0])
def test_an_import_in_progress_is_finished_first(patience_s, tmp_path, monkeypatch):
    """Stopped could crash an import in progress and is raised after it; the wait is limited."""
    monkeypatch.setattr(signals, "_LONGEST_IMPORT_S", patience_s)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"interrupted_{bool(patience_s)}"
    done, text = tmp_path / "done", "import signal, pathlib; signal.raise_signal(signal.SIGTERM)"
    (tmp_path / f"{name}.py").write_text(f"{text}; pathlib.Path({str(done)!r}).touch()")
    with pytest.raises(Stopped) as caught, stoppable("stopped"):
        importlib.import_module(name)
        time.sleep(PATIENCE_S)
    assert caught.value.status == 143
    assert done.exists() == bool(patience_s)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
