"""The log-probability that a model gives to given translations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.config import Config
from nmt.data.layout import by_length, one_per_row
from nmt.data.pair import Pair, TokenPair
from nmt.data.tokenizer import Tokenizer, with_eos
from nmt.decoding.beam_search import NOT_NUMBERS
from nmt.errors import ArgumentError, InputError, NoModelError, count
from nmt.model.transformer import Transformer

_BATCH_TOKENS = 2048  # padded, a side, in memory at once; data.max_length may allow longer lines
_WINDOW_LINES = 2048  # tokenized and sorted by length together


class Model(Protocol):
    """The part of Translator that is used here."""

    transformers: list[Transformer]  # several: their probabilities are averaged
    tokenizer: Tokenizer
    config: Config


@dataclass(frozen=True)
class ScoredTranslation:
    """A given translation and what the model gives it."""

    pieces: list[str]  # the target's tokens as a person reads them, the end symbol last
    log_probabilities: list[float]  # natural log, one for each of them

    @property
    def log_probability(self) -> float:
        """Natural log, of the whole translation."""
        return math.fsum(self.log_probabilities)


@torch.inference_mode()
def log_probabilities(
    transformer: Transformer, pairs: Sequence[TokenPair], batch_tokens: int = _BATCH_TOKENS
) -> list[list[float]]:
    """Teacher-forced natural log-probability of each target token, in the order of `pairs`.

    Args:
        transformer: in evaluation mode.
        pairs: source and target token ids, each with its end symbol.
        batch_tokens: bound on the tokens of either side of a batch, padding counted.

    Raises:
        NoModelError: the model's scores are not numbers.
    """
    found: list[list[float]] = [[] for _ in pairs]
    for some in by_length(pairs, batch_tokens):
        batch = one_per_row([pairs[i] for i in some]).to(transformer.embedding.device)
        logits = _logits(transformer, transformer(batch.src, batch.tgt_in))  # (B, T, V)
        logs = logits.log_softmax(-1).gather(-1, batch.tgt_out[..., None])[..., 0]
        for i, row in zip(some, logs.tolist(), strict=True):  # waits for a GPU once in a batch
            found[i] = row[: len(pairs[i].target)]
            if any(map(math.isnan, found[i])):
                raise NoModelError(NOT_NUMBERS)
    return found


def _logits(transformer: Transformer, hidden: Tensor) -> Tensor:
    """(..., D) -> (..., V) fp32: rounded to bf16, a log-probability may be off by 0.06."""
    if hidden.dtype == torch.float32:
        return transformer.logits(hidden)
    return F.linear(hidden.float(), transformer.embedding.float())


def score_translations(
    model: Model, sources: Sequence[str], targets: Sequence[str]
) -> Iterator[ScoredTranslation]:
    """The log-probability of each target as the translation of its source, in order.

    Both are tokenized as for training. Yields results window by window, so
    that those of many lines need not be in memory.

    Raises:
        ArgumentError: different numbers of lines.
        InputError: a sentence with more tokens than the model has learned positions, or than both
            `data.max_length` and `_BATCH_TOKENS`.
        NoModelError: the model's scores are not numbers.
    """
    if len(sources) != len(targets):
        found = count(len(sources), "source line"), count(len(targets), "target line")
        raise ArgumentError("{} but {}, {source} and {target}, give as many lines of each", *found)
    limit = max(_BATCH_TOKENS, model.config.data.max_length)
    limit = min(each.max_length or limit for each in model.transformers)
    for begin in range(0, len(sources), _WINDOW_LINES):
        end = begin + _WINDOW_LINES
        sides = (_ids(model.tokenizer, side[begin:end]) for side in (sources, targets))
        pairs = list(map(Pair, *sides))
        for number, pair in enumerate(pairs, start=begin + 1):
            if max(map(len, pair)) > limit:
                raise InputError(f"more than {limit:,} tokens, line {number}, shorten it")
        of_models = [log_probabilities(each, pairs) for each in model.transformers]
        for (_, target), *logs in zip(pairs, *of_models, strict=True):
            yield ScoredTranslation(model.tokenizer.pieces(target), _averaged(logs))


def _averaged(logs: Sequence[list[float]]) -> list[float]:
    """Log-probabilities of the mean of several models' probabilities, (models, T) -> (T)."""
    if len(logs) == 1:
        return logs[0]
    return (np.logaddexp.reduce(logs, axis=0) - math.log(len(logs))).tolist()


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    return [with_eos(ids) for ids in tokenizer.encode_batch(texts)]
