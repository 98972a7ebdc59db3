"""Excludes slow phases of a machine from measurements.

On a shared, overheated or virtual machine, everything may take twice as long for some time. A
matrix product of fixed size, the probe, is timed before and after every measurement. A measurement
that began or ended in a slow phase is repeated.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

FAST = 0.8  # share of the probe's best rate; below it the phase is slow
_ATTEMPTS = 3  # maximum measurements per wanted one
_PATIENCE_S = 60.0  # maximum total wait for slow phases to pass
_PAUSE_S = 0.5

T = TypeVar("T")


@dataclass(frozen=True)
class Gated(Generic[T]):
    """The measurements taken while the machine ran at full speed."""

    kept: list[T]  # at least one
    dropped: int
    slowest: float  # lowest rate of the probe around those kept


class Gate:
    """Selects, by a probe, the measurements taken while the machine ran at full speed.

    Args:
        probe: does a fixed amount of work and returns its rate.
        sleep: waits for a number of seconds.
        best: the probe's highest rate so far, if it is known.

    Attributes:
        best: the probe's highest rate so far.
    """

    def __init__(
        self,
        probe: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
        best: float = 0.0,
    ):
        self._probe, self._sleep = probe, sleep
        self._patience_s = _PATIENCE_S
        self.best = best
        for _ in range(5):
            self.rate()

    def rate(self) -> float:
        """Runs the probe and returns its rate."""
        now = self._probe()
        self.best = max(self.best, now)
        return now

    def is_slow(self, rate: float) -> bool:
        """Returns whether a rate indicates a slow phase."""
        return rate < FAST * self.best

    def wait(self) -> float:
        """Waits until the machine is fast or the patience is used up; returns the probe's rate."""
        rate = self.rate()
        while self.is_slow(rate) and self._patience_s > 0:
            self._sleep(_PAUSE_S)
            self._patience_s -= _PAUSE_S
            rate = self.rate()
        return rate

    def measured(self, measure: Callable[[], tuple[T, Sequence[float]]], wanted: int) -> Gated[T]:
        """Measures until `wanted` results come from fast phases, at most 3 * wanted times.

        Args:
            measure: returns a result and the rates that it got from `rate` while measuring; there
                may be none.
            wanted: number of results, at least one.

        Returns:
            At most `wanted` results, in the order of measurement. If all results come from slow
            phases, only the result from the fastest of these phases is returned.
        """
        taken: list[tuple[float, T]] = []
        while True:
            before = self.wait()
            result, between = measure()
            taken.append((min(before, self.rate(), *between), result))
            kept = [entry for entry in taken if not self.is_slow(entry[0])]
            if len(kept) >= wanted or len(taken) >= _ATTEMPTS * wanted:
                break
        kept = kept or [max(taken, key=lambda entry: entry[0])]
        results = [result for _, result in kept]
        return Gated(results, len(taken) - len(kept), min(rate for rate, _ in kept))
