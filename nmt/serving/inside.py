"""Computes attention weights and token probabilities of translations, in the model process."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.pair import Pair
from nmt.data.tokenizer import with_eos
from nmt.decoding.translation import Translation
from nmt.errors import ArgumentError

if TYPE_CHECKING:
    from nmt.translator import Translator


def sees_inside(translator: Any) -> bool:
    """Returns whether a translator gives access to all internals of its model.

    An exported model gives access only to the cross-attention weights of its last decoder layer.
    """
    return not translator.is_exported


@dataclass(frozen=True)
class Details:
    """The attention weights and token log-probabilities of a sentence's translation.

    All fields are empty if the sentence was translated in parts.
    """

    source_pieces: list[str]  # (S), with EOS
    pieces: list[str]  # (T)
    log_probabilities: list[float]  # (T), natural logarithm; empty unless requested
    attention: list[list[float]]  # (T, S), see `nmt.decoding.alignment`; empty unless requested


def details(
    translator: "Translator",
    sources: Sequence[str],
    translations: Sequence[Translation],
    attention: bool,
    token_probabilities: bool,
) -> list[Details]:
    """Computes the attention weights and token probabilities of each translation, if requested.

    The computation requires additional forward passes.

    Raises:
        ArgumentError: `token_probabilities` is True, but the model is an exported model.
    """
    if token_probabilities and not sees_inside(translator):
        raise ArgumentError(
            "An exported model does not provide {token_probabilities}. Leave this field out, or "
            "serve the original model."
        )
    tokenizer = translator.tokenizer
    ids = tokenizer.encode_batch(sources)
    whole = [n for n, each in enumerate(translations) if each.parts == 1 and each.tokens]
    pairs = [Pair(with_eos(ids[n]), np.array(translations[n].tokens)) for n in whole]
    logs: Sequence[list[float]] = [[]] * len(pairs)
    weights: Sequence[NDArray[np.float32]] = [np.zeros((0, 0), np.float32)] * len(pairs)
    if attention:
        weights = translator.engine.cross_attention(pairs)
    if token_probabilities:
        from nmt.decoding.score import log_probabilities  # imports torch

        logs = log_probabilities(translator.transformer, pairs)
    found = [Details([], [], [], []) for _ in sources]
    for n, (src, tgt), values, matrix in zip(whole, pairs, logs, weights, strict=True):
        rounded = [[round(weight, 4) for weight in row] for row in matrix.tolist()]
        found[n] = Details(
            tokenizer.pieces(src.tolist()), tokenizer.pieces(tgt.tolist()), values, rounded
        )
    return found


def microscope(translator: "Translator", name: str, arguments: dict[str, Any]) -> bytes:
    """Calls the microscope function with the given name and returns its result as JSON."""
    from nmt.serving.microscope import inspect, search_tree  # imports torch
    from nmt.serving.steps import steps

    functions: dict[str, Callable[..., Any]] = {
        "inspect": inspect,
        "search_tree": search_tree,
        "steps": steps,
    }
    return json_bytes(functions[name](translator, **arguments))


def json_bytes(content: Any) -> bytes:
    """Encodes `content` as JSON in UTF-8, without escape sequences for non-ASCII characters."""
    written = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return written.encode(errors="replace")
