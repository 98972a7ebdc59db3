"""A program that uses nmt. test_library.py runs it, and mypy checks it in strict mode."""

from collections.abc import Iterator, Sequence
from typing import assert_type

from nmt import Attention, NextToken, ScoredTranslation, SearchOptions, Translation, Translator


def use(model: str, texts: Sequence[str]) -> list[str]:
    """Calls all other functions of the library, then returns the translations of the texts."""
    translator = Translator.load(model, device="cpu")
    one = assert_type(translator.translate(texts[0], beam=3, n_best=3), Translation)
    assert_type(one.alternatives, list[Translation])
    assert_type(
        list(zip(one.pieces, one.token_log_probabilities, strict=True)), list[tuple[str, float]]
    )
    options = SearchOptions(beam=2, attention=True)
    several = assert_type(translator.translate(texts, options, prefix="Der"), list[Translation])
    assert_type(several[0].attention, list[Attention] | None)
    assert_type(translator.next_tokens(texts[0], prefix="Der", k=3), list[NextToken])
    scored = assert_type(translator.score(texts[0], one.text), ScoredTranslation)
    assert_type(scored.log_probability, float)
    assert_type(translator.score(texts, [one.text] * len(texts)), list[ScoredTranslation])
    stream = assert_type(translator.stream(iter(texts)), Iterator[Translation])
    return [found.text for found in stream]
