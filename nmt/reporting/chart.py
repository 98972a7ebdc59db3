"""Computes SVG paths and tick labels of line charts that a web page can show at any size.

The charts adapt to small screens and dark mode, and they show the values at the pointer. The charts
are not created with matplotlib, because matplotlib's SVG images have fixed sizes and colors and
contain text as paths. The coordinates of a path are positions in a box of `WIDTH` x `HEIGHT` units.
The web page stretches the box to the size of the chart, and places tick labels outside the box.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 2000, 1000  # size of the box, in which y increases downwards
_AT_MOST = 1000  # maximum number of points per line, which is enough for zooming in


@dataclass(frozen=True)
class Point:
    """A logged value of a quantity, with the step at which it was logged."""

    step: int
    elapsed_s: float | None  # seconds of training so far, or None if not logged
    value: float


@dataclass(frozen=True)
class Line:
    """A line of a chart, with the values of one quantity in one run."""

    run: int  # index of the run
    label: str
    points: list[Point]  # by ascending step
    is_marked: bool  # whether a dot is plotted at each point, as for validations
    is_faint: bool  # whether the line is plotted faintly, behind another line

    @property
    def latest(self) -> str:
        """The last value of the line, formatted as text."""
        return figure(self.points[-1].value)


@dataclass(frozen=True)
class Axis:
    """The range and the ticks of an axis."""

    low: float
    high: float
    ticks: list[float]
    is_log: bool = False

    def place(self, value: float) -> float:
        """Returns the position of a value on the axis, from 0 for `low` to 1 for `high`."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def labels(self) -> list[tuple[str, float]]:
        """The label and the relative position of each tick.

        On a linear axis, all labels except 0 have the same suffix, which is "k", "M", "G" or empty.
        """
        most = max(map(abs, self.ticks))
        units = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
        unit, letter = next(((u, a) for least, u, a in units if most >= least), (1.0, ""))
        if self.is_log:  # the values differ too much for a common suffix
            return [(f"{tick:,.6g}", self.place(tick)) for tick in self.ticks]
        return [
            (f"{tick / unit:,.6g}{letter if tick else ''}", self.place(tick)) for tick in self.ticks
        ]


def value_axis(values: Sequence[float], *, from_zero: bool, is_log: bool) -> Axis:
    """Returns an axis that contains all finite values, and that starts and ends at a tick.

    Args:
        from_zero: whether a linear axis must contain 0.
        is_log: whether to use a logarithmic axis if the largest value is at least 5 times the
            smallest value. If `is_log` is True, all values must be positive.
    """
    low, high = min(values), max(values)
    if is_log and high >= 5 * low:
        return _log_axis(low, high)
    if from_zero:
        low = min(low, 0.0)
    step = _tick_step(low, high)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    ticks = [_clean(number * step) for number in range(first, last + 1)]
    return Axis(ticks[0], ticks[-1], ticks)


def progress_axis(end: float) -> Axis:
    """Returns an axis from 0 to exactly `end`, for steps and times."""
    end = end or 1.0
    step = _tick_step(0.0, end)
    ticks = [_clean(number * step) for number in range(int(end / step + 1e-9) + 1)]
    return Axis(0.0, end, ticks)


def thinned(points: Sequence[Point]) -> list[Point]:
    """Returns `points`, reduced to at most `_AT_MOST` points if there are more.

    The reduced list contains the first point, the last point, and the points with the smallest and
    the largest value of each interval in between.
    """
    if len(points) <= _AT_MOST:
        return list(points)
    inner, stretches = points[1:-1], _AT_MOST // 2 - 1
    kept = [points[0]]
    for number in range(stretches):
        begin, end = (len(inner) * n // stretches for n in (number, number + 1))
        part = inner[begin:end]
        extremes = {id(p): p for key in (min, max) for p in [key(part, key=lambda q: q.value)]}
        kept += sorted(extremes.values(), key=lambda point: point.step)
    return [*kept, points[-1]]


def path(places: Sequence[tuple[float, float]]) -> str:
    """Returns an SVG path that connects points.

    Args:
        places: the positions of each point on the x axis and the y axis, from 0 to 1.
    """
    return "M" + "L".join(f"{x} {y}" for x, y in _in_box(places))


def marks(places: Sequence[tuple[float, float]]) -> str:
    """Returns an SVG path with a dot at each point.

    Each dot is a line of length zero with round caps, so that it stays round in a stretched box.

    Args:
        places: the positions of each point on the x axis and the y axis, from 0 to 1.
    """
    return "".join(f"M{x} {y}h0" for x, y in _in_box(places))


def figure(value: float) -> str:
    """Formats a value as text, such as "2.345", "12,345" or "4.94e-04"."""
    if 0 < abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def _in_box(places: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    return [(round(x * WIDTH), round((1 - y) * HEIGHT)) for x, y in places]


def _tick_step(low: float, high: float) -> float:
    """Returns a distance between ticks that divides the range into about four intervals.

    The distance is 1, 2 or 5 times a power of ten.
    """
    least = 1e-4 * max(abs(low), abs(high))  # labels show at most six digits
    raw = (max(high - low, least) if high > low else abs(high) or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= raw * 0.999)


def _log_axis(low: float, high: float) -> Axis:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, (last - first) // 8)  # distance between ticks in decades
    decades = range(first - every, last + every + 1, every)
    wide = high / low > 1e3
    steps = [_clean(times * 10.0**d) for d in decades for times in ((1,) if wide else (1, 2, 5))]
    begin = max(tick for tick in steps if tick <= low * (1 + 1e-9))
    end = min(tick for tick in steps if tick >= high * (1 - 1e-9) and tick > begin)
    return Axis(begin, end, [tick for tick in steps if begin <= tick <= end], is_log=True)


def _clean(value: float) -> float:
    """Removes a rounding error. For example, 0.30000000000000004 becomes 0.3."""
    return float(f"{value:.12g}")
