"""Implements the API of the web page's microscope, which shows how one sentence is translated.

Responses are long, so they are serialized to JSON in the model process, not in the event loop.
"""

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from nmt.errors import InputError
from nmt.serving.inside import microscope
from nmt.serving.limits import MAX_BEAM
from nmt.serving.requests import answer, batcher_of, check_texts, described, parsed
from nmt.serving.routes import Question

router = APIRouter(prefix="/api")


class InspectQuestion(Question):
    """The body of an /api/inspect request."""

    text: str = Field(description="one sentence")
    target: str | None = Field(None, description="translation of the text (default: the model's)")
    kind: Literal["encoder", "decoder", "cross"] | None = Field(
        None, description="kind of attention to return (default: all three)"
    )


class SearchQuestion(Question):
    """The body of an /api/search request."""

    text: str = Field(description="one sentence")
    beam: int | None = Field(None, ge=1, le=MAX_BEAM, description="beam size")
    length_penalty: float | None = Field(None, ge=0, le=100)
    prefix: str = Field("", description="prefix of the translation")


class StepsQuestion(Question):
    """The body of an /api/steps request."""

    text: str = Field(description="one sentence")
    target: str = Field(description="translation of the text")
    side: Literal["source", "target"] = Field("target", description="encoder or decoder")
    token: int = Field(0, ge=0, description="index of a source token or target token")
    layer: int = Field(0, ge=0)
    head: int = Field(0, ge=0)


@router.post("/inspect", openapi_extra=described(InspectQuestion))
async def inspected(request: Request) -> Response:
    """Returns the tokens of a sentence and of its translation, with the attention weights."""
    question = await parsed(request, InspectQuestion)
    check_texts(request, question.text, question.target or "")
    return await _answer(request, "inspect", question)


@router.post("/search", openapi_extra=described(SearchQuestion))
async def searched(request: Request) -> Response:
    """Returns all hypotheses that beam search compares when it translates a sentence."""
    question = await parsed(request, SearchQuestion)
    check_texts(request, question.text, question.prefix)
    return await _answer(request, "search_tree", question)


@router.post("/steps", openapi_extra=described(StepsQuestion))
async def stepped(request: Request) -> Response:
    """Returns the intermediate results of a forward pass for one token, one layer and one head."""
    question = await parsed(request, StepsQuestion)
    check_texts(request, question.text, question.target)
    return await _answer(request, "steps", question)


async def _answer(request: Request, name: str, question: Question) -> Response:
    batcher = batcher_of(request)
    if not batcher.model.sees_inside:
        raise InputError(
            "An exported model does not give access to its internals. Serve the original model."
        )
    body = await answer(request, batcher.call(microscope, name, question.model_dump()))
    return Response(body, media_type="application/json")
