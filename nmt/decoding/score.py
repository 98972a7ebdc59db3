"""`nmt score`: the log-probability that a model gives to given translations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.data.layout import Pair, by_length, one_per_row
from nmt.decoding.search import NOT_NUMBERS
from nmt.decoding.translator import Translator
from nmt.errors import ArgumentError, InputError, NoModelError, Note, count
from nmt.model.prepacking import Precision
from nmt.model.special_ids import EOS_ID, PAD_ID
from nmt.model.transformer import Transformer
from nmt.storage.opening import read_lines

_BATCH_TOKENS = 2048  # padded, a side, in memory at once; data.max_length may allow longer lines
_WINDOW_LINES = 2048  # tokenized and sorted by length together


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
    transformer: Transformer, pairs: Sequence[Pair], batch_tokens: int = _BATCH_TOKENS
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
        for i, row, labels in zip(some, logs, batch.tgt_out, strict=True):
            found[i] = row[labels != PAD_ID].tolist()
            if any(map(math.isnan, found[i])):
                raise NoModelError(NOT_NUMBERS)
    return found


def _logits(transformer: Transformer, hidden: Tensor) -> Tensor:
    """(..., D) -> (..., V) fp32: rounded to bf16, a log-probability may be off by 0.06."""
    if hidden.dtype == torch.float32:
        return transformer.logits(hidden)
    return F.linear(hidden.float(), transformer.embedding.float())


def score_translations(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
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
    limit = max(_BATCH_TOKENS, translator.config.data.max_length)
    limit = min(limit, translator.transformer.max_length or limit)
    for begin in range(0, len(sources), _WINDOW_LINES):
        end = begin + _WINDOW_LINES
        pairs = list(
            zip(*(_ids(translator, side[begin:end]) for side in (sources, targets)), strict=True)
        )
        for number, pair in enumerate(pairs, start=begin + 1):
            if max(map(len, pair)) > limit:
                raise InputError(f"more than {limit:,} tokens, line {number}, shorten it")
        logs = log_probabilities(translator.transformer, pairs)
        for (_, target), values in zip(pairs, logs, strict=True):
            yield ScoredTranslation(translator.tokenizer.pieces(target), values)


def _ids(translator: Translator, texts: Sequence[str]) -> list[np.ndarray]:
    tokenizer = translator.tokenizer
    encoded = tokenizer.encode_batch([tokenizer.normalize(text) for text in texts])
    return [np.array([*ids, EOS_ID]) for ids in encoded]


def run_score(
    model: str | Path,
    source: Path,
    target: Path,
    *,
    each_token: bool,
    device: str | None,
    precision: Precision | None,
    note: Note,
) -> Iterator[str]:
    """Yields the lines that `nmt score` prints; at the end, tells `note` the perplexities.

    Args:
        each_token: give each token with its log-probability, as tab-separated pairs
            `piece value`, instead of the sum.
        precision: None: fp32 on every device. Logits are fp32 in any.

    Raises:
        InputError: files that cannot be read or do not match (2).
        NoModelError: no sound model, or its scores are not numbers (3).
    """
    sources, targets = list(read_lines(source)), list(read_lines(target))
    translator = Translator.load(model, device=device, precision=precision or "fp32", note=note)
    total, tokens = 0.0, 0
    for line in score_translations(translator, sources, targets):
        total += line.log_probability
        tokens += len(line.pieces)
        yield _formatted(line, each_token)
    words = sum(len(text.split()) for text in targets)
    if words:
        note(
            f"perplexity: {_exp(-total / tokens):.3f} per token ({count(tokens, 'token')}, end "
            f"symbols included), {_exp(-total / words):.3f} per word ({count(words, 'word')})"
        )


def _formatted(line: ScoredTranslation, each_token: bool) -> str:
    if not each_token:
        return f"{line.log_probability:.6f}"
    each = zip(line.pieces, line.log_probabilities, strict=True)
    return "\t".join(f"{piece} {value:.6f}" for piece, value in each)


def _exp(nll: float) -> float:
    return math.exp(nll) if nll < 700 else math.inf
