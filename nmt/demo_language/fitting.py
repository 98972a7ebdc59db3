"""Uses the noun classes of the lexicon to find words that make sense together.

The grammar picks random words from the tuples in this module. Each tuple contains words in the
order of the lexicon, for example the adjectives that fit a noun.
"""

from itertools import accumulate

from nmt.demo_language.lexicon import ADJECTIVES, NOUNS, VERBS, Adjective, Noun, Verb


def nouns_of(*classes: str) -> tuple[Noun, ...]:
    """Returns the nouns in at least one of the classes.

    In addition, every noun has a class of its own, which is named after the noun's English form.
    """
    wanted = frozenset(classes)
    return tuple(noun for noun in NOUNS if noun.classes & wanted)


def verbs_of(frame: str) -> tuple[Verb, ...]:
    """Returns the verbs with the given frame, such as "trans"."""
    return tuple(verb for verb in VERBS if verb.frame == frame)


def _taking(noun: Noun) -> tuple[Verb, ...]:
    return tuple(
        verb
        for verb in VERBS
        if verb.frame in ("trans", "dat", "prep")
        and noun.classes & frozenset(verb.objects)
        and verb.lemma not in ("take part in", "count")
    )


def _fitting(noun: Noun) -> tuple[Adjective, ...]:
    return tuple(
        adjective
        for adjective in ADJECTIVES
        if adjective.suits & noun.classes
        and not (adjective.english == "young" and noun.english.startswith("grand"))
        and not (adjective.english == "old" and "young" in noun.classes)
    )


OBJECTS = {verb: nouns_of(*verb.objects) for verb in VERBS}
TAKING = {noun: _taking(noun) for noun in NOUNS}
FITTING = {noun: _fitting(noun) for noun in NOUNS}
# Cumulative weights of the nouns in OBJECTS. Nouns that are the object of few verbs have larger
# weights, so that all nouns occur about equally often.
OBJECT_WEIGHTS = {
    verb: list(accumulate(1 / max(1, len(TAKING[noun])) ** 1.5 for noun in OBJECTS[verb]))
    for verb in VERBS
}

PEOPLE = nouns_of("person")
KIN = nouns_of("kin")
ANIMALS = nouns_of("animal")
PLACES = nouns_of("place")
HOMES = nouns_of("home")
DESTINATIONS = nouns_of("destination")
ARRIVALS = nouns_of("arrival")
_ANIMAL_PLACES = nouns_of("animal_place")

TRANS, DAT, PREP, GIVE = (verbs_of(frame) for frame in ("trans", "dat", "prep", "give"))
REST, MOTION = verbs_of("rest"), verbs_of("motion")
(BE,) = verbs_of("be")
# The verbs whose object can be singular; the object of "count" is plural.
SINGULAR_OBJECT = tuple(verb for verb in TRANS if verb.english != "count")


def places_of(subject: Noun | None) -> tuple[Noun, ...]:
    """Returns the places where `subject`, or a person if `subject` is None, can be or go."""
    return _ANIMAL_PLACES if subject and "animal" in subject.classes else PLACES
