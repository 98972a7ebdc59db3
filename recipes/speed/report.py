"""Selects the valid pairs, and writes a table and a picture of the medians."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from nmt.benchmark.gate import FAST
from nmt.errors import count
from nmt.evaluation.table import Table
from recipes.paper_figures.drawing import figure

Line = dict[str, Any]  # a pair: its `setting`, and the visits `nmt` and `peer`
_TITLES = {"train": "Training", "translate": "Translating"}
_UNITS = {"train": "target tokens/s"}
_SENTENCES = "sentences/s"


@dataclass(frozen=True)
class Row:
    """The results of one system for one kind of work."""

    name: str
    rates: list[float]  # one per visit
    ratios: list[float]  # nmt's rate divided by this system's, per pair; empty for nmt
    peak_gib: float  # median over visits

    @property
    def rate(self) -> float:
        return median(self.rates)


def reference_rate(lines: Iterable[Line]) -> float:
    """Returns the probe's rate in a fast phase, in FLOPs per second, or 0 if only trials ran."""
    timed = [line for line in lines if not line["setting"]["work"]["small"]]
    return median([visit["best_product"] for visit in _visits(timed)] or [0.0])


def counted(lines: Iterable[Line]) -> list[Line]:
    """Returns the pairs whose steps all ran in fast phases, judged by the final reference rate.

    Keeps all pairs of trial runs, which only show that everything works.
    """
    lines = list(lines)
    least = FAST * reference_rate(lines)
    return [
        line
        for line in lines
        if line["setting"]["work"]["small"] or all(_is_fast(v, least) for v in _visits([line]))
    ]


def _is_fast(visit: dict[str, Any], least: float) -> bool:
    has_rates = all(result["rate"] is not None for result in visit["results"].values())
    return has_rates and visit["slowest_product"] >= least


def _visits(lines: Iterable[Line]) -> list[dict[str, Any]]:
    return [line[side] for line in lines for side in ("nmt", "peer")]


def rows(lines: Iterable[Line]) -> dict[str, list[Row]]:
    """Maps the title of each kind of work to its rows: nmt first, then the peers by speed."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in counted(lines):
        for name in line["nmt"]["results"]:
            groups.setdefault((_title(line, name), name), []).append(line)
    return {title: _ranked(group, name) for (title, name), group in groups.items()}


def _title(line: Line, name: str) -> str:
    setting = line["setting"]
    work = setting["work"]
    parts = [_TITLES[setting["task"]]]
    parts += [] if name == "training" else [name]
    parts.append(setting["precision"])
    parts += ["only a trial"] if work["small"] else []
    parts.append(count(work["threads"], "thread"))
    return f"{', '.join(parts)}: {_UNITS.get(setting['task'], _SENTENCES)} on {work['machine']}"


def _ranked(lines: list[Line], name: str) -> list[Row]:
    own = [line["nmt"] for line in lines]
    peers: dict[str, list[Line]] = {}
    for line in lines:
        version, precision = line["peer"]["version"], line["peer"]["precision"]
        differs = precision != line["nmt"]["precision"]
        peers.setdefault(f"{version}, {precision}" if differs else version, []).append(line)
    others = [
        _row(
            peer,
            [line["peer"] for line in pairs],
            name,
            [_rate(line["nmt"], name) / _rate(line["peer"], name) for line in pairs],
        )
        for peer, pairs in peers.items()
    ]
    return [_row(own[0]["version"], own, name, []), *sorted(others, key=lambda row: -row.rate)]


def _row(name: str, visits: list[dict[str, Any]], work: str, ratios: list[float]) -> Row:
    return Row(
        name,
        [_rate(visit, work) for visit in visits],
        ratios,
        median(visit["peak_gib"] for visit in visits),
    )


def _rate(visit: dict[str, Any], work: str) -> float:
    return visit["results"][work]["rate"]


def table(lines: Iterable[Line]) -> str:
    """Returns a Markdown table of the valid pairs: medians, with ranges in parentheses."""
    lines = list(lines)
    content = []
    for title, ranked in rows(lines).items():
        head = ["system", "median (range)", "nmt is faster by a factor of", "pairs", "peak GiB"]
        cells = [
            [row.name, _range(row.rates, ".4g"), _range(row.ratios, ".2f"),
             str(len(row.ratios) or ""), f"{row.peak_gib:.2f}"]
            for row in ranked
        ]  # fmt: skip
        content += [f"**{title}**", "", Table("", head, cells).as_markdown()]
    dropped = len(lines) - len(counted(lines))
    content.append(
        f"Probe in fast phases: {reference_rate(lines) / 1e9:.0f} GFLOP/s; "
        f"pairs left out because of slow phases: {dropped}."
    )
    return "\n".join(content) + "\n"


def _range(values: list[float], form: str) -> str:
    if not values:
        return ""
    return f"{median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def draw(lines: Iterable[Line], path: Path) -> None:
    """Plots the medians relative to nmt's medians, as bars with ranges."""
    kinds = rows(lines)
    n_bars = sum(map(len, kinds.values()))
    with figure(path) as [axes]:
        axes.figure.set_size_inches(9, 1 + 0.3 * (n_bars + 1.5 * len(kinds)))
        place, places, labels = 0.0, [], []
        for title, ranked in kinds.items():
            axes.text(0, place, title.partition(" on ")[0], fontweight="bold", va="center")
            for row in ranked:
                place += 1
                _bar(axes, place, row, ranked[0].rate)
                places.append(place)
                labels.append(row.name)
            place += 1.7
        axes.set_yticks(places, labels)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.set(xlabel="rate, nmt = 1; lines: range over visits")


def _bar(axes: Any, place: float, row: Row, unit: float) -> None:
    share = row.rate / unit
    low, high = min(row.rates) / unit, max(row.rates) / unit
    axes.barh(
        place, share, xerr=[[share - low], [high - share]], ecolor="black",
        color="#4477aa" if not row.ratios else "#bbbbbb",
    )  # fmt: skip
    axes.text(high, place, f" {row.rate:,.4g}", va="center", fontsize="small")
