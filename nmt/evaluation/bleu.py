"""Computes BLEU, chrF and TER of detokenized text with sacreBLEU.

Post (2018) describes sacreBLEU, Papineni et al. (2002) describe BLEU, Popović (2015) describes
chrF, and Snover et al. (2006) describe TER. A signature records how a score was computed. Scores
are comparable only if their signatures are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from nmt.data.languages import language_of
from nmt.errors import ArgumentError, InputError, StorageError, count

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

RESAMPLES = 1000  # sacreBLEU's default

_MOST_WORDS = 5000  # maximum words per line; TER's time and memory grow quadratically


@dataclass(frozen=True)
class Scores:
    """The corpus-level BLEU and chrF of translations, with sacreBLEU's signatures."""

    bleu: float  # 0 to 100
    bleu_signature: str
    chrf: float  # 0 to 100; chrF2
    chrf_signature: str
    sentences: int


@dataclass(frozen=True)
class Comparison:
    """The scores of a baseline, and how the scores of the translations differ from them."""

    bleu: float  # of the baseline, 0 to 100
    bleu_difference: float  # translations minus baseline
    bleu_p_value: float  # 0 to 1
    chrf: float
    chrf_difference: float
    chrf_p_value: float


class Counting(TypedDict, total=False):
    """Options for computing BLEU, which do not affect chrF or TER. The defaults are sacreBLEU's."""

    target_language: str | None  # selects the tokenizer for zh, ja and ko
    lowercase: bool  # see `sacrebleu --lowercase`
    tokenize: str | None  # see `sacrebleu --tokenize`


def score(
    hypotheses: Sequence[str], *references: Sequence[str], **counting: Unpack[Counting]
) -> Scores:
    """Computes the BLEU and chrF of a corpus.

    Args:
        hypotheses: one detokenized translation per sentence.
        references: one or more lists, each with one detokenized reference per sentence.

    Raises:
        InputError: there are no translations, the numbers of translations and references differ, or
            a line has too many words. `bleu_metric` lists other errors.
    """
    from sacrebleu.metrics.chrf import CHRF  # slow to import

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
    """Computes a 95% confidence interval of BLEU by bootstrap resampling (Koehn, 2004).

    Returns the 2.5% and 97.5% quantiles of BLEU over 1000 resamples of the sentences. sacreBLEU
    uses the same resamples for its confidence intervals, but prints the mean of the scores on these
    resamples and half the width of the interval. The sum of the mean and half the width can exceed
    100. The environment variable SACREBLEU_SEED sets the random seed of the resamples (default
    12345).
    """
    check_texts(hypotheses, references)
    return interval(bleu_metric(**counting), hypotheses, references)


def interval(
    metric: BLEU, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[float, float]:
    """Computes a confidence interval like `bleu_interval`, but for any sacreBLEU metric."""
    scores = sorted(resampled_scores(metric, hypotheses, references))
    outside = len(scores) // 40  # 2.5% at each end
    return scores[outside], scores[-1 - outside]


def resampled_scores(
    metric: BLEU, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> list[float]:
    """Returns one score (0 to 100) for each of 1000 resamples of the sentences.

    All systems are scored on the same resamples of a test set, so the scores of two systems are
    paired. For the random seed of the resamples, see `bleu_interval`.
    """
    from sacrebleu.significance import _bootstrap_resample

    statistics = metric._extract_corpus_statistics(hypotheses, references)
    _, resampled = _bootstrap_resample(statistics, metric, RESAMPLES)
    return [min(found.score, 100.0) for found in resampled]  # rounding errors can exceed 100


def ter(hypotheses: Sequence[str], *references: Sequence[str]) -> tuple[float, str]:
    """Returns the translation edit rate (edits per 100 reference words) and its signature.

    Scoring several thousand sentences takes seconds, or longer if the translations are poor.
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
    """Compares translations with a baseline by paired bootstrap resampling (Koehn, 2004).

    Uses the same 1000 resamples as `sacrebleu --paired-bs`. For the random seed of the resamples,
    see `bleu_interval`. If both systems have the same score, the p-value is 1, whereas sacreBLEU
    may report 0.001.
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
    """Returns a BLEU metric of sacreBLEU. `Counting` describes the arguments.

    Raises:
        ArgumentError: `tokenize` is not the name of a sacreBLEU tokenizer.
        InputError: a package that the tokenizer requires is not installed.
        StorageError: a model that the tokenizer requires cannot be downloaded.
    """
    from sacrebleu.metrics.bleu import BLEU

    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        known = ", ".join(BLEU.TOKENIZERS)
        raise ArgumentError("{tokenize}: Unknown tokenizer {}. Choose one of: {}.", tokenize, known)
    language = language_of(target_language or "") if tokenize is None else ""
    try:
        # `force` disables warnings about tokenized text, see `plain_text`
        return BLEU(lowercase=lowercase, tokenize=tokenize, trg_lang=language, force=True)
    except (ImportError, RuntimeError):  # ja and ko need a morphological analyzer
        name = tokenize or f"for target language {target_language}"
        extra = tokenize.partition("-")[0] if tokenize else language
        raise InputError(
            f"sacreBLEU's tokenizer {name} is not installed. "
            f"Run \"pip install 'sacrebleu[{extra}]'\"."
        ) from None
    except (OSError, SystemExit) as error:
        raise StorageError(
            f"sacreBLEU's tokenizer {tokenize} cannot be downloaded ({error}). Check the "
            "network connection, or choose another tokenizer."
        ) from None


def check_texts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Checks that there is a hypothesis, and that each list has one reference per hypothesis.

    Raises:
        InputError: there are no hypotheses or no references, the numbers of hypotheses and
            references differ, or a line has too many words.
    """
    for lines in references:
        if len(lines) != len(hypotheses):
            raise InputError(
                f"Found {count(len(hypotheses), 'translation')}, but "
                f"{count(len(lines), 'reference')}. Provide one reference per translation."
            )
    if not hypotheses or not references:
        raise InputError("There is nothing to score. Provide at least one translation.")
    for side, lines in (("translations", hypotheses), *(("references", r) for r in references)):
        for number, line in enumerate(lines, start=1):
            if (words := len(line.split())) > _MOST_WORDS:
                raise InputError(
                    f"Line {number:,} of the {side} has {words:,} words, more than the maximum of "
                    f"{_MOST_WORDS:,}. Split it into sentences."
                )
