"""Translates word for word with a dictionary. The translations serve as a baseline."""

import re
from collections.abc import Iterator
from functools import cache

from nmt.demo_language.lexicon import (
    ADJECTIVES,
    ADVERBIALS,
    DICTIONARY_WORDS,
    MONTHS,
    NOUNS,
    NUMBERS,
    ORDINALS,
    VERBS,
    WEEKDAYS,
)


def _entries() -> Iterator[tuple[str, str]]:
    """Yields pairs of an English word form and a German dictionary form. Word forms may repeat."""
    for table in (DICTIONARY_WORDS, NUMBERS, MONTHS, WEEKDAYS, ORDINALS):
        yield from table.items()
    for noun in NOUNS:
        yield noun.english, noun.german
        yield noun.english_plural, noun.german
    for adjective in ADJECTIVES:
        yield adjective.english, adjective.german
        yield adjective.english_comparative, adjective.german_comparative
    for adverbial in ADVERBIALS:
        yield adverbial.english, adverbial.german
    for verb in sorted(VERBS, key=lambda verb: bool(verb.particle or verb.preposition)):
        present = (verb.english, verb.english_third, verb.english_gerund)
        for form in (*present, verb.english_past, verb.english_participle):
            yield form, verb.german_lemma


@cache
def _dictionary() -> dict[str, str]:
    words: dict[str, str] = {}
    for english, german in _entries():
        words.setdefault(english.lower(), german)
    return words


def word_for_word(source: str) -> str:
    """Replaces each English word with its German dictionary form and keeps the word order.

    The German words are not inflected. Digits and unknown words are copied.
    """
    tokens = re.findall(r"[\w']+(?::\d+)?|[^\w\s]", source)
    words = [_dictionary().get(token.lower(), token) for token in tokens]
    text = re.sub(r" ([.,?!])", r"\1", " ".join(words))
    return text[:1].upper() + text[1:]
