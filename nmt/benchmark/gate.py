"""Excludes measurements that were taken while the machine was slow.

A shared, overheated or virtual machine may run at half its normal speed for some time. A probe,
which is a matrix multiplication of fixed size, is therefore timed before and after every
measurement. A measurement that began or ended while the machine was slow is repeated.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

FAST = 0.8  # a phase is slow if the probe's rate is below this fraction of the best rate
_ATTEMPTS = 3  # maximum number of measurements per wanted result
_PATIENCE_S = 60.0  # maximum total waiting time for slow phases to end
_PAUSE_S = 0.5

T = TypeVar("T")


@dataclass(frozen=True)
class Gated(Generic[T]):
    """Measurement results that a `Gate` has selected."""

    kept: list[T]  # results from fast phases; at least one result
    dropped: int  # number of results from slow phases
    slowest: float  # lowest rate that the probe returned for the kept results


class Gate:
    """Uses a probe to select measurements that were taken while the machine ran at full speed.

    Args:
        probe: a function that does a fixed amount of work and returns its rate, for example in
            FLOPs per second.
        sleep: a function that waits for the given number of seconds.
        best: the highest rate that the probe has returned before, or 0 if the probe has not run.

    Attributes:
        best: the highest rate that the probe has returned so far.
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
        """Returns whether a rate that the probe measured indicates that the machine is slow."""
        return rate < FAST * self.best

    def wait(self) -> float:
        """Waits until the machine runs at full speed, and returns the last rate of the probe.

        All calls of this method together wait for at most 60 seconds.
        """
        rate = self.rate()
        while self.is_slow(rate) and self._patience_s > 0:
            self._sleep(_PAUSE_S)
            self._patience_s -= _PAUSE_S
            rate = self.rate()
        return rate

    def measured(self, measure: Callable[[], tuple[T, Sequence[float]]], wanted: int) -> Gated[T]:
        """Repeats a measurement until `wanted` results were measured while the machine was fast.

        The measurement is performed at most 3 * `wanted` times.

        Args:
            measure: a function that performs one measurement. `measure` returns its result, and a
                list of the rates that it obtained from calls of `rate`.
            wanted: the number of results to collect, which must be at least 1.

        Returns:
            At most `wanted` results, in the order in which they were measured. If all results come
            from slow phases, only the result from the fastest phase is kept.
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
