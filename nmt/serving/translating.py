"""Texts of a request through the batcher: sentences in, whole texts out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from fastapi import Request

from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation, combine, different
from nmt.errors import ArgumentError
from nmt.model.special_ids import EOS_ID
from nmt.serving.requests import answer, aside, batcher_of
from nmt.serving.texts import Span, joined, parts, spans

if TYPE_CHECKING:
    from nmt.decoding.translator import Translator

_QUICKLY_CUT = 1000  # characters, whose tokens are found within half a millisecond


@dataclass(frozen=True)
class Sentence:
    """A sentence of a text, or a line of it, and its translations, best first."""

    source: Span
    target: Span  # of the best, in the text's best translation
    translations: list[Translation]


@dataclass(frozen=True)
class TranslatedText:
    """A text's translations, best first: the n-th best of its sentences make up its n-th best."""

    texts: list[str]
    scores: list[float]
    sentences: list[Sentence]


async def translated(
    request: Request,
    texts: Sequence[str],
    options: SearchOptions,
    *,
    language: str | None,
    prefix: str = "",
    tag: str = "",
) -> list[TranslatedText]:
    """The translations of each text.

    Args:
        language: of the texts, whose lines are cut into sentences; None: they are not.
        prefix: how the translation of each text begins.
        tag: goes before every sentence that the model sees, such as "<2de> ".
    """
    places = [spans(text, language) for text in texts]
    units = [
        tag + text[begin:end]
        for text, some in zip(texts, places, strict=True)
        for begin, end in some
    ]
    prefixes = [prefix if not n else "" for some in places for n in range(len(some))]
    found = iter(await n_best(request, units, options, prefixes if prefix else ()))
    return [
        _together(text, some, [next(found) for _ in some])
        for text, some in zip(texts, places, strict=True)
    ]


async def n_best(
    request: Request, texts: Sequence[str], options: SearchOptions, prefixes: Sequence[str] = ()
) -> list[list[Translation]]:
    """What `Translator.n_best` gives; a long text is queued in parts, and others come between."""
    batcher = batcher_of(request)
    most = batcher.translator.max_part
    cut = [[text] for text in texts]
    long = sum(len(text) for text in texts if len(text) > most)
    if long > _QUICKLY_CUT:
        cut = await aside(request, _cut, texts, batcher.translator)
    elif long:
        cut = _cut(texts, batcher.translator)
    begins = [
        prefixes[number] if not place else ""
        for number, some in enumerate(cut if prefixes else [])
        for place in range(len(some))
    ]
    work = batcher.translate([part for some in cut for part in some], options, begins)
    found = iter(await answer(request, work))
    return [
        _whole(text, some, [next(found) for _ in some])
        for text, some in zip(texts, cut, strict=True)
    ]


def _cut(texts: Sequence[str], translator: "Translator") -> list[list[str]]:
    return [parts(text, translator.tokenizer, translator.max_part) for text in texts]


def _whole(text: str, cut: list[str], found: list[list[Translation]]) -> list[Translation]:
    """The translations of a text from those of its parts, whose alignments count from their own
    first words.
    """
    if len(cut) == 1:
        return found[0]
    words = [number for number, word in enumerate(text.split()) for _ in word]  # of each character
    before, moved = 0, []
    for part, some in zip(cut, found, strict=True):
        first = words[min(before, len(words) - 1)]  # every part has the text's tag, if it has one
        before += sum(map(len, part.split()))
        moved.append([
            each if each.alignment is None
            else replace(each, alignment=[(first + s, t) for s, t in each.alignment])
            for each in some
        ])  # fmt: skip
    return different(combine(moved))


def sees_inside(translator: object) -> bool:
    """Whether attention and probabilities are to be had; of an exported model they are not."""
    return hasattr(translator, "transformer")


def _together(text: str, places: list[Span], found: list[list[Translation]]) -> TranslatedText:
    texts, scores = [], []
    targets: list[Span] = []
    for rank in range(max(map(len, found), default=1)):
        ranked = [each[min(rank, len(each) - 1)] for each in found]
        whole, stand = joined(text, places, [each.text for each in ranked])
        targets = targets or stand
        texts.append(whole)
        scores.append(sum(each.score for each in ranked))
    sentences = [Sentence(*each) for each in zip(places, targets, found, strict=True)]
    return TranslatedText(texts, scores, sentences)


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
    pairs = [(np.array([*ids[n], EOS_ID]), np.array(translations[n].tokens)) for n in whole]
    logs = log_probabilities(translator.transformer, pairs)
    weights = cross_attention(translator.search.transformers, pairs)
    found = [Details([], [], [], []) for _ in sources]
    for n, (src, tgt), values, matrix in zip(whole, pairs, logs, weights, strict=True):
        rounded = [[round(weight, 4) for weight in row] for row in matrix.tolist()]
        found[n] = Details(
            tokenizer.pieces(src.tolist()), tokenizer.pieces(tgt.tolist()), values, rounded
        )
    return found
