"""Generates sentences with a relative clause. In German, the clause ends with its finite verb."""

from random import Random

from nmt.demo_language import english, german
from nmt.demo_language.clauses import Clause
from nmt.demo_language.fitting import KIN, PEOPLE, REST, SINGULAR_OBJECT, TAKING
from nmt.demo_language.lexicon import Noun, Verb
from nmt.demo_language.phrases import NounPhrase, head, relative_pronoun
from nmt.demo_language.pick_clauses import (
    perhaps_negated,
    pick_clause,
    pick_relative_tense,
    pick_tense,
    pick_verb,
)
from nmt.demo_language.pick_phrases import (
    chance,
    pick_adjective,
    pick_object_noun,
    pick_plural,
    pick_subject,
)
from nmt.demo_language.sentences import Draft, attached, said

# The object of these verbs is at the end of the sentence, so that a relative clause may follow.
_UNDIVIDED = tuple(verb for verb in SINGULAR_OBJECT if not verb.prefix and not verb.particle)


def relative(rng: Random) -> Draft:
    """Writes a sentence with a relative clause that modifies the subject or the object."""
    verb = pick_verb(rng)
    if chance(rng, 0.6):
        antecedent = _antecedent(rng, rng.choice(PEOPLE))
        tense = pick_tense(rng, verb, antecedent)
        subject = _with_relative(rng, antecedent, tense, verb)
        return said(perhaps_negated(rng, pick_clause(rng, verb, subject, tense), 0.1))
    verb = rng.choice(_UNDIVIDED)
    agent = pick_subject(rng, verb)
    tense = pick_tense(rng, verb, agent, "present past")
    if tense == "perfect":
        tense = "present"
    antecedent = _antecedent(rng, pick_object_noun(rng, verb, head(agent)))
    phrase = _with_relative(rng, antecedent, tense, verb, head(agent))
    return said(Clause(agent, verb, tense, accusative=phrase))


def _antecedent(rng: Random, noun: Noun) -> NounPhrase:
    plural = pick_plural(rng, noun, 0.22)
    determiner = "these" if plural and chance(rng, 0.2) else "the"
    return NounPhrase(noun, determiner, pick_adjective(rng, noun, 0.2), plural)


def _with_relative(
    rng: Random,
    phrase: NounPhrase,
    main_tense: str,
    main: Verb,
    agent: Noun | None = None,
) -> NounPhrase:
    """Adds a relative clause, in which the relative pronoun is a subject, object or possessor.

    `main` is the verb of the main clause, and `agent` is the noun of its subject. Most relative
    clauses repeat neither this verb nor this noun.
    """
    kind = rng.random()
    if "person" not in phrase.noun.classes or kind > 0.6:
        return _object_relative(rng, phrase, main_tense, main, agent)
    if kind < 0.08:
        return _whose(rng, phrase, main_tense)
    pronoun, verb = relative_pronoun(phrase), pick_verb(rng)
    while verb is main:
        verb = pick_verb(rng)
    tense = pick_relative_tense(rng, verb, pronoun, main_tense, "present past future")
    clause = pick_clause(rng, verb, pronoun, tense, avoided=phrase.noun)
    words = english.statement(clause), german.worded(clause, "final")
    return attached(phrase, clause, words, pronoun.phenomena, set())


def _object_relative(
    rng: Random, phrase: NounPhrase, main_tense: str, main: Verb, agent: Noun | None
) -> NounPhrase:
    verbs = [verb for verb in TAKING[phrase.noun] if verb is not main]
    pronoun, verb = relative_pronoun(phrase), rng.choice(verbs or TAKING[phrase.noun])
    subject = pick_subject(rng)
    while head(subject) and head(subject) in (phrase.noun, agent):
        subject = pick_subject(rng)
    tenses = "present past" if "state" in verb.flags else "present past perfect"
    clause = Clause(subject, verb, pick_relative_tense(rng, verb, subject, main_tense, tenses))
    gap = pronoun.german(verb.case)
    shown = set(pronoun.phenomena) | ({"case"} if gap != pronoun.nominative else set())
    words = (
        f"{pronoun.object} {english.statement(clause)}",
        f"{verb.german_preposition} {gap} {german.worded(clause, 'final')}".strip(),
    )
    return attached(phrase, clause, words, shown, {(verb.lemma, phrase.noun.english)})


def _whose(rng: Random, phrase: NounPhrase, main_tense: str) -> NounPhrase:
    relative = rng.choice([noun for noun in KIN if noun is not phrase.noun])
    kin = NounPhrase(relative, "whose", owner=phrase.row)
    verb = rng.choice(REST)
    tense = pick_relative_tense(rng, verb, kin, main_tense, "present past")
    clause = pick_clause(rng, verb, kin, tense)
    words = english.statement(clause), german.worded(clause, "final")
    shown = relative_pronoun(phrase).phenomena | {"case"}
    return attached(phrase, clause, words, shown, set())
