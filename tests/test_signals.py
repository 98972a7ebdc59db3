"""Who hears the signals that ask to stop."""

import signal

import pytest

from nmt.errors import Stopped
from nmt.signals import STOP, stoppable


@pytest.mark.parametrize("number", STOP)
def test_each_signal_stops_a_block_and_only_it(number: signal.Signals):
    former = [signal.getsignal(each) for each in STOP]
    with pytest.raises(Stopped, match="saved") as caught, stoppable("saved"):
        signal.raise_signal(number)
    assert caught.value.status == (130 if number == signal.SIGINT else 143)
    assert [signal.getsignal(each) for each in STOP] == former


def test_nohup_keeps_its_promise():
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable("saved"):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)
