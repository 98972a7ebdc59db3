"""The clock of the comparison: only what begins and ends while the machine is fast is timed.

Some machines have slow phases: for tens of seconds everything runs at less than half its speed,
although nothing else runs. So a known matrix product is timed before and after every step.
"""

import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

_ROWS, _COLUMNS, _DEPTH = 2_048, 2_048, 512
_REPEATS = 4
FAST = 0.8  # of the best rate seen: what is below is a slow phase


def product_rate() -> float:
    """GFLOP/s of an fp32 product of the base model's size, the better of two tries."""
    x, weight = torch.ones(_ROWS, _DEPTH), torch.ones(_COLUMNS, _DEPTH)
    rates = []
    with torch.inference_mode():
        for _ in range(2):
            began = time.perf_counter()
            for _ in range(_REPEATS):
                F.linear(x, weight)
            seconds = time.perf_counter() - began
            rates.append(_REPEATS * 2 * _ROWS * _COLUMNS * _DEPTH / seconds / 1e9)
    return max(rates)


def fast_rate(measurements: int = 20) -> float:
    """What the product reaches now: the rate that a tenth of the measurements exceed."""
    rates = sorted(product_rate() for _ in range(measurements))
    return rates[-1 - measurements // 10]


class Gate:
    """Times work; what a slow phase has touched is repeated.

    Args:
        least: GFLOP/s of the known product below which a phase is slow.
        rate: measures the product.
        clock, sleep: seconds, and waiting for some.
        patience_s: how long to wait for slow phases to end, all together.
    """

    def __init__(
        self,
        least: float,
        rate: Callable[[], float] = product_rate,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
        patience_s: float = 120.0,
    ):
        self.least, self.rate, self.clock, self.sleep = least, rate, clock, sleep
        self.patience_s = patience_s
        self.rates: list[float] = []  # of the product, around all work that counts
        self.repeated = 0

    def times(self, work: Sequence[Callable[[], object]]) -> list[float] | None:
        """Seconds that each piece of work took, in order; None: slow phases outlast patience."""
        found: list[float] = []
        while len(found) < len(work):
            before = self._fast_rate()
            began = self.clock()
            work[len(found)]()
            seconds = self.clock() - began
            after = self.rate()
            if min(before, after) >= self.least:
                found.append(seconds)
                self.rates += [before, after]
            elif self.patience_s <= 0:
                return None
            else:
                self.repeated += 1
                self.patience_s -= seconds
        return found

    def _fast_rate(self) -> float:
        """The product's rate, once the phase is fast or patience has ended."""
        began = self.clock()
        while (rate := self.rate()) < self.least and self.clock() - began < self.patience_s:
            self.sleep(0.5)
        if rate < self.least:
            self.patience_s = 0.0
        return rate
