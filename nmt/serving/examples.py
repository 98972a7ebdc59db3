"""Selects test-set sentences that illustrate how a model works."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from nmt.decoding.beam_search import length_penalty
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation
from nmt.reporting.about_model import first_sight
from nmt.serving.doubt import doubts
from nmt.serving.microscope import inspect, search_tree
from nmt.translator import Translator

JSON = dict[str, Any]

_LONGEST = 16  # maximum number of words in an example
_MOVED = 3  # minimum distance in words between two translations in reverse order
# Minimum probability of an ambiguous token, and the maximum amount by which it differs from the
# probability of the most likely other token
_LIKELY, _CLOSE = 0.3, 0.1


def examples(translator: Translator, sources: Sequence[str]) -> JSON:
    """Returns the example sentences that the web page of `nmt serve` offers for a model.

    Args:
        sources: the sentences to choose from. Sentences with fewer than 3 or more than 16 words are
            ignored.

    Returns:
        An object with two keys. `opening` is the sentence that the page shows when it is opened, or
        None if no sentence is suitable. `examples` is a list of objects, each with a `kind` and a
        `text`. The list contains at most one object of each of these kinds:

        * "alpha": the best finished hypothesis with a length penalty of 0 differs from the best
          finished hypothesis with a length penalty of 2.
        * "beam": greedy search and beam search with a beam size of 4 give different translations.
        * "bytes": the source contains non-ASCII characters. The translation contains all of these
          characters, and at least one byte token.
        * "order": the translations of two source words are in reverse order and at least 3 words
          apart.
        * "ambiguous": every token of the translation has a probability of at least 0.3. At the
          position of the token with the lowest probability, the probability of the most likely
          alternative differs from this lowest probability by at most 0.1. Both the token and its
          alternative begin a word.
    """
    sources = [text for text in dict.fromkeys(sources) if 3 <= len(text.split()) <= _LONGEST]
    found = translator.translate(sources, SearchOptions(align=True))
    sound = [(text, best) for text, best in zip(sources, found, strict=True)
             if not doubts(text, best)]  # fmt: skip
    kinds: dict[str, Callable[[str, Translation], bool]] = {
        "order": _is_reordered,
        "ambiguous": lambda text, best: _is_ambiguous(translator, text, best.text),
        "bytes": _is_copied_in_bytes,
        "beam": lambda text, best: _differs_by_beam(translator, text),
        "alpha": lambda text, best: _differs_by_alpha(translator, text),
    }
    opening = first_sight([text for text, _ in sound])
    chosen: dict[str, str] = {}
    for kind, shows in kinds.items():
        left = (each for each in sound if each[0] not in (opening, *chosen.values()))
        if one := next((text for text, best in left if shows(text, best)), None):
            chosen[kind] = one
    listed = [{"kind": kind, "text": text} for kind, text in chosen.items()]
    return {"opening": opening, "examples": listed}


def _is_reordered(_: str, best: Translation) -> bool:
    links = best.alignment or []
    return any(first < second and there >= other + _MOVED
               for first, there in links for second, other in links)  # fmt: skip


def _is_ambiguous(translator: Translator, text: str, target: str) -> bool:
    tokens = inspect(translator, text, target, "cross")["target"]["tokens"]
    one = min(tokens, key=lambda token: token["log_probability"])
    other = next(each for each in one["likeliest"] if each["piece"] != one["piece"])
    if not all(each["piece"].startswith("\u2581") for each in (one, other)):
        return False
    p = math.exp(one["log_probability"])
    return p >= _LIKELY and abs(p - other["probability"]) <= _CLOSE


def _is_copied_in_bytes(text: str, best: Translation) -> bool:
    if not any(piece.startswith("<0x") for piece in best.pieces):
        return False
    rare = {letter for letter in text if ord(letter) > 127}
    return bool(rare) and rare <= set(best.text)


def _differs_by_beam(translator: Translator, text: str) -> bool:
    options = [SearchOptions(beam=width) for width in (1, 4)]
    greedy, wide = (translator.translate(text, each).text for each in options)
    return greedy != wide


def _differs_by_alpha(translator: Translator, text: str) -> bool:
    finished = search_tree(translator, text)["finished"]
    if not finished:
        return False
    best = [
        max(finished, key=lambda each: each["log_probability"] / length_penalty(each["length"], a))
        for a in (0.0, 2.0)
    ]
    return best[0]["text"] != best[1]["text"]
