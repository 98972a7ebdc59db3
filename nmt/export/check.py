"""Compares an exported model with the original by greedy translations of random sentences."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from nmt.data.pair import Pair
from nmt.data.tokenizer import with_eos
from nmt.decoding.options import SearchOptions
from nmt.decoding.score import log_probabilities
from nmt.errors import ExportError
from nmt.model.special_ids import EOS_ID
from nmt.translator import Translator

_NUMBER, _MOST_TRIES = 40, 4000  # the number of sentences, and of random texts to find them
_LONGEST = 40  # maximum number of tokens in a sentence
TOLERANCE = 1e-4  # nats per token


@dataclass(frozen=True)
class Sample:
    """A random sentence with its greedy translation by nmt."""

    text: str  # normalized
    source: list[int]  # without EOS
    tokens: list[int]  # the translation, with EOS unless it was truncated
    log_probabilities: list[float]  # natural logarithm, one per token of `tokens`
    limit: int  # maximum number of tokens in a translation, including EOS

    @property
    def content(self) -> list[int]:
        """The translation without EOS."""
        return [token for token in self.tokens if token != EOS_ID]


def samples_of(translator: Translator) -> list[Sample]:
    """Generates sentences of random subwords with a fixed seed, and translates them greedily."""
    drawn, tokenizer = random.Random(1), translator.tokenizer
    lengths = range(1, min(_LONGEST, translator.max_part // 2) + 1)
    ids = range(len(tokenizer.symbols) + 260, tokenizer.vocabulary_size)
    random_texts = (
        tokenizer.normalize(tokenizer.decode(drawn.choices(ids, k=drawn.choice(lengths))))
        for _ in range(_MOST_TRIES)
    )
    # nmt would translate longer texts in parts; tokenizers may use more tokens than were sampled
    fitting = (
        text for text in random_texts if 0 < len(tokenizer.encode(text)) <= translator.max_part
    )
    texts = list(islice(fitting, _NUMBER))
    found = translator.translate(texts, SearchOptions(beam=1))
    # reserves a position for EOS, which CTranslate2 appends to a truncated translation for scoring
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
    """Compares an exported model with the original and returns the result as a message.

    Args:
        samples: sentences with the original model's translations.
        translations: the exported model's greedy translations, with or without EOS.
        log_probabilities: the exported model's log-probabilities of the original model's
            translations.
        name: name of the export format.

    Raises:
        ExportError: a translation differs, or a log-probability differs by more than `TOLERANCE`.
    """
    equal, worst = agreement(samples, translations, log_probabilities)
    if worst > TOLERANCE or equal < len(samples):
        package = "transformers" if name == "huggingface" else name
        raise ExportError(
            f"The exported {name} model does not reproduce the results of nmt: "
            f"{len(samples) - equal} of {len(samples)} greedy translations differ, and "
            f"log-probabilities differ by up to {worst:.1e} (tolerance {TOLERANCE:.0e}). Nothing "
            f"was exported. Try another version of {package}."
        )
    return (
        f"{equal} greedy translations of random text are identical to nmt's, and log-probabilities "
        f"differ by at most {worst:.0e}."
    )


def agreement(
    samples: Sequence[Sample],
    translations: Sequence[Sequence[int]],
    log_probabilities: Sequence[Sequence[float]],
) -> tuple[int, float]:
    """Returns how many translations are identical, and the largest log-probability difference.

    Args:
        translations, log_probabilities: see `compare`.
    """
    worst = max(
        abs(ours - theirs)
        for sample, logs in zip(samples, log_probabilities, strict=True)
        for ours, theirs in zip(sample.log_probabilities, logs, strict=True)
    )
    equal = sum(
        [*tokens] in (sample.tokens, sample.content)
        for sample, tokens in zip(samples, translations, strict=True)
    )
    return equal, worst
