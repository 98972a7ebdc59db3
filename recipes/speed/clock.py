"""Measures the time of work, and repeats measurements made in slow phases of the machine."""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any

import torch

from nmt.benchmark.gate import Gate
from nmt.benchmark.machine import probe, seconds

CPU = torch.device("cpu")


class Clock:
    """A clock that repeats work timed in slow phases, which the gate of `nmt benchmark` detects.

    Args:
        best: the probe's highest rate in earlier visits, in FLOPs per second; 0 if there are none.
        is_trial: whether this is a trial run, in which times do not matter and no phase is slow.
    """

    def __init__(self, best: float = 0.0, *, is_trial: bool = False):
        self.gate = Gate(lambda: 1.0) if is_trial else Gate(probe(CPU), best=best)
        self.slowest, self.repeated = inf, 0

    def times(self, work: Sequence[Callable[[], object]]) -> list[float] | None:
        """Returns the seconds for each unit of work, or None if the machine stayed slow."""
        found = []
        for each in work:
            timed = self.gate.measured(partial(self._timed, each), 1)
            found += timed.kept
            self.slowest = min(self.slowest, timed.slowest)
            self.repeated += timed.dropped
            if self.gate.is_slow(timed.slowest):
                return None
        return found

    def _timed(self, work: Callable[[], object]) -> tuple[float, Sequence[float]]:
        return seconds(work, CPU), ()

    @property
    def facts(self) -> dict[str, Any]:
        """The probe's rates in FLOPs per second, and the number of repetitions of work."""
        return {
            "slowest_product": self.slowest,  # among the probes before and after counted work
            "best_product": self.gate.best,
            "repeated": self.repeated,
        }
