"""Computes the log-probabilities of given translations."""

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
from nmt.data.pair import TokenPair
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.beam_search import NOT_NUMBERS
from nmt.errors import ArgumentError, NoModelError, count
from nmt.model.special_ids import PAD_ID
from nmt.model.transformer import Transformer

_BATCH_TOKENS = 2048  # maximum per side, including padding; a longer pair forms its own batch
_WINDOW_LINES = 2048  # number of lines that are tokenized and sorted by length together


class Model(Protocol):
    """The attributes of `Translator` that scoring needs."""

    tokenizer: Tokenizer
    config: Config

    @property
    def transformers(self) -> list[Transformer]:
        """The models of the ensemble; their probabilities are averaged."""


@dataclass(frozen=True)
class ScoredTranslation:
    """A given translation and the log-probabilities that the model assigns to its tokens."""

    pieces: list[str]  # the target's tokens as strings, </s> last
    log_probabilities: list[float]  # natural log, one per token

    @property
    def log_probability(self) -> float:
        """Natural log-probability of the whole translation."""
        return math.fsum(self.log_probabilities)


@torch.inference_mode()
def log_probabilities(
    transformer: Transformer, pairs: Sequence[TokenPair], batch_tokens: int = _BATCH_TOKENS
) -> list[list[float]]:
    """Returns the natural log-probabilities of each pair's target tokens under teacher forcing.

    Args:
        transformer: the model, in evaluation mode.
        pairs: source and target token ids, each ending with EOS.
        batch_tokens: maximum number of tokens per side of a batch, including padding.

    Raises:
        NoModelError: the model's scores are NaN.
    """
    found: list[list[float]] = [[] for _ in pairs]
    for some, tokens, logs in _distributions(transformer, pairs, batch_tokens):
        given = logs.gather(-1, tokens[..., None])[..., 0]
        for i, row in zip(some, given.tolist(), strict=True):  # one synchronization per batch
            found[i] = row[: len(pairs[i].target)]
            if any(map(math.isnan, found[i])):
                raise NoModelError(NOT_NUMBERS)
    return found


@torch.inference_mode()
def top_predictions(
    transformer: Transformer, pairs: Sequence[TokenPair], batch_tokens: int = _BATCH_TOKENS
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the model's confidence in its top prediction at each target position.

    See `log_probabilities` for arguments and errors.

    Returns:
        The probability of the most likely token, and whether this token equals the target token.
        Both arrays have shape (N,), for the N target positions of all pairs in no particular order.
    """
    confidences, hits = [], []
    for _, tokens, logs in _distributions(transformer, pairs, batch_tokens):
        best, predicted = logs.max(-1)
        is_token = tokens != PAD_ID
        confidences.append(best[is_token].double().exp().clamp(max=1.0).cpu().numpy())
        hits.append((predicted == tokens)[is_token].cpu().numpy())
    found = np.concatenate(confidences)
    if np.isnan(found).any():
        raise NoModelError(NOT_NUMBERS)
    return found, np.concatenate(hits)


def _distributions(
    transformer: Transformer, pairs: Sequence[TokenPair], batch_tokens: int
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Yields the indices of the B pairs, the target tokens and the log-softmax of each batch.

    Shapes: target tokens (B, T), log-softmax (B, T, V).
    """
    for some in by_length(pairs, batch_tokens):
        batch = one_per_row([pairs[i] for i in some]).to(transformer.embedding.device)
        logits = _logits(transformer, transformer(batch.src, batch.tgt_in))
        yield some, batch.tgt_out, logits.log_softmax(-1)


def _logits(transformer: Transformer, hidden: Tensor) -> Tensor:
    """Computes logits in fp32: (..., D) -> (..., V).

    Rounding the logits to bf16 would change log-probabilities by up to 0.06.
    """
    if hidden.dtype == torch.float32:
        return transformer.logits(hidden)
    bias = transformer.output_bias
    return F.linear(
        hidden.float(), transformer.embedding.float(), None if bias is None else bias.float()
    )


def score_translations(
    model: Model, sources: Sequence[str], targets: Sequence[str]
) -> Iterator[ScoredTranslation]:
    """Yields the log-probabilities of each target as the translation of its source, in order.

    Sources and targets are tokenized as in training.

    Raises:
        ArgumentError: the numbers of sources and targets differ, or a sentence has more than
            `max_tokens(model)` tokens.
        NoModelError: the model's scores are NaN.
    """
    if len(sources) != len(targets):
        found = count(len(sources), "line"), count(len(targets), "line")
        raise ArgumentError(
            "{source} has {}, but {target} has {}. Provide one target line per source line.", *found
        )
    limit = max_tokens(model)
    for begin in range(0, len(sources), _WINDOW_LINES):
        end = begin + _WINDOW_LINES
        pairs = model.tokenizer.encode_pairs(sources[begin:end], targets[begin:end])
        for number, pair in enumerate(pairs, start=begin + 1):
            for name, ids in zip(("source", "target"), pair, strict=True):
                if len(ids) > limit:
                    raise ArgumentError(
                        f"Line {{}} of {{{name}}} has more than {{}} tokens. Shorten it.",
                        number,
                        f"{limit:,}",
                    )
        of_models = [log_probabilities(each, pairs) for each in model.transformers]
        for (_, target), *logs in zip(pairs, *of_models, strict=True):
            yield ScoredTranslation(model.tokenizer.pieces(target), _averaged(logs))


def max_tokens(model: Model) -> int:
    """Returns the maximum length in tokens, including EOS, of a source or target to score."""
    limit = max(_BATCH_TOKENS, model.config.data.max_length)
    return min(each.max_length or limit for each in model.transformers)


def _averaged(logs: Sequence[list[float]]) -> list[float]:
    """Returns the logs of the mean probabilities over models: (models, T) -> (T)."""
    if len(logs) == 1:
        return logs[0]
    return (np.logaddexp.reduce(logs, axis=0) - math.log(len(logs))).tolist()
