"""Implements `nmt score`, which computes the log-probabilities of given translations."""

import math
from collections.abc import Iterator
from pathlib import Path

from nmt.data.languages import wrong_languages
from nmt.decoding.score import ScoredTranslation, score_translations
from nmt.errors import Note, count
from nmt.model.kernels.prepacking import Precision
from nmt.runs.model_directory import refuse_exported
from nmt.storage.opening import read_lines
from nmt.translator import Translator


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
    """Yields the output lines of `nmt score`, then calls `note` with the perplexities.

    Args:
        each_token: whether each output line lists the log-probabilities of all tokens, as
            tab-separated `piece value` pairs, instead of their sum.
        precision: the precision of the model's computations, or None for fp32 on every device.
            Logits are always computed in fp32.
        note: called with each user-facing message.

    Raises:
        InputError: a file cannot be read, or the two files have different numbers of lines.
        NoModelError: the model does not exist or is unusable, or its scores are NaN.
    """
    refuse_exported(Path(model))
    sources, targets = list(read_lines(source)), list(read_lines(target))
    translator = Translator.load(model, device=device, precision=precision or "fp32", note=note)
    data = translator.config.data
    if problem := wrong_languages(
        (str(source), sources, data.source_language), (str(target), targets, data.target_language)
    ):
        note(f"nmt: warning: {problem}")
    total, tokens = 0.0, 0
    for line in score_translations(translator, sources, targets):
        total += line.log_probability
        tokens += len(line.pieces)
        yield _formatted(line, each_token)
    words = sum(len(text.split()) for text in targets)
    if words:
        note(
            f"Perplexity: {_exp(-total / tokens):.3f} per token ({count(tokens, 'token')}, "
            f"including EOS), {_exp(-total / words):.3f} per word ({count(words, 'word')})."
        )


def _formatted(line: ScoredTranslation, each_token: bool) -> str:
    if not each_token:
        return f"{line.log_probability:.6f}"
    each = zip(line.pieces, line.log_probabilities, strict=True)
    return "\t".join(f"{piece} {value:.6f}" for piece, value in each)


def _exp(nll: float) -> float:
    return math.exp(nll) if nll < 700 else math.inf
