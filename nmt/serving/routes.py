"""Implements nmt's own API, which returns translations with scores and other details."""

from operator import methodcaller
from typing import Any, Self

import numpy as np
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation
from nmt.errors import InputError
from nmt.serving.about import about
from nmt.serving.alternatives import alternatives as found_alternatives
from nmt.serving.doubt import doubts
from nmt.serving.libretranslate import directions, language_name
from nmt.serving.limits import MAX_BEAM
from nmt.serving.model_process import EndedError
from nmt.serving.requests import (
    answer,
    batcher_of,
    check_texts,
    described,
    json_response,
    limits_of,
    parsed,
)
from nmt.serving.translating import TranslatedText, translated

router = APIRouter(prefix="/api")

_ENGLISH = "The old man who lives here reads a good book."  # for a model without a test set


class Question(BaseModel):
    """The base class of request bodies, which rejects unknown fields and incorrect types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class TranslateQuestion(Question):
    """The body of an /api/translate request, which contains either `text` or `texts`."""

    text: str | None = None
    texts: list[str] | None = None
    document: bool = Field(False, description="split lines into sentences")
    beam: int | None = Field(None, ge=1, le=MAX_BEAM, description="beam size; 1 is greedy search")
    n_best: int = Field(1, ge=1, le=MAX_BEAM, description="number of translations per text")
    length_penalty: float | None = Field(None, ge=0, le=100)
    prefix: str = Field("", description="prefix of each translation")
    glossary: dict[str, str] = Field(
        {}, description="maps source terms to target terms that translations must contain"
    )
    attention: bool = Field(False, description="return each token's cross-attention")
    token_probabilities: bool = Field(False, description="return each token's log-probability")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise ValueError("Specify either text or texts")
        return self


class NextTokensQuestion(Question):
    """The body of an /api/next_tokens request."""

    text: str
    prefix: str = Field("", description="the translation so far")
    k: int = Field(10, ge=1, le=100, description="number of tokens")


class AlternativesQuestion(NextTokensQuestion):
    """The body of an /api/alternatives request."""

    target: str = Field("", description="the current translation")
    k: int = Field(10, ge=1, le=20, description="number of words; each word requires a search")


@router.get("/model")
async def model(request: Request) -> Response:
    """Returns a description of the model, and the maximum number of characters per request."""
    state = request.app.state
    source, targets = next(iter(directions(request).items()))
    target = next(iter(targets))
    if not hasattr(state, "about"):
        found = await answer(request, batcher_of(request).call(about))
        text = found["opening"] or (_ENGLISH if source == "en" else None)
        state.about = found | {"opening": await _opening(request, text)}
    return json_response(
        state.about
        | {
            "source": {"code": source, "name": language_name(source)},
            "target": {"code": target, "name": language_name(target)},
            "characters": limits_of(request).characters,
            "microscope": batcher_of(request).model.sees_inside,
        }
    )


async def _opening(request: Request, text: str | None) -> dict[str, Any] | None:
    """Returns the text that the web page shows when the page is opened, and its translation.

    Returns None if `text` is None or this server cannot translate it.

    Raises:
        EndedError, HTTPException: the text was not translated, but a later request may succeed. For
            example, the client disconnected.
    """
    if text is None:
        return None
    question = TranslateQuestion.model_validate({"text": text, "document": True})
    try:
        [translation] = await _translations(request, question)
    except EndedError:
        raise
    except InputError:
        return None
    except HTTPException as error:
        if error.status_code != 400:  # 400: for example, the sentence exceeds this server's limits
            raise
        return None
    return {"text": text, "translation": translation}


@router.post("/translate", openapi_extra=described(TranslateQuestion))
async def translate(request: Request) -> Response:
    """Translates one or more texts. Returns each translation with details of its sentences."""
    question = await parsed(request, TranslateQuestion)
    return json_response({"translations": await _translations(request, question)})


async def _translations(request: Request, question: TranslateQuestion) -> list[dict[str, Any]]:
    texts = [question.text] if question.text is not None else question.texts or []
    terms = [text for term in question.glossary.items() for text in term]
    check_texts(request, *texts, question.prefix, *terms, number=len(texts))
    model = batcher_of(request).model
    if question.token_probabilities and not model.sees_inside:
        raise InputError(
            "An exported model does not provide token_probabilities. Leave this field out, or "
            "serve the original model."
        )
    options = SearchOptions(
        beam=question.beam, n_best=question.n_best, length_penalty=question.length_penalty,
        glossary=question.glossary or None, attention=question.attention,
    )  # fmt: skip
    config = model.config
    options.width(config.decoding.beam)  # raises if the beam is smaller than n_best
    language = config.data.source_language if question.document else None
    found = await translated(request, texts, options, language=language, prefix=question.prefix)
    return [_described(*each, question) for each in zip(texts, found, strict=True)]


@router.post("/next_tokens", openapi_extra=described(NextTokensQuestion))
async def next_tokens(request: Request) -> Response:
    """Returns the most likely next tokens of a translation."""
    question = await parsed(request, NextTokensQuestion)
    check_texts(request, question.text, question.prefix)
    call = methodcaller("next_tokens", question.text, question.prefix, question.k)
    tokens = await answer(request, batcher_of(request).call(call))
    return json_response(
        {
            "tokens": [
                {"piece": each.piece, "text": each.text, "probability": each.probability}
                for each in tokens
            ]
        }
    )


@router.post("/alternatives", openapi_extra=described(AlternativesQuestion))
async def alternatives(request: Request) -> Response:
    """Returns the most likely words that can follow a prefix of a sentence's translation."""
    question = await parsed(request, AlternativesQuestion)
    check_texts(request, question.text, question.prefix, question.target)
    asked = (question.text, question.prefix, question.target, question.k)
    work = batcher_of(request).call(found_alternatives, *asked)
    return json_response({"alternatives": await answer(request, work)})


def _described(text: str, found: TranslatedText, question: TranslateQuestion) -> dict[str, Any]:
    """Returns the translation of a text as a JSON object."""
    sentences: list[dict[str, Any]] = [
        {
            "source": list(sentence.source),
            "target": list(sentence.target),
            "score": sentence.translations[0].score,
            "alternatives": [each.text for each in sentence.translations[1:]],
            "doubts": doubts(text[slice(*sentence.source)], sentence.translations[0]),
        }
        for sentence in found.sentences
    ]
    for content, sentence in zip(sentences, found.sentences, strict=True):
        best = sentence.translations[0]
        if question.glossary:
            content["unmet_terms"] = best.unmet_terms
        if question.token_probabilities:
            content["tokens"] = [
                {"piece": piece, "log_probability": value}
                for piece, value in zip(best.pieces, best.token_log_probabilities, strict=True)
            ]
        if question.attention:
            content["attention"] = _attention(best)
    others = zip(found.texts[1:], found.scores[1:], strict=True)
    return {
        "text": found.texts[0],
        "score": found.scores[0],
        "alternatives": [{"text": text, "score": score} for text, score in others],
        "sentences": sentences,
    }


def _attention(found: Translation) -> dict[str, Any]:
    """Returns a sentence's attention; its lists are empty if the sentence was split into parts."""
    if found.attention is None or len(found.attention) != 1:
        return {"source": [], "target": [], "weights": []}
    [only] = found.attention
    weights = np.round(only.weights.astype(float), 4).tolist()
    return {"source": only.source_pieces, "target": only.target_pieces, "weights": weights}
