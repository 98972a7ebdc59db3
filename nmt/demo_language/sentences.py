"""From clauses to sentence pairs: statements, questions and the ways to join two clauses."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nmt.demo_language import clauses
from nmt.demo_language.clauses import Clause
from nmt.demo_language.phrases import THEY, NounPhrase

Combination = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Draft:
    """A sentence pair with its phenomena and lexical combinations."""

    source: str
    target: str
    phenomena: frozenset[str]
    combinations: frozenset[Combination]


def draft(
    source: str, target: str, shown: Iterable[str], pairs: Iterable[Combination], end: str = "."
) -> Draft:
    """A pair from the texts of both languages, with its capital and its end mark."""
    return Draft(_tidy(source + end), _tidy(target + end), frozenset(shown), frozenset(pairs))


def said(clause: Clause) -> Draft:
    """The clause as a statement."""
    return draft(
        clauses.english(clause),
        clauses.german(clause, "second"),
        clauses.phenomena(clause, "second"),
        clauses.combinations(clause),
    )


def asked(clause: Clause, words: tuple[str, str] = ("", "")) -> Draft:
    """The clause as a question, with its question words in both languages."""
    return draft(
        clauses.english_question(clause, words[0]),
        clauses.german(clause, "first", words[1]),
        clauses.phenomena(clause, "first") | {"question"},
        clauses.combinations(clause),
        "?",
    )


def joined(main: Clause, sub: Clause, link: tuple[str, str], order: str = "final") -> Draft:
    """A main clause, and after it another with its conjunction."""
    shown = clauses.phenomena(main, "second") | clauses.phenomena(sub, order)
    return draft(
        f"{clauses.english(main)} {link[0]} {clauses.english(sub)}",
        f"{clauses.german(main, 'second')}{link[1]} {clauses.german(sub, order)}",
        shown | ({"subordinate clause"} if order == "final" else set()),
        clauses.combinations(main) | clauses.combinations(sub),
    )


def with_infinitive(main: Clause, task: Clause, link: str) -> Draft:
    """A main clause with what is tried or intended; its subject is not said again."""
    task = replace(task, subject=THEY)
    return draft(
        f"{clauses.english(main)} to {clauses.english_infinitive(task)}",
        f"{clauses.german(main, 'second')}, {link}{clauses.german_zu(task)}",
        clauses.phenomena(main, "second") | clauses.phenomena(task, "infinitive"),
        clauses.combinations(main) | clauses.combinations(task),
    )


def attached(
    phrase: NounPhrase,
    clause: Clause,
    words: tuple[str, str],
    shown: Iterable[str],
    pairs: set[Combination],
) -> NounPhrase:
    """The phrase with a relative clause of these words."""
    return replace(
        phrase,
        relative=(words[0], f", {words[1]},"),
        phenomena=frozenset(clauses.phenomena(clause, "final") | {"relative clause", *shown}),
        combinations=phrase.combinations | clauses.combinations(clause) | pairs,
    )


def _tidy(text: str) -> str:
    """Capital at the beginning, no comma doubled or before the end."""
    text = text.replace(",,", ",")
    for end in ".?":
        text = text.replace(f",{end}", end)
    return text[0].upper() + text[1:]
