"""Generates sentences with a subordinate clause. The German clause ends with the finite verb."""

from dataclasses import replace
from random import Random

from nmt.demo_language import english, german
from nmt.demo_language.analysis import combinations, phenomena
from nmt.demo_language.clauses import Clause, Words
from nmt.demo_language.fitting import verbs_of
from nmt.demo_language.phrases import (
    HE,
    NOBODY,
    SHE,
    SOMEBODY,
    THEY,
    NounPhrase,
    Phrase,
    head,
    pronoun_for,
)
from nmt.demo_language.pick_clauses import perhaps_negated, perhaps_not, pick_any_clause, pick_state
from nmt.demo_language.pick_phrases import (
    chance,
    pick_certain_subject,
    pick_subject,
)
from nmt.demo_language.sentences import Draft, joined, said

_THAT, _WHETHER = verbs_of("that"), verbs_of("whether")
_CONJUNCTIONS = {
    "past": (
        *(("because", "weil"), ("although", "obwohl"), ("when", "als"), ("while", "während")),
        ("before", "bevor"),
    ),
    "present": (
        *(("because", "weil"), ("although", "obwohl"), ("when", "wenn"), ("if", "wenn")),
        *(("while", "während"), ("before", "bevor")),
    ),
}


def subordinate(rng: Random) -> Draft:
    """Writes a sentence with a conjunction such as "because", "although" or "when"."""
    tense = rng.choice(("past", "past", "present"))
    main, sub = _two_clauses(rng, tense)
    lasting = "state" in main.verb.flags | sub.verb.flags
    links = _CONJUNCTIONS[tense][:2] if lasting else _CONJUNCTIONS[tense]
    link, german_link = rng.choice(links)
    if link in ("while", "before", "when"):
        main, sub = replace(main, negated=False), replace(sub, negated=False)
    if link in ("because", "although") and chance(rng, 0.7):
        main, sub = _with_reason(rng, main, sub.subject)
    if chance(rng, 0.5):
        return joined(main, sub, (link, f", {german_link}"))
    words = Words(
        f"{link} {english.statement(sub)}",
        f"{german_link} {german.worded(sub, 'final')},",
        frozenset(phenomena(sub, "final") | {"subordinate clause"}),
        comma=True,
        combinations=frozenset(combinations(sub)),
    )
    return said(replace(main, time=words, front="time"))


def _with_reason(rng: Random, main: Clause, other: Phrase) -> tuple[Clause, Clause]:
    """Returns the main clause and a clause that states a reason, such as "he is tired".

    The second clause describes either `other` or the subject of `main`.
    """
    subject = main.subject
    pronoun = _resumed(subject)
    if pronoun and chance(rng, 0.8):
        main = replace(main, subject=_plain(subject))
        return main, perhaps_not(rng, pick_state(rng, pronoun, main.tense, head(subject)))
    return main, pick_state(rng, _plain(other), main.tense)


def _resumed(subject: Phrase) -> Phrase | None:
    """Returns a pronoun that refers to the subject, such as "he" for "the king".

    Returns None if no pronoun can refer to the subject, as for "nobody" or "every king".
    """
    if not isinstance(subject, NounPhrase):
        return None if subject in (NOBODY, SOMEBODY) else subject
    if subject.noun.english == "child" or subject.determiner == "every":
        return None
    if "animal" in subject.noun.classes:
        return pronoun_for(subject)
    female = subject.noun.gender == "f" or subject.noun.english == "girl"
    return THEY if subject.plural else SHE if female else HE


def _plain(phrase: Phrase) -> Phrase:
    """Removes the adjective from the phrase and replaces the determiner "a" with "the"."""
    if not isinstance(phrase, NounPhrase):
        return phrase
    determiner = "the" if phrase.determiner == "a" else phrase.determiner
    return replace(phrase, adjective=None, determiner=determiner)


def _two_clauses(rng: Random, tense: str) -> tuple[Clause, Clause]:
    """Picks two clauses that are in the given tense and have different subjects."""
    while True:
        main, sub = pick_any_clause(rng, tense), pick_any_clause(rng, tense)
        different = not _same_subject(main, sub)
        if different and main.tense == sub.tense == tense:
            return main, sub


def that_clause(rng: Random) -> Draft:
    """Writes a sentence such as "The girl knows that her uncle will arrive"."""
    return joined(*that_clauses(rng), ("that", ", dass"))


def that_clauses(rng: Random) -> tuple[Clause, Clause]:
    """Picks a main clause such as "the girl knows" and the clause that follows "that"."""
    verb, tense = rng.choice(_THAT), rng.choice(("present", "present", "past"))
    main = Clause(pick_subject(rng), verb, "present" if verb.english == "hope" else tense)
    if verb.english != "hope":
        main = perhaps_negated(rng, main, 0.15)
    return main, _content(rng, main, "present past perfect future")


def whether_clause(rng: Random) -> Draft:
    """Writes a sentence such as "The girl asked whether her uncle had to work"."""
    return joined(*whether_clauses(rng), ("whether", ", ob"))


def whether_clauses(rng: Random) -> tuple[Clause, Clause]:
    """Picks a main clause such as "the girl asked" and the clause that follows "whether"."""
    tense = rng.choice(("present", "past"))
    verb = rng.choice(_WHETHER)
    main = Clause(pick_certain_subject(rng), verb, tense, negated=verb.english == "know")
    sub = _content(rng, main, "present future perfect")
    return main, replace(sub, negated=False)


def _content(rng: Random, main: Clause, tenses: str) -> Clause:
    """Picks the clause that follows "that" or "whether".

    The subject of the picked clause differs from the subject of `main`. If `main` is in the past,
    the picked clause is in the past, too.
    """
    sub = pick_any_clause(rng, "past" if main.tense == "past" else tenses)
    while _same_subject(main, sub) or sub.subject is NOBODY:
        sub = pick_any_clause(rng, "past" if main.tense == "past" else tenses)
    return replace(sub, tense="past") if main.tense == "past" else sub


def _same_subject(main: Clause, sub: Clause) -> bool:
    """Returns whether the subjects of both clauses are the same pronoun or have the same noun."""
    noun = head(main.subject)
    return noun is head(sub.subject) if noun else main.subject == sub.subject
