"""Creates a table of differences between systems, with tests over seeds and over sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from nmt.evaluation.bleu import bleu_metric, resampled_scores
from nmt.evaluation.significance import (
    Difference,
    holm,
    mean_interval,
    over_seeds,
    over_sentences,
)
from nmt.evaluation.table import Table
from nmt.reporting.tables import signed

NOTES = (
    "Over seeds: Welch's t-test on the BLEU of the runs. A small p-value means that variation "
    "between training runs is unlikely to explain the difference. The test requires at least two "
    "runs of each system.",
    "Over sentences: paired bootstrap resampling on the mean BLEU of the runs; the p-value is "
    "computed as in sacreBLEU. A small p-value means that the choice of test sentences is unlikely "
    "to explain the difference.",
    "Claim that one system is better only if both p-values are small. Overlapping intervals do not "
    "show that two systems are equal.",
)
HOLM_NOTE = "Holm: the p-value after Holm's correction for the number of comparisons in the column."


@dataclass(frozen=True)
class System:
    """The test scores of a system, that is, of runs that differ only in the random seed."""

    name: str
    scores: list[float]  # BLEU of each run
    resampled: list[list[float]]  # scores of each run, see `resampled_scores`

    @classmethod
    def of(
        cls,
        name: str,
        translations: Sequence[Sequence[str]],
        references: Sequence[str],
        language: str,
    ) -> "System":
        """Scores the translations of each run.

        Args:
            language: the target language, which determines the tokenizer that BLEU uses.
        """
        metric = bleu_metric(language)
        return cls(
            name,
            [metric.corpus_score(lines, [references]).score for lines in translations],
            [resampled_scores(metric, lines, [references]) for lines in translations],
        )


def difference_table(systems: Sequence[System], others: Sequence[str] = ()) -> Table:
    """Returns a table that compares each of the other systems with the first system.

    Args:
        others: the names of systems that cannot be compared because they were evaluated on a
            different test set.
    """
    first, *rest = systems
    of_seeds = [over_seeds(each.scores, first.scores) for each in rest]
    of_sentences = [
        over_sentences(each.scores, each.resampled, first.scores, first.resampled) for each in rest
    ]
    rows = [[first.name, str(len(first.scores)), _mean(first), "", "", ""]]
    for each, seeds, sentences in zip(
        rest, _in_words(of_seeds), _in_words(of_sentences), strict=True
    ):
        value = signed(mean(each.scores) - mean(first.scores))
        count = str(len(each.scores))
        rows.append([each.name, count, _mean(each), value, seeds, sentences])
    rows += [[name, "", "", "different test set", "", ""] for name in others]
    columns = ["", "runs", "BLEU", f"difference from {first.name}", "over seeds", "over sentences"]
    notes = [*NOTES, *([HOLM_NOTE] if len(rest) > 1 else [])]
    return Table("BLEU on the test set, differences", columns, rows, tuple(notes))


def _mean(system: System) -> str:
    bounds = mean_interval(system.scores)
    interval = f" (95% over seeds: {bounds[0]:.2f} to {bounds[1]:.2f})" if bounds else ""
    return f"{mean(system.scores):.2f}{interval}"


def _in_words(found: Sequence[Difference | None]) -> list[str]:
    """Formats a column of differences with their p-values and their Holm-corrected p-values."""
    tested = [each for each in found if each]
    corrected = iter(holm([each.p_value for each in tested]))
    return [_cell(each, next(corrected), len(tested)) if each else "" for each in found]


def _cell(difference: Difference, corrected: float, comparisons: int) -> str:
    low, high = difference.interval
    text = f"95%: {signed(low)} to {signed(high)}, p {_p(difference.p_value)}"
    return text + (f", Holm {_p(corrected)}" if comparisons > 1 else "")


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"
