"""Excludes slow phases of a machine from measurements.

A shared, overheated or virtual machine may run at half its speed for some time. A probe, which is a
matrix multiplication of fixed size, is therefore timed before and after every measurement. A
measurement that began or ended in a slow phase is repeated.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

FAST = 0.8  # a phase is slow if the probe's rate is below this share of the best rate
_ATTEMPTS = 3  # maximum number of measurements per wanted result
_PATIENCE_S = 60.0  # maximum total wait for slow phases to pass
_PAUSE_S = 0.5

T = TypeVar("T")


@dataclass(frozen=True)
class Gated(Generic[T]):
    """Measurement results that a `Gate` has selected."""

    kept: list[T]  # results from fast phases; at least one result
    dropped: int  # number of results from slow phases
    slowest: float  # lowest rate of the probe around the kept results


class Gate:
    """Uses a probe to select measurements that were taken while the machine ran at full speed.

    Args:
        probe: does a fixed amount of work and returns the rate, for example in FLOPs per second.
        sleep: waits for the given number of seconds.
        best: the highest rate that the probe has already returned, or 0.

    Attributes:
        best: the highest rate of the probe so far.
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
        """Waits for a fast phase, at most 60 s over all calls; returns the probe's last rate."""
        rate = self.rate()
        while self.is_slow(rate) and self._patience_s > 0:
            self._sleep(_PAUSE_S)
            self._patience_s -= _PAUSE_S
            rate = self.rate()
        return rate

    def measured(self, measure: Callable[[], tuple[T, Sequence[float]]], wanted: int) -> Gated[T]:
        """Measures until `wanted` results come from fast phases, but at most 3 * `wanted` times.

        Args:
            measure: performs one measurement; returns its result, and the probe's rates if it
                called `rate` meanwhile.
            wanted: number of results, at least one.

        Returns:
            At most `wanted` results, in the order of measurement. If all results come from slow
            phases, only the result from the fastest of these phases is kept.
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
