"""What an exported model must repeat: our greedy translations of some made-up sentences."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.data.pair import Pair
from nmt.data.tokenizer import with_eos
from nmt.decoding.options import SearchOptions
from nmt.decoding.score import log_probabilities
from nmt.errors import ExportError
from nmt.model.special_ids import EOS_ID
from nmt.translator import Translator

_NUMBER = 40
_LONGEST = 40  # tokens
TOLERANCE = 1e-4  # nats a token


@dataclass(frozen=True)
class Sample:
    """A sentence and our greedy translation of it."""

    text: str  # normalized
    source: list[int]  # without the end symbol
    tokens: list[int]  # of the translation, with the end symbol unless it was cut
    log_probabilities: list[float]  # natural log, one for each of `tokens`
    limit: int  # most tokens of a translation, end symbol counted

    @property
    def content(self) -> list[int]:
        """The translation without the end symbol."""
        return [token for token in self.tokens if token != EOS_ID]


def samples_of(translator: Translator) -> list[Sample]:
    """Sentences of random pieces, the same ones each time, so that no text is needed."""
    drawn, tokenizer = random.Random(1), translator.tokenizer
    lengths = range(1, min(_LONGEST, translator.max_part // 2) + 1)
    ids = range(len(tokenizer.symbols) + 260, tokenizer.vocabulary_size)
    random_texts = (
        tokenizer.normalize(tokenizer.decode(drawn.choices(ids, k=drawn.choice(lengths))))
        for _ in range(_NUMBER)
    )
    texts = [text for text in random_texts if text.strip()]
    found = translator.translate(texts, SearchOptions(beam=1))
    # a position is left for the end symbol that CTranslate2 scores after a translation that was cut
    most = (translator.transformer.max_length or 10**9) - 1
    pairs = [
        Pair(with_eos(tokenizer.encode(text)), np.array(each.tokens[:most]))
        for text, each in zip(texts, found, strict=True)
    ]
    each_log = log_probabilities(translator.transformer, pairs)
    extra = translator.config.decoding.max_extra_length
    return [
        Sample(
            text, source[:-1].tolist(), target.tolist(), logs, min(len(source) - 1 + extra, most)
        )
        for text, (source, target), logs in zip(texts, pairs, each_log, strict=True)
    ]


def compare(
    samples: Sequence[Sample],
    translations: Sequence[Sequence[int]],
    log_probabilities: Sequence[Sequence[float]],
    name: str,
) -> str:
    """A line for a person.

    Args:
        translations: their greedy ones, end symbols included or not.
        log_probabilities: what they give the tokens of ours.
        name: of the format.

    Raises:
        ExportError: they differ from ours.
    """
    worst = max(
        abs(ours - theirs)
        for sample, logs in zip(samples, log_probabilities, strict=True)
        for ours, theirs in zip(sample.log_probabilities, logs, strict=True)
    )
    equal = [
        [*tokens] in (sample.tokens, sample.content)
        for sample, tokens in zip(samples, translations, strict=True)
    ]
    if worst > TOLERANCE or not all(equal):
        raise ExportError(
            f"{sum(equal)} of {len(equal)} greedy translations are ours, log-probabilities differ "
            f"by up to {worst:.1e}, {name}, nothing was exported: use another version of it"
        )
    return f"{len(equal)} greedy translations equal ours, log-probabilities to {worst:.0e}"
