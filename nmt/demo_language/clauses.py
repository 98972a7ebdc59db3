"""Represents the meaning of a clause, which the modules `english` and `german` write as text."""

from collections.abc import Iterator
from dataclasses import dataclass

from nmt.demo_language.lexicon import Verb
from nmt.demo_language.phrases import Phrase

MODALS = (
    *("can", "must", "should", "may", "could", "would like to", "want to", "wanted to", "had to"),
)
PAST_MODALS = ("could", "wanted to", "had to")


@dataclass(frozen=True, slots=True)
class Words:
    """An adverbial or predicate in both languages, with its grammatical phenomena."""

    english: str
    german: str
    phenomena: frozenset[str] = frozenset()
    comma: bool = False  # whether a comma follows at the beginning of an English sentence
    combinations: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Clause:
    """The meaning of a clause, from which the English and the German text are generated.

    If the clause begins with an adverbial, `front` is the name of the adverbial's field, such as
    "time".
    """

    subject: Phrase
    verb: Verb
    tense: str  # present, progressive, past, perfect, future or one of MODALS
    negated: bool = False
    dative: Phrase | None = None
    accusative: Phrase | None = None
    prepositional: Phrase | None = None
    predicate: Words | None = None
    time: Words | None = None
    frequency: Words | None = None
    manner: Words | None = None
    place: Words | None = None
    comment: Words | None = None
    front: str = ""

    @property
    def fronted(self) -> Words | None:
        """The adverbial at the beginning of the clause, or None if there is none."""
        return getattr(self, self.front) if self.front else None

    def later(self, slot: str) -> Words | None:
        """Returns the adverbial in the field `slot`, or None if it begins the clause."""
        return None if slot == self.front else getattr(self, slot)

    def objects(self) -> Iterator[tuple[Phrase, str]]:
        """Yields the objects of the verb, each with its German case."""
        if self.dative:
            yield self.dative, "dat"
        if self.accusative:
            yield self.accusative, "acc"
        if self.prepositional:
            yield self.prepositional, self.verb.case

    def adverbials(self) -> Iterator[Words]:
        """Yields the predicate, if there is one, and all adverbials of the clause."""
        slots = (self.predicate, self.time, self.frequency, self.manner, self.place, self.comment)
        return (words for words in slots if words)
