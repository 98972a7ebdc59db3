"""What goes with what in the demo grammar: drawing of phrases, tenses and clauses.

Who can read what, which adjective suits which noun and what may be "my" comes from the classes of
the lexicon and the few lists here, so that the sentences make sense.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from random import Random

from nmt.demo_language import adverbials, clauses
from nmt.demo_language.adverbials import PLACES
from nmt.demo_language.clauses import PAST_MODALS, Clause, Words
from nmt.demo_language.lexicon import ADJECTIVES, NOUNS, NUMBERS, VERBS, Adjective, Noun, Verb
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
    pronoun_for,
)


def nouns_of(*classes: str) -> tuple[Noun, ...]:
    """The nouns of any of the classes; the English noun itself is one of its classes."""
    wanted = frozenset(classes)
    return tuple(noun for noun in NOUNS if noun.classes & wanted)


def verbs_of(frame: str) -> tuple[Verb, ...]:
    """The verbs of a frame, such as "trans"."""
    return tuple(verb for verb in VERBS if verb.frame == frame)


OBJECTS: dict[Verb, tuple[Noun, ...]] = {verb: nouns_of(*verb.objects) for verb in VERBS}
TAKING: dict[Noun, tuple[Verb, ...]] = {
    noun: tuple(
        verb
        for verb in VERBS
        if verb.frame in ("trans", "dat", "prep")
        and noun in OBJECTS[verb]
        and verb.lemma not in ("take part in", "count")
    )
    for noun in NOUNS
}
FITTING: dict[Noun, tuple[Adjective, ...]] = {
    noun: tuple(
        adjective
        for adjective in ADJECTIVES
        if adjective.suits & noun.classes
        and not (adjective.english == "young" and noun.english.startswith("grand"))
        and not (adjective.english == "old" and "young" in noun.classes)
    )
    for noun in NOUNS
}
# Nouns that few verbs take come more often, so that all nouns come about equally often.
_WEIGHTS: dict[Verb, list[float]] = {
    verb: list(accumulate(1 / max(1, len(TAKING[noun])) ** 1.5 for noun in OBJECTS[verb]))
    for verb in VERBS
}

PEOPLE = nouns_of("person")
KIN = nouns_of("kin")
ANIMALS = nouns_of("animal")
TRANS, DAT, PREP, GIVE = (verbs_of(frame) for frame in ("trans", "dat", "prep", "give"))
REST, MOTION = verbs_of("rest"), verbs_of("motion")
_SINGULAR_KIN = ("mother", "father")
ANIMAL_PLACES, _HOMES, _DESTINATIONS, _ARRIVALS = (
    nouns_of(place) for place in ("animal_place", "home", "destination", "arrival")
)
_POSSESSIVES = ("my", "our", "your", "his", "her", "their")
_SUBJECT_PRONOUNS = (ME, YOU, HE, SHE, WE, THEY)
_CLASHING = {ME: (ME, WE), WE: (ME, WE), YOU: (YOU,), HE: (HE,), SHE: (SHE,), THEY: (THEY,)}


class Selection:
    """Draws words, phrases and clauses that suit each other with one random generator."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # Phrases

    def adjective(self, noun: Noun, probability: float) -> Adjective | None:
        """An adjective that suits the noun, or none."""
        fitting = FITTING[noun]
        return self.rng.choice(fitting) if fitting and self.chance(probability) else None

    def phrase(self, noun: Noun, *, definite: bool = False, subject: bool = False) -> NounPhrase:
        """A noun phrase with a determiner that suits the noun, often with an adjective."""
        single = noun.mass or noun.english in _SINGULAR_KIN
        plural = not single and self.plural(noun, 0.25)
        determiner = self._determiner(noun, plural, definite, subject)
        return NounPhrase(noun, determiner, self.adjective(noun, 0.3), plural)

    def plural(self, noun: Noun, probability: float) -> bool:
        """Whether a phrase with the noun is plural; shoes mostly are."""
        return not noun.mass and self.chance(0.85 if "pair" in noun.classes else probability)

    def _determiner(self, noun: Noun, plural: bool, definite: bool, subject: bool) -> str:
        if "kin" in noun.classes and self.chance(0.94):
            return self.rng.choice(_POSSESSIVES)
        kind = self.rng.random()
        if kind < 0.44:
            return "the"
        if kind < 0.6:
            return self.rng.choice(_POSSESSIVES) if "own" in noun.classes else "the"
        if kind < 0.68:
            return "these" if plural else "this"
        if definite:
            return "the"
        if plural:
            counts = ("some", "many", "several", *NUMBERS, str(self.rng.randint(13, 99)))
            return "" if kind < 0.8 and not subject else self.rng.choice(counts)
        if noun.mass:
            return "the" if subject or "meal" in noun.classes else ""
        return "every" if subject and kind > 0.97 else "a"

    def subject(self, verb: Verb | None = None) -> Phrase:
        """A pronoun or somebody (now and then an animal) who can do what the verb says."""
        kind = self.rng.random()
        if kind < 0.22:
            return self.rng.choice(_SUBJECT_PRONOUNS)
        if kind < 0.25:
            return self.rng.choice((NOBODY, SOMEBODY))
        animal = verb is not None and "animal" in verb.flags and self.chance(0.3)
        return self.phrase(self.rng.choice(ANIMALS if animal else PEOPLE), subject=True)

    def certain_subject(self, verb: Verb | None = None) -> Phrase:
        """A subject that can be asked about and negated: neither nobody nor every."""
        while True:
            subject = self.subject(verb)
            if subject not in (NOBODY, SOMEBODY) and not quantified(subject):
                return subject

    def object_noun(self, verb: Verb, avoided: Noun | None = None) -> Noun:
        """A noun that the verb takes: another than the one to avoid."""
        while True:
            noun = self.rng.choices(OBJECTS[verb], cum_weights=_WEIGHTS[verb])[0]
            if noun is not avoided:
                return noun

    def object(self, verb: Verb, subject: Phrase, avoided: Noun | None = None) -> Phrase:
        """A phrase that the verb takes: another than its subject."""
        noun = self.object_noun(verb, head(subject) or avoided)
        if "person" in noun.classes and self.chance(0.12):
            return self.other_pronoun(subject)
        phrase = self.phrase(noun, definite="familiar" in verb.flags and not noun.mass)
        if verb.english == "count":
            return replace(phrase, plural=True, determiner=self.rng.choice(("the", "these", "our")))
        if "getting" in verb.flags and phrase.determiner in _POSSESSIVES:
            return replace(phrase, determiner="the")
        return phrase

    def other_pronoun(self, subject: Phrase) -> Pronoun:
        """A personal pronoun for somebody else than the subject."""
        taken = _CLASHING.get(subject, ()) if isinstance(subject, Pronoun) else ()
        return self.rng.choice([word for word in _SUBJECT_PRONOUNS if word not in taken])

    def place_phrase(self, nouns: tuple[Noun, ...] = PLACES) -> NounPhrase:
        noun = self.rng.choice(nouns)
        determiner = self.rng.choice(("the", "the", "the", "the", "a", "this", "our"))
        if determiner == "our" and "own" not in noun.classes:
            determiner = "the"
        return NounPhrase(noun, determiner, self.adjective(noun, 0.25))

    def place(self, verb: Verb, subject: Phrase) -> Words:
        """Where the subject may do what the verb says."""
        kind = self.rng.random()
        if kind < 0.12:
            return self.rng.choice(adverbials.HERE)
        if kind < 0.25 and "located" not in verb.flags:
            return adverbials.beside(self.rng)
        nouns = _HOMES if verb.german == "wohnen" else _places_of(subject)
        nouns = _ARRIVALS if "located" in verb.flags else nouns
        return adverbials.location(self.place_phrase(nouns))

    # Clauses

    def tense(self, verb: Verb, subject: Phrase, choices: str = "") -> str:
        """A tense (or modal) that the verb can take, one of the choices if there are any."""
        if choices:
            tense = self.rng.choice(choices.split())
        elif "state" in verb.flags:
            tense = self.rng.choice(("present", "present", "past", "future"))
        else:
            names = ("present", "progressive", "past", "perfect", "future", "modal")
            tense = self.rng.choices(names, (26, 8, 30, 11, 10, 15))[0]
        if tense == "perfect" and "state" in verb.flags:
            return "present"
        if tense == "modal":
            return self.rng.choice(tuple(clauses.MODALS))
        if tense == "progressive" and verb.flags & {"static", "state"}:
            return "present"
        return clear_tense(verb, subject, tense)

    def relative_tense(self, verb: Verb, subject: Phrase, main_tense: str, choices: str) -> str:
        """One of the tenses, but the past beside a past: found what he bought."""
        past = main_tense == "past" or main_tense in PAST_MODALS
        return "past" if past else self.tense(verb, subject, choices)

    def clause(
        self, verb: Verb, subject: Phrase, tense: str, avoided: Noun | None = None
    ) -> Clause:
        """A clause with the objects the verb takes and no adverbials but a place."""
        clause = Clause(subject, verb, tense)
        if verb.frame in ("trans", "give"):
            clause = replace(clause, accusative=self.object(verb, subject, avoided))
        if verb.frame == "give":
            clause = replace(clause, dative=self._receiver(subject, avoided))
        if verb.frame == "dat":
            clause = replace(clause, dative=self.object(verb, subject, avoided))
        if verb.frame == "prep":
            clause = replace(clause, prepositional=self.object(verb, subject, avoided))
        if verb.frame == "motion":
            goals = _DESTINATIONS if verb.english == "travel" else _places_of(subject)
            clause = replace(clause, place=adverbials.direction(self.place_phrase(goals)))
        located = self._has_place(verb, clause.accusative)
        return replace(clause, place=self.place(verb, subject)) if located else clause

    def _receiver(self, subject: Phrase, avoided: Noun | None) -> Phrase:
        if self.chance(0.2):
            return self.other_pronoun(subject)
        taken = head(subject) or avoided
        return self.phrase(self.rng.choice([x for x in PEOPLE if x is not taken]), definite=True)

    def _has_place(self, verb: Verb, thing: Phrase | None) -> bool:
        if "placed" in verb.flags:
            return not (thing and head(thing) in PLACES) and self.chance(0.12)
        if verb.frame != "rest" or "nowhere" in verb.flags:
            return False
        return verb.german in ("wohnen", "bleiben", "sitzen", "stehen") or self.chance(0.65)

    def verb(self) -> Verb:
        frames = (TRANS, DAT, PREP, GIVE, REST, MOTION)
        return self.rng.choice(self.rng.choices(frames, (60, 8, 9, 11, 12, 7))[0])

    def any_clause(self, tenses: str = "") -> Clause:
        """A clause of any verb, negated now and then."""
        verb = self.verb()
        subject = self.subject(verb)
        return self.negated(self.clause(verb, subject, self.tense(verb, subject, tenses)), 0.12)

    def negated(self, clause: Clause, probability: float) -> Clause:
        """The clause negated, if what not applies to cannot be in doubt."""
        phrases = (clause.subject, clause.accusative, clause.dative, clause.prepositional)
        if any(phrase in (NOBODY, SOMEBODY) or quantified(phrase) for phrase in phrases):
            return clause
        if clause.tense in ("must", "may", "would like to", "had to"):
            return clause
        return replace(clause, negated=True) if self.chance(probability) else clause

    def with_adverbials(self, clause: Clause) -> Clause:
        """The clause with a time, a frequency, a manner or a comment, perhaps at the front."""
        if self.chance(0.08):
            return replace(clause, comment=self._comment(clause), front="comment")
        if "state" in clause.verb.flags:
            still = clause.tense == "present" and not clause.negated and self.chance(0.2)
            return replace(clause, frequency=adverbials.STILL) if still else clause
        clause = self._with_frequency(clause)
        timeless = clause.tense == "perfect" or (clause.tense == "present" and clause.negated)
        if clause.frequency is None and not timeless and self.chance(0.5):
            time = adverbials.time(self.rng, _time_tense(clause.tense))
            return replace(clause, time=time, front="time" if self.chance(0.6) else "")
        if not clause.negated and clause.frequency is None and self.chance(0.2):
            clause = replace(clause, manner=self._manner(clause))
        if clause.place and clause.verb.frame == "rest" and self.chance(0.2):
            clause = replace(clause, front="place")
        return clause

    def _comment(self, clause: Clause) -> Words:
        past = clause.tense == "past" and not clause.negated
        return self.rng.choice(adverbials.PAST_COMMENTS if past else adverbials.COMMENTS)

    def _with_frequency(self, clause: Clause) -> Clause:
        if clause.negated or clause.subject in (NOBODY, SOMEBODY) or not self.chance(0.3):
            return clause
        choices = {
            "present": adverbials.HABITUAL,
            "perfect": adverbials.PERFECT,
            "past": adverbials.FREQUENT,
        }.get(clause.tense)
        return replace(clause, frequency=self.rng.choice(choices)) if choices else clause

    def _manner(self, clause: Clause) -> Words | None:
        names = {
            "trans": ("immediately", "carefully", "again", "quickly"),
            "dat": ("immediately", "again"),
            "rest": ("again", "quietly"),
            "motion": ("quickly", "slowly", "immediately"),
        }.get(clause.verb.frame, ())
        if clause.verb.frame in ("rest", "motion"):
            names += ("together",) if clause.subject.plural else ("alone",)
        if not names or "static" in clause.verb.flags:
            return None
        return adverbials.MANNER[self.rng.choice(names)]


