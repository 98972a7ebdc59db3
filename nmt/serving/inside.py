"""What a model has inside that is told beside a translation; it runs where the model is."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.data.pair import Pair
from nmt.decoding.translation import Translation
from nmt.errors import ArgumentError
from nmt.model.special_ids import EOS_ID

if TYPE_CHECKING:
    from nmt.translator import Translator


def sees_inside(translator: object) -> bool:
    """Whether attention and probabilities are to be had; of an exported model they are not."""
    return hasattr(translator, "transformer")


@dataclass(frozen=True)
class Details:
    """How the model sees a translated sentence; empty if it was translated in several parts."""

    source_pieces: list[str]  # S of them, the end symbol last
    pieces: list[str]  # T of them
    log_probabilities: list[float]  # natural log, of each piece
    attention: list[list[float]]  # T x S: see `nmt.decoding.alignment`


def details(
    translator: "Translator", sources: Sequence[str], translations: Sequence[Translation]
) -> list[Details]:
    """The details of each best translation; one pass through the model, on its thread.

    Raises:
        ArgumentError: the model is an exported one, which does not give them.
    """
    if not sees_inside(translator):
        raise ArgumentError(
            "not of an exported model, {attention} and {token_probabilities}, leave them out"
        )
    from nmt.decoding.alignment import cross_attention  # exported models are served without torch
    from nmt.decoding.score import log_probabilities

    tokenizer = translator.tokenizer
    ids = tokenizer.encode_batch([tokenizer.normalize(source) for source in sources])
    whole = [n for n, each in enumerate(translations) if each.parts == 1 and each.tokens]
    pairs = [Pair(np.array([*ids[n], EOS_ID]), np.array(translations[n].tokens)) for n in whole]
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
    """Returns what a function behind the page's microscope gives, as JSON."""
    from nmt.serving.microscope import inspect, search_tree  # as above
    from nmt.serving.steps import steps

    functions: dict[str, Callable[..., Any]] = {
        "inspect": inspect,
        "search_tree": search_tree,
        "steps": steps,
    }
    return json_bytes(functions[name](translator, **arguments))


def json_bytes(content: Any) -> bytes:
    """JSON whose text is written as it is, in UTF-8."""
    written = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return written.encode(errors="replace")
