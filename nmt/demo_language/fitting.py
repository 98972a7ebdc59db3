"""What goes with what, from the classes of the lexicon, so that sentences make sense.

Who reads what, which adjective suits which noun, where one lives: tuples of words in the order of
the lexicon, from which the grammar picks.
"""

from itertools import accumulate

from nmt.demo_language.lexicon import ADJECTIVES, NOUNS, VERBS, Adjective, Noun, Verb


def nouns_of(*classes: str) -> tuple[Noun, ...]:
    """The nouns of any of the classes; the English noun itself is one of its classes."""
    wanted = frozenset(classes)
    return tuple(noun for noun in NOUNS if noun.classes & wanted)


def verbs_of(frame: str) -> tuple[Verb, ...]:
    """The verbs of a frame, such as "trans"."""
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
# Nouns that few verbs take come more often, so that all nouns come about equally often. The sum of
# the weights up to each of OBJECTS.
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
SINGULAR_OBJECT = tuple(verb for verb in TRANS if verb.english != "count")  # takes one thing, too


def places_of(subject: Noun | None) -> tuple[Noun, ...]:
    """Where a noun, or somebody that a pronoun stands for (None), may be and go."""
    return _ANIMAL_PLACES if subject and "animal" in subject.classes else PLACES
