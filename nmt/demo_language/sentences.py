"""Writes sentence pairs that consist of one clause or of two joined clauses."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nmt.demo_language import english, german
from nmt.demo_language.analysis import combinations, phenomena
from nmt.demo_language.clauses import Clause
from nmt.demo_language.phrases import THEY, NounPhrase

Combination = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Draft:
    """A sentence pair, its lemma combinations, and the phenomena in the German sentence."""

    source: str
    target: str
    phenomena: frozenset[str]
    combinations: frozenset[Combination]


def draft(
    source: str, target: str, shown: Iterable[str], pairs: Iterable[Combination], end: str = "."
) -> Draft:
    """Creates a draft from two texts. Capitalizes both texts and adds `end` to both texts."""
    return Draft(_tidy(source + end), _tidy(target + end), frozenset(shown), frozenset(pairs))


def said(clause: Clause) -> Draft:
    """Returns the clause as a statement in both languages."""
    return draft(
        english.statement(clause),
        german.worded(clause, "second"),
        phenomena(clause, "second"),
        combinations(clause),
    )


def asked(clause: Clause, words: tuple[str, str] = ("", "")) -> Draft:
    """Returns the clause as a question. `words` contains the English and German question words."""
    return draft(
        english.question(clause, words[0]),
        german.worded(clause, "first", words[1]),
        phenomena(clause, "first") | {"question"},
        combinations(clause),
        "?",
    )


def joined(main: Clause, sub: Clause, link: tuple[str, str], order: str = "final") -> Draft:
    """Joins a main clause and a second clause with the conjunction `link`."""
    shown = phenomena(main, "second") | phenomena(sub, order)
    return draft(
        f"{english.statement(main)} {link[0]} {english.statement(sub)}",
        f"{german.worded(main, 'second')}{link[1]} {german.worded(sub, order)}",
        shown | ({"subordinate clause"} if order == "final" else set()),
        combinations(main) | combinations(sub),
    )


def with_infinitive(main: Clause, task: Clause, link: str) -> Draft:
    """Joins a main clause and the clause `task`, which becomes an infinitive without a subject."""
    task = replace(task, subject=THEY)
    return draft(
        f"{english.statement(main)} to {english.infinitive(task)}",
        f"{german.worded(main, 'second')}, {link}{german.infinitive(task)}",
        phenomena(main, "second") | phenomena(task, "infinitive"),
        combinations(main) | combinations(task),
    )


def attached(
    phrase: NounPhrase,
    clause: Clause,
    words: tuple[str, str],
    shown: Iterable[str],
    pairs: set[Combination],
) -> NounPhrase:
    """Adds a relative clause with the English and German texts `words` to a phrase."""
    return replace(
        phrase,
        relative=(words[0], f", {words[1]},"),
        phenomena=frozenset(phenomena(clause, "final") | {"relative clause", *shown}),
        combinations=phrase.combinations | combinations(clause) | pairs,
    )


def _tidy(text: str) -> str:
    """Capitalizes the first letter, and removes repeated commas and commas before "." or "?"."""
    text = text.replace(",,", ",")
    for end in ".?":
        text = text.replace(f",{end}", end)
    return text[0].upper() + text[1:]
