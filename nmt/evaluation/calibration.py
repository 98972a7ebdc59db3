"""Measures the calibration of a model's token probabilities on reference translations.

Guo et al. (2017) describe the expected calibration error (ECE). Müller et al. (2019) describe the
effect of label smoothing on the calibration of translation models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from nmt.errors import InputError
from nmt.translator import Translator

BINS = 15  # as in Guo et al. (2017)

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Bin:
    """A bin that contains the tokens whose confidence is greater than `low` and at most `high`."""

    low: float
    high: float
    tokens: int
    confidence: Share | None  # mean; None if there are no tokens
    accuracy: Share | None


@dataclass(frozen=True)
class Calibration:
    """The confidence and accuracy of a model's predictions of reference tokens.

    The confidence of a prediction is the probability of the most likely token. A prediction is
    correct if the most likely token is the reference token. The accuracy is the share of correct
    predictions. EOS counts as a token.
    """

    ece: Share
    confidence: Share  # mean over all tokens
    accuracy: Share
    tokens: int
    sentences: int
    too_long: int  # number of sentences that are too long for the model and were skipped
    label_smoothing: float  # with which the model was trained
    bins: list[Bin]  # of equal width


def calibration(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> Calibration:
    """Computes the calibration of a model on the references with teacher forcing.

    Raises:
        NoModelError: the model is an exported model, or the model's probabilities are NaN.
        InputError: every sentence pair is too long for the model.
    """
    pairs = translator.tokenizer.encode_pairs(sources, references)
    from nmt.decoding.score import max_tokens, top_predictions  # imports torch

    limit = max_tokens(translator)
    short = [pair for pair in pairs if max(len(pair.source), len(pair.target)) <= limit]
    if not short:
        raise InputError(
            f"Every sentence of the test set exceeds the model's maximum of {limit:,} tokens. Use "
            "a test set with shorter sentences."
        )
    confidences, hits = top_predictions(translator.transformer, short)
    bins = binned(confidences, hits)
    return Calibration(
        ece=expected_calibration_error(bins),
        confidence=float(confidences.mean()),
        accuracy=float(hits.mean()),
        tokens=len(hits),
        sentences=len(short),
        too_long=len(pairs) - len(short),
        label_smoothing=translator.config.training.label_smoothing,
        bins=bins,
    )


def binned(confidences: np.ndarray, hits: np.ndarray) -> list[Bin]:
    """Groups tokens by confidence in `BINS` bins of equal width.

    Args:
        confidences: array of shape (N,) with the probability of each prediction.
        hits: boolean array of shape (N,) that states whether each prediction is correct.
    """
    edges = np.linspace(0, 1, BINS + 1)
    places = np.digitize(confidences, edges[1:-1], right=True)
    found = []
    for place, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        inside = places == place
        means = [float(each[inside].mean()) for each in (confidences, hits) if inside.any()]
        found.append(Bin(low, high, int(inside.sum()), *(means or (None, None))))
    return found


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    """Returns the mean |accuracy - confidence| of the bins, weighted by the number of tokens."""
    gaps = [
        each.tokens * abs(each.accuracy - each.confidence)
        for each in bins
        if each.accuracy is not None and each.confidence is not None
    ]
    return sum(gaps) / sum(each.tokens for each in bins)
