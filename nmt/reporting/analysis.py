"""Creates tables and a reliability diagram from the analyses of runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nmt.evaluation.analysis_tables import analysis_tables, contrastive_table
from nmt.evaluation.table import Table
from nmt.reporting.chart import Axis, Line, marks, path
from nmt.reporting.curves import Drawn, View
from nmt.reporting.run_record import RunRecord

_SHARES = Axis(0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram, which plots a model's accuracy against its confidence.

    A diagonal line shows where the accuracy equals the confidence.
    """

    lines: list[tuple[Line, str]]  # one line per run, with its expected calibration error
    values: Axis
    view: View

    @property
    def summary(self) -> str:
        """A description of the diagram in words."""
        return "Accuracy by confidence. " + " ".join(
            f"{line.label}: expected calibration error {ece}." for line, ece in self.lines
        )


def all_tables(runs: Sequence[RunRecord]) -> list[Table]:
    """Returns the tables of each run's analysis and contrastive accuracy."""
    tables = []
    for run in runs:
        found = analysis_tables(run.test.analysis) if run.test else []
        if run.contrastive:
            found.append(contrastive_table(run.contrastive))
        name = f"{run.name}: " if len(runs) > 1 else ""
        tables += [replace(table, caption=name + table.caption) for table in found]
    return tables


def reliability(runs: Sequence[RunRecord]) -> Reliability | None:
    """Returns a diagram of all runs whose calibration is known, or None if there is no such run."""
    lines, drawn = [], []
    for number, run in enumerate(runs):
        found = run.test.analysis.calibration if run.test else None
        if found is None:
            continue
        places = [
            (each.confidence, each.accuracy)
            for each in found.bins
            if each.confidence is not None and each.accuracy is not None
        ]
        line = Line(number, run.name, [], is_marked=True, is_faint=False)
        lines.append((line, f"{found.ece:.1%}"))
        drawn.append(Drawn(line, path(places), marks(places)))
    equal = Line(0, "", [], is_marked=False, is_faint=True)
    drawn.insert(0, Drawn(equal, path([(0.0, 0.0), (1.0, 1.0)]), ""))
    view = View("confidence", "confidence", 1.0, _SHARES, drawn)
    return Reliability(lines, _SHARES, view) if lines else None
