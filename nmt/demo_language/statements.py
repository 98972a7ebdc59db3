"""Generates sentences with a single clause: statements and requests."""

from dataclasses import replace
from random import Random

from nmt.demo_language import english, german
from nmt.demo_language.analysis import combinations, phenomena
from nmt.demo_language.clauses import Clause
from nmt.demo_language.fitting import PEOPLE, TRANS, nouns_of, verbs_of
from nmt.demo_language.phrases import YOU
from nmt.demo_language.pick_clauses import (
    perhaps_negated,
    pick_any_clause,
    pick_tense,
    with_adverbials,
)
from nmt.demo_language.pick_phrases import chance, pick_object, pick_phrase
from nmt.demo_language.sentences import Draft, draft, said

_PUBLIC = nouns_of("public")
_GOODS = nouns_of("thing", "paper", "private")
_RIDE = verbs_of("ride")
(_BELONG,) = verbs_of("belong")


def statement(rng: Random) -> Draft:
    """Writes a statement such as "Yesterday the baker did not read the letter"."""
    if chance(rng, 0.06):
        verb = rng.choice(_RIDE)
        tenses = "present progressive past past perfect future must"
        subject = pick_phrase(rng, rng.choice(_PUBLIC), subject=True)
        clause = Clause(subject, verb, pick_tense(rng, verb, subject, tenses))
    else:
        clause = pick_any_clause(rng)
    return said(with_adverbials(rng, perhaps_negated(rng, clause, 0.1)))


def request(rng: Random) -> Draft:
    """Writes a request such as "Please close the door"."""
    verb = rng.choice(TRANS)
    while "unasked" in verb.flags:
        verb = rng.choice(TRANS)
    clause = Clause(YOU, verb, "present", accusative=pick_object(rng, verb, YOU))
    clause = perhaps_negated(rng, clause, 0.25)
    lead = "do not" if clause.negated else "please"
    return draft(
        f"{lead} {english.infinitive(clause)}",
        german.worded(clause, "first", "" if clause.negated else "bitte"),
        phenomena(clause, "first"),
        combinations(clause),
    )


def belonging(rng: Random) -> Draft:
    """Writes a sentence such as "This key belongs to my aunt"."""
    subject = pick_phrase(rng, rng.choice(_GOODS), definite=True, subject=True)
    near = chance(rng, 0.3)
    determiner = ("these" if subject.plural else "this") if near else "the"
    owner = pick_phrase(rng, rng.choice(PEOPLE), definite=True)
    tense = rng.choice(("present", "past"))
    subject = replace(subject, determiner=determiner)
    return said(perhaps_negated(rng, Clause(subject, _BELONG, tense, dative=owner), 0.3))
