"""BLEU, chrF and TER of detokenized text, as sacreBLEU computes them.

sacreBLEU: Post (2018). BLEU: Papineni et al. (2002). chrF: Popović (2015). TER: Snover et al.
(2006). A signature says how a score was computed; only scores with equal signatures compare.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from nmt.errors import ArgumentError, InputError, StorageError, count

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

RESAMPLES = 1000  # sacreBLEU's own default

_MOST_WORDS = 5000  # of a line


@dataclass(frozen=True)
class Scores:
    """Corpus scores with what is needed to reproduce them."""

    bleu: float  # 0 to 100
    bleu_signature: str
    chrf: float  # 0 to 100; chrF2
    chrf_signature: str
    sentences: int


@dataclass(frozen=True)
class Comparison:
    """A baseline's scores, and the probability that chance alone makes a difference as large."""

    bleu: float  # the baseline's, 0 to 100
    bleu_difference: float  # of the translations' to it
    bleu_p_value: float  # 0 to 1
    chrf: float
    chrf_difference: float
    chrf_p_value: float


class Counting(TypedDict, total=False):
    """How BLEU is counted; without any of these as sacreBLEU does. chrF and TER do not change."""

    target_language: str | None  # chooses the tokens of languages without spaces (zh, ja, ko)
    lowercase: bool  # as `sacrebleu --lowercase`
    tokenize: str | None  # as `sacrebleu --tokenize`


def score(
    hypotheses: Sequence[str], *references: Sequence[str], **counting: Unpack[Counting]
) -> Scores:
    """Corpus BLEU and chrF.

    Args:
        hypotheses: one detokenized translation a sentence.
        references: one or more lists, each with one reference a sentence, as raw text.

    Raises:
        InputError: nothing to score, unequal numbers of lines, or see `bleu_metric`.
    """
    from sacrebleu.metrics.chrf import CHRF  # late: to import it takes longer than a short search

    check_texts(hypotheses, references)
    bleu, chrf = bleu_metric(**counting), CHRF()
    bleu_score = bleu.corpus_score(hypotheses, references).score
    chrf_score = chrf.corpus_score(hypotheses, references).score
    return Scores(
        bleu_score,
        str(bleu.get_signature()),
        chrf_score,
        str(chrf.get_signature()),
        len(hypotheses),
    )


def bleu_interval(
    hypotheses: Sequence[str], *references: Sequence[str], **counting: Unpack[Counting]
) -> tuple[float, float]:
    """Bounds of BLEU's 95% confidence interval.

    Koehn (2004): the 2.5% and 97.5% quantiles of 1000 bootstrap resamples of the sentences. The
    resamples are those of `sacrebleu --confidence`, which prints mean and half-width instead; near
    100 these would reach beyond it. The seed is the environment variable SACREBLEU_SEED, 12345 by
    default.
    """
    check_texts(hypotheses, references)
    return interval(bleu_metric(**counting), hypotheses, references)


def interval(
    metric: BLEU, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[float, float]:
    """See `bleu_interval`; for any metric of sacreBLEU, and texts as it takes them."""
    from sacrebleu.significance import _bootstrap_resample

    statistics = metric._extract_corpus_statistics(hypotheses, references)
    _, resampled = _bootstrap_resample(statistics, metric, RESAMPLES)
    scores = sorted(min(found.score, 100.0) for found in resampled)  # rounding can exceed it
    outside = len(scores) // 40  # on either side
    return scores[outside], scores[-1 - outside]


def ter(hypotheses: Sequence[str], *references: Sequence[str]) -> tuple[float, str]:
    """Translation edit rate, edits for 100 words of reference, and its signature; 0 is best.

    Takes seconds for thousands of sentences, longer for worse translations.
    """
    from sacrebleu.metrics.ter import TER

    check_texts(hypotheses, references)
    metric = TER()
    value = metric.corpus_score(hypotheses, references).score
    return value, str(metric.get_signature())


def compare(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    *references: Sequence[str],
    **counting: Unpack[Counting],
) -> Comparison:
    """Paired bootstrap test (Koehn, 2004) of translations against a baseline's.

    1000 resamples, as `sacrebleu --paired-bs` has them; see `bleu_interval` for the seed.
    Equal scores have p = 1, where sacreBLEU has 0.001 if no resample tells the two apart.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    for side in (hypotheses, baseline):
        check_texts(side, references)
    systems = [("baseline", baseline), ("hypothesis", hypotheses)]
    metrics = {"BLEU": bleu_metric(**counting), "chrF": CHRF()}
    test = PairedTest(systems, metrics, references, test_type="bs", n_samples=RESAMPLES)
    found: dict[str, Any] = dict(test()[1])
    return Comparison(*_compared(*found["BLEU"]), *_compared(*found["chrF2"]))


def _compared(baseline: Any, tested: Any) -> tuple[float, float, float]:
    difference = tested.score - baseline.score
    return baseline.score, difference, float(tested.p_value) if difference else 1.0


def bleu_metric(
    target_language: str | None = None, lowercase: bool = False, tokenize: str | None = None
) -> BLEU:
    """sacreBLEU's metric, whose signature says how it counts; for arguments see `Counting`.

    Raises:
        ArgumentError: no tokenization of that name.
        InputError: a missing extra.
        StorageError: a tokenization whose model cannot be downloaded.
    """
    from sacrebleu.metrics.bleu import BLEU

    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        known = ", ".join(BLEU.TOKENIZERS)
        raise ArgumentError("no such tokenization, {tokenize} {}, choose of {}", tokenize, known)
    language = language_of(target_language or "") if tokenize is None else ""
    try:
        # force: no three lines about text that looks tokenized, see plain_text
        return BLEU(lowercase=lowercase, tokenize=tokenize, trg_lang=language, force=True)
    except (ImportError, RuntimeError):  # ja and ko need a morphological analyser
        name = tokenize or f"target language {target_language}"
        extra = tokenize.partition("-")[0] if tokenize else language
        raise InputError(
            f'sacreBLEU\'s tokenizer is not installed, {name}, pip install "sacrebleu[{extra}]"'
        ) from None
    except (OSError, SystemExit) as error:
        raise StorageError(
            f"sacreBLEU's tokenizer cannot be downloaded ({error}), {tokenize}, "
            "check the network, or choose another"
        ) from None


def language_of(tag: str) -> str:
    """The language of a tag with a region or script: zh_CN, zh-Hant -> zh."""
    return re.split("[-_]", tag.lower())[0]


def check_texts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raises InputError unless there is a reference for each hypothesis, and any at all.

    Nor is a line compared that is no sentence: TER's time and memory grow with its square.
    """
    for lines in references:
        if len(lines) != len(hypotheses):
            raise InputError(
                f"{count(len(hypotheses), 'translation')} but {count(len(lines), 'reference')}, "
                "the files to compare, give each translation its reference"
            )
    if not hypotheses or not references:
        raise InputError("nothing to score, the translations, give at least one line")
    for side, lines in (("translations", hypotheses), *(("references", r) for r in references)):
        for number, line in enumerate(lines, start=1):
            if (words := len(line.split())) > _MOST_WORDS:
                raise InputError(
                    f"{words:,} words in one line, line {number:,} of the {side}, at most "
                    f"{_MOST_WORDS:,} can be compared: split it into sentences"
                )
