"""Selects the best, median and worst translations of a test set as samples."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from nmt.reporting.run_record import RunRecord

_EACH = 3  # number of samples of each kind

Parts = list[tuple[str, bool]]  # parts of a text; the flag is true if another text lacks the part


@dataclass(frozen=True)
class Translated:
    """A run's translation of a sample sentence."""

    run: str
    text: str
    chrf: float  # sentence-level score from 0 to 100
    parts: Parts  # parts of `text`, compared with the reference


@dataclass(frozen=True)
class Sample:
    """A sample sentence from the test set, with its translations by one or more runs."""

    kind: str  # "best", "median" or "worst"
    source: str
    reference: str
    reference_parts: Parts  # compared with the first translation
    translations: list[Translated]  # first the run whose chrF selected the sample


def samples(runs: Sequence[RunRecord]) -> list[Sample]:
    """Returns the test sentences with the best, median and worst chrF of the first run.

    If several sentences have the same chrF, longer sentences rank higher. The median samples have
    different chrF values if possible. For example, if more than half of the sentences have a chrF
    of 100, only one of these sentences is selected as a median sample, and the other median samples
    have the next lower chrF values. Each sample also contains the translations by all other runs
    that have the same test set.
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
    picks = dict.fromkeys(order[:_EACH], "best")
    for index in _medians(order, scores):
        picks.setdefault(index, "median")
    for index in order[-_EACH:]:
        picks.setdefault(index, "worst")
    return [
        Sample(
            kind,
            first.sources[index],
            first.references[index],
            differing(first.references[index], shown[0][1][index]),
            [
                Translated(
                    name, texts[index], chrf[index],
                    differing(texts[index], first.references[index]),
                )
                for name, texts, chrf in shown
            ],
        )
        for index, kind in picks.items()
    ]  # fmt: skip


def _medians(order: Sequence[int], scores: Sequence[float]) -> list[int]:
    """Returns the sentences nearest to the middle of `order`, if possible with different scores."""
    middle = len(order) // 2
    nearest = sorted(range(len(order)), key=lambda place: (abs(place - middle), -place))
    by_score: dict[float, int] = {}
    for place in nearest:
        by_score.setdefault(round(scores[order[place]], 1), order[place])
    chosen = [*by_score.values()][:_EACH]
    more = (order[place] for place in nearest if order[place] not in chosen)
    chosen += [index for index, _ in zip(more, range(_EACH - len(chosen)), strict=False)]
    return sorted(chosen, key=order.index)


def differing(text: str, other: str) -> Parts:
    """Splits a text into parts. The flag of a part is True if `other` lacks the part's words."""
    words, others = (re.findall(r"\s*\S+", each) for each in (text, other))
    match = SequenceMatcher(None, [w.strip() for w in words], [w.strip() for w in others], False)
    return [
        ("".join(words[begin:end]), kind != "equal")
        for kind, begin, end, _, _ in match.get_opcodes()
        if end > begin
    ]


def _scores(translations: Sequence[str], references: Sequence[str]) -> list[float]:
    """Returns the sentence-level chrF2 of each translation."""
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return [
        metric.sentence_score(translation, [reference]).score
        for translation, reference in zip(translations, references, strict=True)
    ]
