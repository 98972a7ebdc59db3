"""Generates sentences with a pronoun that refers to a thing, such as "it" (er, sie or es)."""

from dataclasses import replace
from random import Random

from nmt.demo_language import adverbials
from nmt.demo_language.clauses import Clause
from nmt.demo_language.fitting import FITTING, OBJECTS, TAKING, TRANS, verbs_of
from nmt.demo_language.lexicon import Noun, Verb
from nmt.demo_language.phrases import NounPhrase, Pronoun, pronoun_for
from nmt.demo_language.pick_clauses import perhaps_not, pick_state
from nmt.demo_language.pick_phrases import (
    chance,
    pick_adjective,
    pick_certain_subject,
    pick_object_noun,
    pick_plural,
)
from nmt.demo_language.sentences import Draft, joined

(_PUT,) = verbs_of("put")
_FIRST = tuple(verb for verb in TRANS if "first" in verb.flags)
_THINGS = frozenset({"thing", "food", "drink", "document", "vehicle"})  # classes


def and_it(rng: Random) -> Draft:
    """Writes a sentence such as "The boy found the key and put it on the table"."""
    tense = rng.choice(("past", "past", "past", "present"))
    main, phrase = _handled(rng, tense, 0.25)
    while not (seconds := _seconds(rng, main.verb, phrase.noun)):
        main, phrase = _handled(rng, tense, 0.25)
    verb, noun, it = rng.choice(seconds), phrase.noun, pronoun_for(phrase)
    subject = main.subject
    silent = Pronoun("", "", "", "", "", person=subject.person, plural=subject.plural)
    sub = Clause(silent, verb, main.tense, accusative=it)
    if verb is _PUT:
        sub = replace(sub, place=adverbials.surface(rng, "acc"))
    whole = joined(main, sub, ("and", " und"), "second")
    return replace(whole, combinations=whole.combinations | {(verb.lemma, noun.english)})


def _seconds(rng: Random, first: Verb, noun: Noun) -> list[Verb]:
    """Returns verbs that can follow the verb `first`, with `noun` as the object of both verbs."""
    layable = noun in OBJECTS[_PUT]
    verbs = [verb for verb in TAKING[noun] if "second" in verb.flags and verb is not first]
    return [_PUT] if layable and (not verbs or chance(rng, 0.4)) else verbs


def because_it(rng: Random) -> Draft:
    """Writes a sentence such as "The man bought the lamp because it was cheap"."""
    tense = rng.choice(("past", "past", "present"))
    main, phrase = _handled(rng, tense, 0)
    sub = pick_state(rng, pronoun_for(phrase), tense, phrase.noun)
    link = rng.choice((("because", ", weil"), ("although", ", obwohl")))
    return joined(main, perhaps_not(rng, sub), link)


def _handled(rng: Random, tense: str, adjective_chance: float) -> tuple[Clause, NounPhrase]:
    """Picks a clause whose object is a thing, and returns the clause and the object."""
    verb = rng.choice(_FIRST)
    noun = pick_object_noun(rng, verb)
    while not noun.classes & _THINGS or not FITTING[noun]:
        verb = rng.choice(_FIRST)
        noun = pick_object_noun(rng, verb)
    plural = pick_plural(rng, noun, 0.12)
    determiners = ("the", "these", "two") if plural else ("the", "the", "a", "this")
    if noun.mass:
        determiners = ("the", "the", "this")
    adjective = pick_adjective(rng, noun, adjective_chance)
    phrase = NounPhrase(noun, rng.choice(determiners), adjective, plural)
    subject = pick_certain_subject(rng)
    return Clause(subject, verb, tense, accusative=phrase), phrase
