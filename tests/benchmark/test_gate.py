"""Measurements in slow phases are repeated, a limited number of times, with a simulated clock."""

import pytest

from nmt.benchmark import gate
from nmt.benchmark.gate import Gate


class Machine:
    """A probe that takes one second and returns `rate` of the current time."""

    def __init__(self, rate):
        self.rate, self.now, self.measured = rate, 0.0, []

    def probe(self) -> float:
        self.now += 1
        return self.rate(self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def measure(self) -> tuple[float, list[float]]:
        """Takes ten seconds and returns its start time."""
        self.measured.append(self.now)
        self.now += 10
        return self.measured[-1], []

    def gate(self) -> Gate:
        return Gate(self.probe, self.sleep)


def test_a_steady_machine_measures_once():
    machine = Machine(lambda now: 100 - now % 2)
    found = machine.gate().measured(machine.measure, 4)
    assert (found.kept, found.dropped) == (machine.measured, 0)
    assert len(machine.measured) == 4


def test_what_ends_or_begins_in_a_slow_phase_is_measured_again():
    machine = Machine(lambda now: 40.0 if 20 < now < 40 else 100.0)
    found = machine.gate().measured(machine.measure, 3)
    first, second, *others = machine.measured
    assert second < 20 < second + 10 < 40 < others[0]  # waits until the slow phase is over
    assert (found.kept, found.dropped) == ([first, *others], 1)
    assert len(others) == 2


def test_what_was_slow_shows_once_the_machine_is_faster():
    machine = Machine(lambda now: 40.0 if now < 30 else 100.0)
    found = machine.gate().measured(machine.measure, 3)
    assert all(began > 20 for began in found.kept)
    assert len(found.kept) == 3 and found.dropped == len(machine.measured) - 3 > 0


def test_a_machine_that_stays_slow_is_measured_in_the_end():
    machine = Machine(lambda now: 100.0 if now < 6 else 20 + now / 1000)
    found = machine.gate().measured(machine.measure, 4)
    assert len(machine.measured) == 12 == found.dropped + 1
    assert found.kept == machine.measured[-1:]  # measured in the fastest of the slow phases
    assert machine.now < 12 * 12 + gate._PATIENCE_S * (1 + 1 / gate._PAUSE_S) + 20


def test_rates_in_between_count():
    machine = Machine(lambda now: 100.0)
    rates = iter([[100.0, 79.0], [100.0, 81.0]])
    found = machine.gate().measured(lambda: (machine.measure()[0], next(rates)), 1)
    assert (found.kept, found.dropped) == (machine.measured[1:], 1)


@pytest.mark.parametrize(("rate", "is_slow"), [(79.9, True), (80.1, False)])
def test_slow_is_below_four_fifths_of_the_best(rate: float, is_slow: bool):
    assert Machine(lambda now: 100.0).gate().is_slow(rate) is is_slow
