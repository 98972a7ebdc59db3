"""Sentences to look at: where a model translates its test set best, middling and worst."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.reporting.run_record import RunRecord

_EACH = 3  # of each kind


@dataclass(frozen=True)
class Translated:
    run: str
    text: str
    chrf: float  # of this sentence, 0 to 100


@dataclass(frozen=True)
class Sample:
    kind: str  # "best", "median" or "worst"
    source: str
    reference: str
    translations: list[Translated]  # the run's by which it was chosen first


def samples(runs: Sequence[RunRecord]) -> list[Sample]:
    """Test sentences whose translation by the first run has the best, median and worst chrF.

    Of equal ones the longer is the better, so that a long sentence translated to the letter comes
    before a short one. Other runs' translations stand beside where their test set is the same.
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
    """chrF2 of each sentence."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return [
        metric.sentence_score(translation, [reference]).score
        for translation, reference in zip(translations, references, strict=True)
    ]
