"""BLEU and chrF of detokenised text, as sacreBLEU computes them, from 0 to 100.

sacreBLEU: Post (2018). BLEU: Papineni et al. (2002). chrF: Popović (2015). A signature says how
a figure came about; two figures compare only where the signatures agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.errors import InputError

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

_RESAMPLES = 1000  # sacreBLEU's own default


@dataclass(frozen=True)
class Scores:
    bleu: float  # 0 to 100
    bleu_signature: str
    chrf: float  # 0 to 100; chrF2
    chrf_signature: str
    sentences: int


def score(
    hypotheses: Sequence[str], *references: Sequence[str], target_language: str | None = None
) -> Scores:
    """Corpus BLEU and chrF with sacreBLEU's defaults for the language.

    Args:
        hypotheses: one detokenised translation a sentence.
        references: one or more lists, each with one reference a sentence, as raw text.
        target_language: chooses the tokenisation of languages without spaces (zh, ja, ko).

    Raises:
        InputError: nothing to score, unequal numbers of lines, or a missing extra.
    """
    from sacrebleu.metrics.chrf import CHRF  # imports are late: they cost more than a short search

    _check_counts(hypotheses, references)
    bleu, chrf = _bleu(target_language), CHRF()
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
    hypotheses: Sequence[str], *references: Sequence[str], target_language: str | None = None
) -> tuple[float, float]:
    """Bounds of BLEU's 95% confidence interval.

    Koehn (2004): the mean of 1000 bootstrap resamples of the sentences, give or take half the
    distance between their 2.5% and 97.5% quantiles, as `sacrebleu --confidence` reports it. The
    generator starts from the environment variable SACREBLEU_SEED, 12345 by default.
    """
    _check_counts(hypotheses, references)
    found = _bleu(target_language).corpus_score(hypotheses, references, n_bootstrap=_RESAMPLES)
    return found._mean - found._ci, found._mean + found._ci


def _bleu(target_language: str | None) -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    try:
        return BLEU(trg_lang=target_language or "")
    except (ImportError, RuntimeError):  # ja and ko need a morphological analyser
        raise InputError(
            f"sacreBLEU's tokeniser is not installed, target language {target_language}, "
            f'pip install "sacrebleu[{target_language}]"'
        ) from None


def _check_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    for lines in references:
        if len(lines) != len(hypotheses):
            raise InputError(
                f"{len(hypotheses)} translations but {len(lines)} references, "
                "the files to compare, give each translation its reference"
            )
    if not hypotheses or not references:
        raise InputError("nothing to score, the translations, give at least one line")
