"""Translates the texts of a request sentence by sentence with the batcher."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fastapi import Request

from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation, combine, different
from nmt.serving.model_process import Model
from nmt.serving.requests import answer, aside, batcher_of
from nmt.serving.texts import Span, joined, parts, spans

_QUICKLY_CUT = 1000  # characters, which are tokenized in less than 0.5 ms


@dataclass(frozen=True)
class Sentence:
    """A sentence or line of a text, with its translations, best first."""

    source: Span
    target: Span  # span of the best translation in the text's best translation
    translations: list[Translation]


@dataclass(frozen=True)
class TranslatedText:
    """The translations of a text, best first.

    The n-th translation consists of the n-th best translation of each sentence.
    """

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
    """Translates texts sentence by sentence.

    Args:
        language: the language of the texts, or None to treat each line as one sentence.
        prefix: text with which the translation of each text must begin.
        tag: the target-language symbol and space to put before every sentence, such as "<2de> ",
            or "" for no symbol.
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
    """Returns the n best translations of each text. Long texts are translated in parts."""
    batcher = batcher_of(request)
    model = batcher.model
    cut = [[text] for text in texts]
    long = sum(len(text) for text in texts if len(text) > model.max_part)
    if long > _QUICKLY_CUT:
        cut = await aside(request, _cut, texts, model)
    elif long:
        cut = _cut(texts, model)
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


def _cut(texts: Sequence[str], model: Model) -> list[list[str]]:
    return [parts(text, model.tokenizer, model.max_part) for text in texts]


def _whole(text: str, cut: list[str], found: list[list[Translation]]) -> list[Translation]:
    """Joins the translations of a text's parts and adapts their alignments to the whole text."""
    if len(cut) == 1:
        return found[0]
    words = [number for number, word in enumerate(text.split()) for _ in word]  # per character
    before, moved = 0, []
    for part, some in zip(cut, found, strict=True):
        first = words[min(before, len(words) - 1)]  # every part begins with the text's tag
        before += sum(map(len, part.split()))
        moved.append([
            each if each.alignment is None
            else replace(each, alignment=[(first + s, t) for s, t in each.alignment])
            for each in some
        ])  # fmt: skip
    return different(combine(moved))


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
