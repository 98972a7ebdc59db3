"""Sample translations: the best, median and worst of a test set."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.reporting.run_record import RunRecord

_EACH = 3  # of each kind


@dataclass(frozen=True)
class Translated:
    """A run's translation of a sample."""

    run: str
    text: str
    chrf: float  # of this sentence, 0 to 100


@dataclass(frozen=True)
class Sample:
    """A sentence of the test set with its translations."""

    kind: str  # "best", "median" or "worst"
    source: str
    reference: str
    translations: list[Translated]  # the run whose chrF chose the sample comes first


def samples(runs: Sequence[RunRecord]) -> list[Sample]:
    """Returns the test sentences with the best, median and worst chrF of the first run.

    At equal chrF the longer sentence ranks higher. Adds translations by other runs with the same
    test set.
    """
    tested = [run.test for run in runs if run.test]
    if not tested:
        return []
    first = tested[0]
    shown = [
        (run.name, run.test.translations, _scores(run.test.translations, run.test.references))
        for run in runs
        if run.test and (run.test.sources, run.test.references) == (first.sources, first.references)
    ]
    scores = shown[0][2]
    order = sorted(
        range(len(scores)), key=lambda i: (scores[i], len(first.sources[i])), reverse=True
    )
    middle = len(order) // 2
    picks = dict.fromkeys(order[:_EACH], "best")
    for index in order[middle - 1 : middle + _EACH - 1]:
        picks.setdefault(index, "median")
    for index in order[-_EACH:]:
        picks.setdefault(index, "worst")
    return [
        Sample(
            kind,
            first.sources[index],
            first.references[index],
            [Translated(name, texts[index], chrf[index]) for name, texts, chrf in shown],
        )
        for index, kind in picks.items()
    ]


def _scores(translations: Sequence[str], references: Sequence[str]) -> list[float]:
    """Returns the chrF2 of each sentence."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return [
        metric.sentence_score(translation, [reference]).score
        for translation, reference in zip(translations, references, strict=True)
    ]
