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

# maximum number of tokens per side of a batch, including padding; a longer pair forms its own batch
_BATCH_TOKENS = 2048
_WINDOW_LINES = 2048  # number of lines that are tokenized and sorted by length together


class Model(Protocol):
    """The attributes of `Translator` that the functions in this module use."""

    tokenizer: Tokenizer
    config: Config

    @property
    def transformers(self) -> list[Transformer]:
        """The models of the ensemble, whose probabilities are averaged."""


@dataclass(frozen=True)
class ScoredTranslation:
    """The tokens of a given translation, and the log-probability of each token."""

    pieces: list[str]  # the target's tokens as strings, </s> last
    log_probabilities: list[float]  # natural log, one per token

    @property
    def log_probability(self) -> float:
        """The natural log-probability of the whole translation."""
        return math.fsum(self.log_probabilities)


@torch.inference_mode()
def log_probabilities(transformer: Transformer, pairs: Sequence[TokenPair]) -> list[list[float]]:
    """Returns the natural log-probabilities of each pair's target tokens under teacher forcing.

    Args:
        transformer: the model, in evaluation mode.
        pairs: the token ids of sources and targets. Every source and target must end with EOS.

    Raises:
        NoModelError: the model's scores are NaN.
    """
    found: list[list[float]] = [[] for _ in pairs]
    for some, tokens, logs in _distributions(transformer, pairs):
        given = logs.gather(-1, tokens[..., None])[..., 0]
        for i, row in zip(some, given.tolist(), strict=True):  # one synchronization per batch
            found[i] = row[: len(pairs[i].target)]
            if any(map(math.isnan, found[i])):
                raise NoModelError(NOT_NUMBERS)
    return found


@torch.inference_mode()
def top_predictions(
    transformer: Transformer, pairs: Sequence[TokenPair]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probability and the correctness of the top prediction at each target position.

    The arguments and errors are the same as for `log_probabilities`.

    Returns:
        Two arrays of shape (N,), where N is the total number of target positions. The first array
        contains the probability of the most likely token at each position. The second array is True
        at each position where the most likely token is the target token. The order of the positions
        is unspecified.
    """
    confidences, hits = [], []
    for _, tokens, logs in _distributions(transformer, pairs):
        best, predicted = logs.max(-1)
        is_token = tokens != PAD_ID
        confidences.append(best[is_token].double().exp().clamp(max=1.0).cpu().numpy())
        hits.append((predicted == tokens)[is_token].cpu().numpy())
    found = np.concatenate(confidences)
    if np.isnan(found).any():
        raise NoModelError(NOT_NUMBERS)
    return found, np.concatenate(hits)


def _distributions(
    transformer: Transformer, pairs: Sequence[TokenPair]
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Yields the pair indices, target tokens and log-probabilities of each batch.

    A batch of B pairs has target tokens of shape (B, T) and log-probabilities of shape (B, T, V).
    """
    for some in by_length(pairs, _BATCH_TOKENS):
        batch = one_per_row([pairs[i] for i in some], transformer.embedding.device)
        logits = _logits(transformer, transformer(batch.src, batch.tgt_in))
        yield some, batch.tgt_out, logits.log_softmax(-1)


def _logits(transformer: Transformer, hidden: Tensor) -> Tensor:
    """Computes fp32 logits of shape (..., V) from hidden states of shape (..., D).

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
    """Scores each target as a translation of its source, and yields the results in input order.

    Sources and targets are tokenized in the same way as the training data.

    Raises:
        ArgumentError: the number of sources differs from the number of targets, or a sentence has
            more than `max_tokens(model)` tokens.
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
    """Returns the logarithms of the mean probabilities of all models.

    Maps log-probabilities of shape (models, T) to a list of T log-probabilities.
    """
    if len(logs) == 1:
        return logs[0]
    return (np.logaddexp.reduce(logs, axis=0) - math.log(len(logs))).tolist()
