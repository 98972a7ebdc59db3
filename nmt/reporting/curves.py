"""Creates the charts of a report. Each chart shows one logged quantity of all runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nmt.reporting.chart import (
    Axis,
    Line,
    Point,
    figure,
    marks,
    path,
    progress_axis,
    thinned,
    value_axis,
)
from nmt.reporting.run_record import RunRecord


@dataclass(frozen=True)
class Quantity:
    """A quantity in the training log that the report plots in a chart."""

    title: str
    unit: str
    training: str | None = None  # key in the log lines of training steps
    validation: str | None = None  # key in the log lines of validations
    from_zero: bool = False
    is_log: bool = False


QUANTITIES = (
    Quantity("Negative log-likelihood", "nats per target token", "nll", "nll", is_log=True),
    Quantity("BLEU", "validation set, weights of each step, without averaging", validation="bleu"),
    Quantity("Loss", "nats per target token, with label smoothing", "loss", "loss", is_log=True),
    Quantity("Perplexity", "per token of the validation set", validation="ppl", is_log=True),
    Quantity("Learning rate", "", "learning_rate", from_zero=True),
    Quantity("Speed", "target tokens per second", "tokens_per_second", from_zero=True),
    Quantity("Gradient norm", "before clipping", "gradient_norm", is_log=True),
)


@dataclass(frozen=True)
class Drawn:
    """A line of a chart, converted to SVG paths."""

    line: Line
    path: str
    marks: str


@dataclass(frozen=True)
class View:
    """The lines of a chart, plotted against steps or training time."""

    kind: str  # "step" or "time"
    title: str  # unit of the x axis
    scale: float  # steps or seconds per unit of the x axis
    axis: Axis
    lines: list[Drawn]


@dataclass(frozen=True)
class Chart:
    """A chart that shows the values of one quantity in all runs."""

    title: str
    unit: str
    lines: list[Line]
    values: Axis
    views: list[View]

    @property
    def summary(self) -> str:
        """A description of the chart in words."""
        return f"{self.title}, {self.unit}. " + " ".join(
            f"{line.label}: {figure(line.points[0].value)} at step {line.points[0].step}, "
            f"{line.latest} at step {line.points[-1].step}."
            for line in self.lines
        )


def charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """Returns a chart for each logged quantity."""
    end_step = max(run.step for run in runs)
    end_s = max(run.elapsed_s for run in runs)
    found = []
    for quantity in QUANTITIES:
        lines = [line for number in range(len(runs)) for line in _lines(quantity, number, runs)]
        if lines:
            found.append(_chart(quantity, lines, end_step, end_s))
    return found


def _lines(quantity: Quantity, number: int, runs: Sequence[RunRecord]) -> list[Line]:
    """Returns the lines of one run, with the validation line last, so that it is plotted on top."""
    run, parts = runs[number], {}
    for kind, key in (("training", quantity.training), ("validation", quantity.validation)):
        points = run.points(key, validation=kind == "validation") if key else []
        if quantity.is_log:
            points = [point for point in points if point.value > 0]
        if points:
            parts[kind] = thinned(points)
    names = {kind: run.name if len(parts) == 1 else f"{run.name}, {kind}" for kind in parts}
    return [
        Line(
            number,
            kind if len(runs) == 1 else names[kind],
            points,
            is_marked=kind == "validation",
            is_faint=kind == "training" and len(parts) > 1,
        )
        for kind, points in parts.items()
    ]


def _chart(quantity: Quantity, lines: list[Line], end_step: int, end_s: float) -> Chart:
    values = value_axis(
        [point.value for line in lines for point in line.points],
        from_zero=quantity.from_zero,
        is_log=quantity.is_log,
    )
    views = [_view("step", "step", 1.0, end_step, values, lines)]
    if end_s:
        views.append(_view("time", *time_unit(end_s), end_s, values, lines))
    return Chart(quantity.title, quantity.unit, lines, values, views)


def _view(
    kind: str, title: str, scale: float, end: float, values: Axis, lines: Sequence[Line]
) -> View:
    axis, drawn = progress_axis(end / scale), []
    for line in lines:
        along = [p.step if kind == "step" else p.elapsed_s for p in line.points]
        places = [
            (axis.place(x / scale), values.place(point.value))
            for x, point in zip(along, line.points, strict=True)
            if x is not None
        ]
        if places:
            dots = line.is_marked or len(places) == 1
            drawn.append(Drawn(line, path(places), marks(places) if dots else ""))
    return View(kind, title, scale, axis, drawn)


def time_unit(seconds: float) -> tuple[str, float]:
    """Returns a suitable unit for a duration, and the number of seconds in this unit."""
    if seconds < 120:
        return "s", 1.0
    return ("min", 60.0) if seconds < 7200 else ("h", 3600.0)


def chart_data(charts: Sequence[Chart]) -> list[dict[str, Any]]:
    """Returns the axes and values of all charts for the page's script.

    The values are rounded to six significant digits.
    """
    return [
        {
            "values": _axis_data(c.values),
            "views": {
                view.kind: _axis_data(view.axis) | {"scale": view.scale, "unit": view.title}
                for view in c.views
            },
            "lines": [
                {
                    "run": line.run,
                    "label": line.label,
                    "marked": line.is_marked,
                    "points": [_rounded(point) for point in line.points],
                }
                for line in c.lines
            ],
        }
        for c in charts
    ]


def _axis_data(axis: Axis) -> dict[str, Any]:
    return {"low": axis.low, "high": axis.high, "log": axis.is_log, "labels": axis.labels}


def _rounded(point: Point) -> list[float | None]:
    time = None if point.elapsed_s is None else round(point.elapsed_s, 1)
    return [point.step, time, float(f"{point.value:.6g}")]
