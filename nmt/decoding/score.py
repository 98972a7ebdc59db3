"""`nmt score`: the log-probability that a model gives to given translations."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from nmt.data.cleaning import normalize
from nmt.data.corpora import read_lines
from nmt.data.layout import Pair, one_per_row
from nmt.data.tokenizer import EOS_ID, PAD_ID
from nmt.decoding.translator import Precision, Translator
from nmt.errors import InputError
from nmt.model.transformer import Transformer

_BATCH_TOKENS = 2048  # padded target tokens whose logits are in memory at once


@dataclass(frozen=True)
class ScoredTranslation:
    pieces: list[str]  # the target's tokens as a person reads them, the end symbol last
    log_probabilities: list[float]  # natural log, one for each of them

    @property
    def log_probability(self) -> float:
        return math.fsum(self.log_probabilities)


@torch.inference_mode()
def log_probabilities(
    transformer: Transformer, pairs: Sequence[Pair], batch_tokens: int = _BATCH_TOKENS
) -> list[list[float]]:
    """Teacher-forced natural log-probability of each target token, in the order of `pairs`.

    Args:
        transformer: in evaluation mode.
        pairs: source and target token ids, each with its end symbol.
        batch_tokens: bound on the padded target tokens computed together.
    """
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
    found: list[list[float]] = [[] for _ in pairs]
    while order:
        size = max(1, batch_tokens // len(pairs[order[-1]][1]))
        some, order = order[-size:], order[:-size]
        batch = one_per_row([pairs[i] for i in some]).to(transformer.embedding.device)
        logits = transformer.logits(transformer(batch.src, batch.tgt_in))  # (B, T, V)
        logs = logits.float().log_softmax(-1).gather(-1, batch.tgt_out[..., None])[..., 0]
        for i, row, labels in zip(some, logs, batch.tgt_out, strict=True):
            found[i] = row[labels != PAD_ID].tolist()
    return found


def score_translations(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
) -> list[ScoredTranslation]:
    """What the model thinks of each target as the translation of its source, tokenised as usual.

    Raises:
        InputError: different numbers of lines; a sentence beyond the model's learned positions.
    """
    if len(sources) != len(targets):
        raise InputError(
            f"{len(sources):,} source lines but {len(targets):,} target lines, --source and "
            "--target, give files of as many lines"
        )
    sides = [
        [np.array([*ids, EOS_ID]) for ids in translator.tokenizer.encode_batch(texts)]
        for texts in ([normalize(text) for text in side] for side in (sources, targets))
    ]
    pairs = list(zip(*sides, strict=True))
    limit = translator.transformer.max_length or math.inf
    for number, pair in enumerate(pairs, start=1):
        if max(map(len, pair)) > limit:
            raise InputError(f"more than {limit} tokens, line {number}, shorten it")
    logs = log_probabilities(translator.transformer, pairs)
    return [
        ScoredTranslation(translator.tokenizer.pieces(target), values)
        for (_, target), values in zip(pairs, logs, strict=True)
    ]


def run_score(
    model: str | Path,
    source: Path,
    target: Path,
    *,
    each_token: bool,
    device: str | None,
    precision: Precision | None,
    note: Callable[[str], None],
) -> list[str]:
    """The lines that `nmt score` prints; perplexities go to `note`.

    Args:
        each_token: instead of a sum, each token with its log-probability, tab-separated pairs
            `piece value`.

    Raises:
        InputError: files that cannot be read or do not match (2).
        NoModelError: no sound model (3).
    """
    sources, targets = list(read_lines(source)), list(read_lines(target))
    translator = Translator.load(model, device=device, precision=precision, note=note)
    scored = score_translations(translator, sources, targets)
    total = math.fsum(line.log_probability for line in scored)
    tokens = sum(len(line.pieces) for line in scored)
    words = sum(len(text.split()) for text in targets)
    if words:
        note(
            f"perplexity {_exp(-total / tokens):.3f} a token ({tokens:,} with end symbols), "
            f"{_exp(-total / words):.3f} a word ({words:,})"
        )
    if not each_token:
        return [f"{line.log_probability:.6f}" for line in scored]
    return [
        "\t".join(
            f"{piece} {value:.6f}"
            for piece, value in zip(line.pieces, line.log_probabilities, strict=True)
        )
        for line in scored
    ]


def _exp(nll: float) -> float:
    return math.exp(nll) if nll < 700 else math.inf
