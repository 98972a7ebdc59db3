"""Picks random noun phrases and pronouns that fit a verb or a noun.

All choices depend only on the arguments, including the random number generator `rng`.
"""

from dataclasses import replace
from random import Random

from nmt.demo_language.fitting import ANIMALS, FITTING, OBJECT_WEIGHTS, OBJECTS, PEOPLE
from nmt.demo_language.lexicon import NUMBERS, Adjective, Noun, Verb
from nmt.demo_language.phrases import (
    HE,
    ME,
    NOBODY,
    SHE,
    SOMEBODY,
    THEY,
    WE,
    YOU,
    NounPhrase,
    Phrase,
    Pronoun,
    head,
)

_SINGULAR_KIN = ("mother", "father")
_POSSESSIVES = ("my", "our", "your", "his", "her", "their")
_SUBJECT_PRONOUNS = (ME, YOU, HE, SHE, WE, THEY)
_CLASHING = {ME: (ME, WE), WE: (ME, WE), YOU: (YOU,), HE: (HE,), SHE: (SHE,), THEY: (THEY,)}


def chance(rng: Random, probability: float) -> bool:
    """Returns True with the given probability."""
    return rng.random() < probability


def pick_adjective(rng: Random, noun: Noun, probability: float) -> Adjective | None:
    """With the given probability, picks an adjective that fits the noun. Otherwise returns None."""
    fitting = FITTING[noun]
    return rng.choice(fitting) if fitting and chance(rng, probability) else None


def pick_phrase(
    rng: Random, noun: Noun, *, definite: bool = False, subject: bool = False
) -> NounPhrase:
    """Returns a noun phrase with a random determiner and sometimes a random adjective."""
    single = noun.mass or noun.english in _SINGULAR_KIN
    plural = not single and pick_plural(rng, noun, 0.25)
    determiner = _pick_determiner(rng, noun, plural, definite, subject)
    return NounPhrase(noun, determiner, pick_adjective(rng, noun, 0.3), plural)


def pick_plural(rng: Random, noun: Noun, probability: float) -> bool:
    """Randomly decides whether the noun is plural. Nouns such as "shoe" are usually plural."""
    return not noun.mass and chance(rng, 0.85 if "pair" in noun.classes else probability)


def _pick_determiner(rng: Random, noun: Noun, plural: bool, definite: bool, subject: bool) -> str:
    if "kin" in noun.classes and chance(rng, 0.94):
        return rng.choice(_POSSESSIVES)
    kind = rng.random()
    if kind < 0.44:
        return "the"
    if kind < 0.6:
        return rng.choice(_POSSESSIVES) if "own" in noun.classes else "the"
    if kind < 0.68:
        return "these" if plural else "this"
    if definite:
        return "the"
    if plural:
        counts = ("some", "many", "several", *NUMBERS, str(rng.randint(13, 99)))
        return "" if kind < 0.8 and not subject else rng.choice(counts)
    if noun.mass:
        return "the" if subject or "meal" in noun.classes else ""
    return "every" if subject and kind > 0.97 else "a"


def pick_subject(rng: Random, verb: Verb | None = None) -> Phrase:
    """Picks a pronoun, a person or sometimes an animal as the subject of the verb."""
    kind = rng.random()
    if kind < 0.22:
        return rng.choice(_SUBJECT_PRONOUNS)
    if kind < 0.25:
        return rng.choice((NOBODY, SOMEBODY))
    animal = verb is not None and "animal" in verb.flags and chance(rng, 0.3)
    return pick_phrase(rng, rng.choice(ANIMALS if animal else PEOPLE), subject=True)


def pick_certain_subject(rng: Random, verb: Verb | None = None) -> Phrase:
    """Picks a subject other than "nobody", "somebody" and phrases such as "every boy"."""
    while True:
        subject = pick_subject(rng, verb)
        if subject not in (NOBODY, SOMEBODY) and not subject.quantified:
            return subject


def pick_object_noun(rng: Random, verb: Verb, avoided: Noun | None = None) -> Noun:
    """Picks a noun other than `avoided` as the object of the verb."""
    while True:
        noun = rng.choices(OBJECTS[verb], cum_weights=OBJECT_WEIGHTS[verb])[0]
        if noun is not avoided:
            return noun


def pick_object(rng: Random, verb: Verb, subject: Phrase, avoided: Noun | None = None) -> Phrase:
    """Picks an object that fits the verb and differs from the subject."""
    noun = pick_object_noun(rng, verb, head(subject) or avoided)
    if "person" in noun.classes and chance(rng, 0.12):
        return pick_other_pronoun(rng, subject)
    phrase = pick_phrase(rng, noun, definite="familiar" in verb.flags and not noun.mass)
    if verb.english == "count":
        return replace(phrase, plural=True, determiner=rng.choice(("the", "these", "our")))
    if "getting" in verb.flags and phrase.determiner in _POSSESSIVES:
        return replace(phrase, determiner="the")
    return phrase


def pick_other_pronoun(rng: Random, subject: Phrase) -> Pronoun:
    """Picks a personal pronoun that refers to a person other than the subject."""
    taken = _CLASHING.get(subject, ()) if isinstance(subject, Pronoun) else ()
    return rng.choice([word for word in _SUBJECT_PRONOUNS if word not in taken])


def pick_place_phrase(rng: Random, nouns: tuple[Noun, ...]) -> NounPhrase:
    """Picks a noun phrase with one of the given nouns, which must be places."""
    noun = rng.choice(nouns)
    determiner = rng.choice(("the", "the", "the", "the", "a", "this", "our"))
    if determiner == "our" and "own" not in noun.classes:
        determiner = "the"
    return NounPhrase(noun, determiner, pick_adjective(rng, noun, 0.25))
