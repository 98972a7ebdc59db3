"""Implements LibreTranslate's API, so that LibreTranslate clients work with this server."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from nmt.data.tokenizer import Tokenizer
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation
from nmt.documents.markup import Markup
from nmt.serving.limits import MAX_BEAM
from nmt.serving.requests import (
    aside,
    batcher_of,
    check_texts,
    described,
    json_response,
    limits_of,
    parsed,
)
from nmt.serving.translating import n_best, translated

router = APIRouter()

_NAMES = dict(
    pair.split(":")
    for pair in """
    ar:Arabic az:Azerbaijani bg:Bulgarian bn:Bengali ca:Catalan cs:Czech da:Danish de:German
    el:Greek en:English eo:Esperanto es:Spanish et:Estonian eu:Basque fa:Persian fi:Finnish
    fr:French ga:Irish gl:Galician he:Hebrew hi:Hindi hr:Croatian hu:Hungarian id:Indonesian
    is:Icelandic it:Italian ja:Japanese ko:Korean lt:Lithuanian lv:Latvian ms:Malay nb:Norwegian
    nl:Dutch no:Norwegian pl:Polish pt:Portuguese ro:Romanian ru:Russian sk:Slovak sl:Slovenian
    sq:Albanian sr:Serbian sv:Swedish th:Thai tl:Tagalog tr:Turkish uk:Ukrainian ur:Urdu
    vi:Vietnamese zh:Chinese
    """.split()  # noqa: SIM905
)
_TAG = re.compile("<2([A-Za-z-]{2,12})>")  # matches a symbol that requests a target language


class TranslateQuestion(BaseModel):
    """The body of a /translate request. Unknown fields, such as `api_key`, are ignored."""

    q: str | list[str]
    source: str = Field(description="language code, or auto")
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MAX_BEAM - 1)


class DetectQuestion(BaseModel):
    """The body of a /detect request."""

    q: str | list[str]


def directions(request: Request) -> dict[str, dict[str, str]]:
    """Returns the translation directions of the served model.

    Returns:
        A dictionary that maps each source language to a dictionary of its target languages. The
        inner dictionary maps each target language to the tag that every source sentence must begin
        with. A tag is a symbol and a space, such as "<2de> ", or "" if no symbol is needed.
    """
    model = batcher_of(request).model
    symbols, target = model.tokenizer.symbols, model.config.data.target_language
    tags = {found[1]: symbol for symbol in symbols if (found := _TAG.fullmatch(symbol))}
    if len(tags) < 2:
        tag = f"{tags[target]} " if target in tags else ""
        return {model.config.data.source_language: {target: tag}}
    return {code: {to: f"{symbol} " for to, symbol in tags.items() if to != code} for code in tags}


@router.post("/translate", openapi_extra=described(TranslateQuestion, form=True))
async def translate(request: Request) -> Response:
    """Translates one or more texts sentence by sentence and preserves line breaks."""
    question = await parsed(request, TranslateQuestion, form=True)
    texts = [question.q] if isinstance(question.q, str) else question.q
    check_texts(request, *texts)
    known = directions(request)
    is_auto = question.source == "auto"
    source = next(iter(known)) if is_auto else _same(question.source, known)
    if source is None:
        raise HTTPException(
            400,
            f"Source language {question.source!a:.20} is not supported. "
            f"Supported: {', '.join(known)}.",
        )
    target = _same(question.target, known[source])
    if target is None:
        raise HTTPException(
            400,
            f"Translation from {source} to {question.target!a:.20} is not supported. "
            f"Supported target languages: {', '.join(known[source])}.",
        )
    wanted = 1 + question.alternatives
    model = batcher_of(request).model
    options = SearchOptions(
        n_best=wanted, beam=wanted if wanted > model.config.decoding.beam else None
    )
    tag = known[source][target]
    if question.format == "html":
        if tag:
            raise HTTPException(
                400,
                "This model cannot translate HTML, because it requires the symbol "
                f"{tag.strip()} at the beginning of every sentence. Set format to text.",
            )
        translations = await _around_tags(request, texts, options, source)
    else:
        found = await translated(request, texts, options, language=source, tag=tag)
        translations = [each.texts for each in found]
    answers: dict[str, list[Any]] = {"translatedText": [each[0] for each in translations]}
    if is_auto:
        answers["detectedLanguage"] = [_detected(source) for _ in texts]
    if question.alternatives:
        answers["alternatives"] = [each[1:] for each in translations]
    is_list = isinstance(question.q, list)
    return json_response({key: each if is_list else each[0] for key, each in answers.items()})


def _same(code: str, known: Iterable[str]) -> str | None:
    """Returns the first code in `known` that equals `code`, ignoring case, or None."""
    return next((each for each in known if each.lower() == code.lower()), None)


async def _around_tags(
    request: Request, texts: list[str], options: SearchOptions, language: str
) -> list[list[str]]:
    """Translates HTML texts and keeps their tags. Returns each text's translations, best first."""
    tokenizer = batcher_of(request).model.tokenizer
    documents = await aside(request, _documents, texts, tokenizer, language)
    sentences = [sentence for each in documents for sentence in each.sentences]
    found = await n_best(request, sentences, replace(options, align=True))
    return await aside(request, _written, documents, found)


def _documents(texts: list[str], tokenizer: Tokenizer, language: str) -> list[Markup]:
    return [Markup(text, tokenizer, language) for text in texts]


def _written(documents: list[Markup], translations: list[list[Translation]]) -> list[list[str]]:
    found, written = iter(translations), []
    for document in documents:
        each = [next(found) for _ in document.sentences]
        ranks = range(max(map(len, each), default=1))
        ranked = ([best[min(rank, len(best) - 1)] for best in each] for rank in ranks)
        written.append([document.written(some) for some in ranked])
    return written


@router.get("/languages")
async def languages(request: Request) -> Response:
    """Returns the model's source and target languages."""
    return json_response(
        [
            {"code": code, "name": language_name(code), "targets": [*targets]}
            for code, targets in directions(request).items()
        ]
    )


@router.post("/detect", openapi_extra=described(DetectQuestion, form=True))
async def detect(request: Request) -> Response:
    """Returns the model's source language with confidence 0, because no language is detected."""
    question = await parsed(request, DetectQuestion, form=True)
    check_texts(request, *([question.q] if isinstance(question.q, str) else question.q))
    return json_response([_detected(next(iter(directions(request))))])


@router.get("/frontend/settings")
async def frontend_settings(request: Request) -> Response:
    """Returns the settings that LibreTranslate clients request at startup."""
    limits, known = limits_of(request), directions(request)
    source = next(iter(known))
    target = next(iter(known[source]))
    return json_response(
        {
            "apiKeys": False,
            "charLimit": limits.characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": False,
            "language": {
                "source": {"code": source, "name": language_name(source)},
                "target": {"code": target, "name": language_name(target)},
            },
            "suggestions": False,
            "supportedFilesFormat": [],
        }
    )


def _detected(code: str) -> dict[str, Any]:
    return {"confidence": 0.0, "language": code}


def language_name(code: str) -> str:
    """Returns the English name of a language, or the language code if the name is unknown."""
    return _NAMES.get(code.split("_")[0].split("-")[0].lower(), code)
