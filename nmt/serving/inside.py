"""Computes attention and token probabilities of translations; runs in the model process."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.data.pair import Pair
from nmt.data.tokenizer import with_eos
from nmt.decoding.translation import Translation
from nmt.errors import ArgumentError

if TYPE_CHECKING:
    from nmt.translator import Translator


def sees_inside(translator: Any) -> bool:
    """Returns whether a translator provides attention and probabilities; exported models do not."""
    return not translator.is_exported


@dataclass(frozen=True)
class Details:
    """Attention and token probabilities; all empty if the sentence was translated in parts."""

    source_pieces: list[str]  # (S), with EOS
    pieces: list[str]  # (T)
    log_probabilities: list[float]  # (T), natural logarithm
    attention: list[list[float]]  # (T, S), see `nmt.decoding.alignment`


def details(
    translator: "Translator", sources: Sequence[str], translations: Sequence[Translation]
) -> list[Details]:
    """Computes the details of each sentence's translation in a forward pass.

    Raises:
        ArgumentError: the model was exported.
    """
    if not sees_inside(translator):
        raise ArgumentError(
            "An exported model supports neither {attention} nor {token_probabilities}. Leave them "
            "out, or use the original model."
        )
    from nmt.decoding.alignment import cross_attention  # exported models are served without torch
    from nmt.decoding.score import log_probabilities

    tokenizer = translator.tokenizer
    ids = tokenizer.encode_batch(sources)
    whole = [n for n, each in enumerate(translations) if each.parts == 1 and each.tokens]
    pairs = [Pair(with_eos(ids[n]), np.array(translations[n].tokens)) for n in whole]
    logs = log_probabilities(translator.transformer, pairs)
    weights = cross_attention(translator.search.transformers, pairs)
    found = [Details([], [], [], []) for _ in sources]
    for n, (src, tgt), values, matrix in zip(whole, pairs, logs, weights, strict=True):
        rounded = [[round(weight, 4) for weight in row] for row in matrix.tolist()]
        found[n] = Details(
            tokenizer.pieces(src.tolist()), tokenizer.pieces(tgt.tolist()), values, rounded
        )
    return found


def microscope(translator: "Translator", name: str, arguments: dict[str, Any]) -> bytes:
    """Calls a function of the page's microscope by name and returns its result as JSON."""
    from nmt.serving.microscope import inspect, search_tree  # imports torch
    from nmt.serving.steps import steps

    functions: dict[str, Callable[..., Any]] = {
        "inspect": inspect,
        "search_tree": search_tree,
        "steps": steps,
    }
    return json_bytes(functions[name](translator, **arguments))


def json_bytes(content: Any) -> bytes:
    """Returns JSON in UTF-8, without escapes for non-ASCII text."""
    written = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return written.encode(errors="replace")
