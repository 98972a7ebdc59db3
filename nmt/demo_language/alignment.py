"""Computes reference word alignments of sentence pairs from the lexicon.

Only nouns, verbs, adjectives, adverbs and numbers are aligned. Articles, pronouns, prepositions,
auxiliaries and conjunctions are not aligned, because their correct alignment is often unclear.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from nmt.demo_language import german
from nmt.demo_language.clauses import Clause
from nmt.demo_language.lexicon import (
    ADJECTIVES,
    ADVERBIALS,
    MONTHS,
    NOUNS,
    NUMBERS,
    ORDINALS,
    VERBS,
    WEEKDAYS,
    Adjective,
    Noun,
    Verb,
)
from nmt.demo_language.phrases import HE, ME, THEY, NounPhrase

Link = tuple[int, int]  # indices of an English word and a German word
_Words = tuple[str, ...]  # the words of one inflected form

_NUMBERS = {**NUMBERS, **ORDINALS, **MONTHS, **WEEKDAYS}
_ENDINGS = ("e", "en", "er", "es", "em")


@dataclass(frozen=True)
class Alignment:
    """The words of a sentence pair and the links between them.

    A correct alignment contains all links in `sure`, and otherwise only links in `possible`.
    """

    source: list[str]
    target: list[str]
    sure: frozenset[Link]
    possible: frozenset[Link]  # includes `sure`


@dataclass(frozen=True)
class _Entry:
    """A lexicon entry with all its inflected forms, including separated German verb prefixes."""

    english: frozenset[_Words]
    german: frozenset[_Words]
    prefix: str = ""  # separable prefix of the German verb
    particle: str = ""  # particle of the English verb, which has no German counterpart


def words(text: str) -> list[str]:
    """Splits a text into words, numbers (including times such as 7:30) and punctuation marks."""
    return re.findall(r"[\w']+(?::\d+)?|[^\w\s]", text)


def aligned(source: str, target: str) -> Alignment:
    """Aligns an English sentence of the grammar with its German translation.

    Words that occur more than once in a sentence are not aligned, because the lexicon does not show
    which occurrences correspond. Words that two lexicon entries align differently are also left
    unaligned. If an expression such as "last week" corresponds to its translation ("letzte Woche")
    only as a whole, each English word has a possible link to each German word of the expression.
    """
    english, german_words = words(source), words(target)
    claims = [
        links
        for entry in _entries_in(english)
        if (links := _linked(entry, _as_written(english), _as_written(german_words)))
    ]
    sure = _undisputed([links for links, _ in claims if links])
    possible = sure.union(*(links for found, links in claims if not found - sure))
    return Alignment(english, german_words, frozenset(sure), frozenset(possible))


def _as_written(tokens: list[str]) -> list[set[str]]:
    """Returns, for each word, the set of spellings to look up in the lexicon.

    The first word of a sentence is also looked up with a lowercase first letter.
    """
    return [{token, token[0].lower() + token[1:]} if i == 0 else {token}
            for i, token in enumerate(tokens)]  # fmt: skip


def _linked(
    entry: _Entry, english: list[set[str]], german_words: list[set[str]]
) -> tuple[set[Link], set[Link]] | None:
    """Returns the sure links and the possible links of a lexicon entry.

    Returns None unless the entry occurs exactly once in each sentence.
    """
    first, second = _places(entry.english, english), _places(entry.german, german_words)
    if len(first) != 1 or len(second) != 1:
        return None
    (source,), (target,) = first, second
    links = set(product(source, target))
    if len(links) > 1:
        return set(), links
    apart = () if any(word.startswith(entry.prefix) for word in german_words[target[0]]) else (
        _single({(entry.prefix,)}, german_words)
    )  # fmt: skip
    with_prefix = links | set(product(source, apart))
    if not entry.particle:
        return with_prefix, with_prefix
    particle = _single({(entry.particle,)}, english)
    return links, set(product((*source, *particle), (*target, *apart)))


def _places(forms: Iterable[_Words], tokens: list[set[str]]) -> list[tuple[int, ...]]:
    """Returns a tuple of word indices for each occurrence of one of the forms."""
    found = {
        tuple(range(begin, begin + len(form)))
        for form in forms
        for begin in range(len(tokens) - len(form) + 1)
        if all(word in tokens[begin + i] for i, word in enumerate(form))
    }
    return sorted(found)


def _single(forms: Iterable[_Words], tokens: list[set[str]]) -> tuple[int, ...]:
    """Returns the word indices of the only occurrence of one of the forms.

    Returns an empty tuple if the forms do not occur exactly once.
    """
    places = _places(forms, tokens)
    return places[0] if len(places) == 1 else ()


def _undisputed(claims: list[set[Link]]) -> set[Link]:
    """Returns the links of all lexicon entries that do not conflict with another entry.

    `claims` contains one set of links per entry. Two entries conflict if their sets of links share
    a word and neither set is a subset of the other.
    """

    def disputes(one: set[Link], other: set[Link]) -> bool:
        share = any({s for s, _ in one} & {s for s, _ in other}) or (
            any({t for _, t in one} & {t for _, t in other})
        )
        return share and not (one <= other or other <= one)

    return {
        link
        for claim in claims
        if not any(disputes(claim, other) for other in claims)
        for link in claim
    }


def _entries_in(tokens: list[str]) -> Iterator[_Entry]:
    """Yields each lexicon entry that may occur in the given sentence, without repetitions."""
    by_word = _by_first_word()
    found = [entry for spellings in _as_written(tokens) for word in spellings
             for entry in by_word.get(word, ())]  # fmt: skip
    yield from dict.fromkeys(found)
    for token in tokens:
        if token[0].isdigit():  # digits are the same in both languages
            yield _entry([token], [token])


@cache
def _by_first_word() -> dict[str, list[_Entry]]:
    """Maps the first word of each English form to the lexicon entries that have this form."""
    found: dict[str, list[_Entry]] = {}
    for entry in _entries():
        for word in {form[0] for form in entry.english}:
            found.setdefault(word, []).append(entry)
    return found


def _entries() -> tuple[_Entry, ...]:
    pairs = [*_NUMBERS.items(), *((each.english, each.german) for each in ADVERBIALS)]
    return (
        *map(_of_noun, NOUNS),
        *(_of_verb(verb) for verb in VERBS if verb.frame != "be"),  # usually an auxiliary
        *map(_of_adjective, ADJECTIVES),
        *(_entry([english], [german_word]) for english, german_word in pairs),
    )


def _entry(english: Iterable[str], german_forms: Iterable[str]) -> _Entry:
    return _Entry(_split(english), _split(german_forms))


def _split(forms: Iterable[str]) -> frozenset[_Words]:
    return frozenset(tuple(form.split()) for form in forms if form)


def _of_noun(noun: Noun) -> _Entry:
    plurals = (False,) if noun.mass else (False, True)
    german_forms = {
        NounPhrase(noun, "the", plural=plural).german(case).split(" ", 1)[1]
        for plural in plurals
        for case in ("nom", "acc", "dat", "gen")
    }
    return _entry((noun.english, noun.english_plural), german_forms)


def _of_adjective(adjective: Adjective) -> _Entry:
    comparative = adjective.english_comparative.removeprefix("more ")
    forms = (adjective.german, adjective.german_comparative)
    inflected = (adjective.stem + ending for ending in _ENDINGS)
    return _entry((adjective.english, comparative), (*forms, *inflected))


def _of_verb(verb: Verb) -> _Entry:
    finite = {
        german.verb_group(Clause(subject, verb, tense), "second")[0]
        for subject in (ME, HE, THEY)
        for tense in ("present", "past")
    }
    joined = {verb.prefix + form for form in finite}
    others = {verb.german_lemma, verb.german_participle, f"{verb.prefix}zu{verb.german}"}
    present = (verb.english, verb.english_third, verb.english_gerund)
    english = (*present, verb.english_past, verb.english_participle)
    entry = _entry(english, finite | joined | others)
    return replace(entry, prefix=verb.prefix, particle=verb.particle)
