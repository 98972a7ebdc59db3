"""Keeps the slow moments of a machine out of what is measured on it.

Machines that are shared, hot or virtual have phases in which everything takes twice as long. So a
product of known size, the probe, is timed before and after whatever is measured, and what
began or ended in such a phase is measured again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

FAST = 0.8  # of the probe's best rate; below it a phase is slow
_ATTEMPTS = 3  # of each wanted measurement, on average
_PATIENCE_S = 60.0  # waited for a slow phase to pass, in all
_PAUSE_S = 0.5

T = TypeVar("T")


@dataclass(frozen=True)
class Gated(Generic[T]):
    """What was measured while the machine was fast."""

    kept: list[T]  # at least one
    dropped: int
    slowest: float  # rate of the probe around those kept; slow only if all were


class Gate:
    """Judges measurements by a probe.

    Args:
        probe: does a fixed amount of work and returns its rate.
        sleep: waits for so many seconds.
        best: a rate known from before.

    Attributes:
        best: the highest rate so far.
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
        """The probe's rate now."""
        now = self._probe()
        self.best = max(self.best, now)
        return now

    def is_slow(self, rate: float) -> bool:
        """Whether a rate is that of a slow phase."""
        return rate < FAST * self.best

    def wait(self) -> float:
        """Waits until the machine is fast, as long as there is patience; the probe's rate then."""
        rate = self.rate()
        while self.is_slow(rate) and self._patience_s > 0:
            self._sleep(_PAUSE_S)
            self._patience_s -= _PAUSE_S
            rate = self.rate()
        return rate

    def measured(self, measure: Callable[[], tuple[T, Sequence[float]]], wanted: int) -> Gated[T]:
        """Measures until `wanted` results are from fast phases, at most three times as often.

        Args:
            measure: returns a result, and the rates that `rate` had meanwhile, perhaps none.
            wanted: results, at least one.

        Returns:
            At most `wanted` results, in their order. If all were from slow phases, the one from
            the least slow.
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