def clear_tense(verb: Verb, subject: Phrase, tense: str) -> str:
    """The perfect for a past that English cannot tell from the present: they read."""
    singular = subject.person == 3 and not subject.plural
    same = verb.english_past == verb.english
    return "perfect" if same and tense == "past" and not singular else tense


def head(phrase: Phrase) -> Noun | None:
    """The noun of a phrase; a pronoun has none."""
    return phrase.noun if isinstance(phrase, NounPhrase) else None


def resumed(subject: Phrase) -> Phrase | None:
    """The pronoun that takes up a subject: he for the king; none for nobody or every king."""
    if not isinstance(subject, NounPhrase):
        return None if subject in (NOBODY, SOMEBODY) else subject
    if subject.noun.english == "child" or subject.determiner == "every":
        return None
    if "animal" in subject.noun.classes:
        return pronoun_for(subject)
    female = subject.noun.gender == "f" or subject.noun.english == "girl"
    return THEY if subject.plural else SHE if female else HE


def plain(phrase: Phrase) -> Phrase:
    """A definite phrase without adjective, for somebody of whom a quality is said."""
    if not isinstance(phrase, NounPhrase):
        return phrase
    determiner = "the" if phrase.determiner == "a" else phrase.determiner
    return replace(phrase, adjective=None, determiner=determiner)


def same_subject(main: Clause, sub: Clause) -> bool:
    """Whether both clauses are about the same pronoun or noun."""
    noun = head(main.subject)
    return noun is head(sub.subject) if noun else main.subject == sub.subject


def quantified(phrase: Phrase | None) -> bool:
    """Whether the phrase counts ("every", "some", "three"), so that not would be ambiguous."""
    words = ("every", "some", "many", "several", "no")
    return isinstance(phrase, NounPhrase) and (phrase.determiner in words or phrase.numeral)


def has_some(phrases: Iterable[Phrase | None]) -> bool:
    """Whether one of the phrases has "some", which questions avoid."""
    return any(isinstance(phrase, NounPhrase) and phrase.determiner == "some" for phrase in phrases)


def _places_of(subject: Phrase) -> tuple[Noun, ...]:
    animal = isinstance(subject, NounPhrase) and "animal" in subject.noun.classes
    return ANIMAL_PLACES if animal else PLACES


def _time_tense(tense: str) -> str:
    if tense in PAST_MODALS:
        return "past"
    return tense if tense in ("past", "present", "progressive") else "future"
