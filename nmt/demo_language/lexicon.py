"""Reads the words of the demo language, with their meanings, inflection and combinations.

The tables `words/*.tsv` have tab-separated columns and one word per line. Each English word has one
German word of its part of speech, so that the German sentence is a function of the English one. An
empty cell means that the form is regular (`nmt.demo_language.inflection`) or does not apply.
Several entries of a cell are separated by spaces. The order of lines affects which sentences a seed
generates.

nouns.tsv
    english, english_plural, german, german_plural: a mass noun has "-" in both plural columns.
    gender: m, f or n.
    declension: "weak" for nouns such as Junge, accusative den Jungen; otherwise empty.
    genitive: German genitive singular.
    english_location, german_location: prepositions of "in the house", for places.
    german_direction: preposition of "to the house" (ins Haus, zum Markt), for places.
    classes: categories that verbs and adjectives refer to; own: may be "my"; animal_place, home,
        destination, arrival: where animals are, where people live, travel to and arrive; trade: an
        occupation; roomy: holds small things; unit: a unit of time.

verbs.tsv
    english, english_third, english_gerund, english_past, english_participle: the English forms.
    particle, preposition: English words that belong to the verb, as in "wake up", "look for".
    prefix, german: the separable prefix, and the infinitive without it (an, rufen).
    german_third, german_preterite: third person singular, without the prefix. german_participle:
        with the prefix.
    auxiliary: haben or sein, in the perfect.
    frame: what a clause with the verb needs: trans (an accusative), dat (a dative), prep
        (german_preposition with a phrase), give (a dative person and an accusative), rest
        (nothing; a place is optional), motion (a destination), ride (a public vehicle as subject),
        event (an event as subject), belong (a dative owner), cost (a price), put (a thing and its
        destination), be, and that, whether, infinitive for the following clause.
    german_preposition, case: of the (last) object; case is acc or dat.
    objects: classes of nouns that it takes, or single nouns.
    flags: static: no English progressive; state: no times, either; animal: animals can do it, too;
        located: the place is an arrival; nowhere: no place; placed: an object that is seen or
        obtained somewhere; getting: the object should not be "my"; familiar: nor "a" or "some";
        first, second: possible verbs of "found the key and sold it", in this order; unasked: not
        after "please".

adjectives.tsv
    english, english_comparative (empty: more ...), german, german_comparative.
    stem: the German form before an ending (teuer: teur-).
    kind: `colour` or `absolute`, which have no degrees ("very full").
    suits: classes of nouns that it fits, or single nouns.

adverbials.tsv
    english, german.
    kind: past, future, present, progressive (times for these tenses); frequency (with present and
        past), habit (with the present), still, perfect; manner; comment, narrative (a comment on
        the past); here (places); degree (of an adjective).
    front: comma, if English has one after it at the beginning of a sentence.

other_words.tsv
    english, german: the word in both languages. kind: number, ordinal, month, weekday, or
        dictionary (words such as pronouns, which only the word-for-word baseline looks up).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from nmt.demo_language import inflection

_Row = dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages; the plurals of a mass noun are ""."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str  # "m", "f" or "n"
    weak: bool
    genitive: str
    english_location: str
    german_location: str
    german_direction: str
    classes: frozenset[str]  # the English noun is one of them

    @property
    def mass(self) -> bool:
        """Whether it is a mass noun."""
        return not self.english_plural


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages with its complements; missing parts are empty strings."""

    english: str
    english_third: str
    english_gerund: str
    english_past: str
    english_participle: str
    particle: str
    preposition: str
    prefix: str
    german: str  # the infinitive without its prefix
    german_third: str  # without the prefix, like the preterite
    german_preterite: str
    german_participle: str  # with the prefix
    auxiliary: str
    frame: str
    german_preposition: str
    case: str
    objects: tuple[str, ...]
    flags: frozenset[str]

    @property
    def lemma(self) -> str:
        """The English dictionary form, such as "look for"."""
        return " ".join(filter(None, (self.english, self.particle, self.preposition)))

    @property
    def german_lemma(self) -> str:
        """The German dictionary form, such as "anrufen"."""
        return self.prefix + self.german


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages."""

    english: str
    english_comparative: str
    german: str
    german_comparative: str
    stem: str  # the German form before an ending
    kind: str
    suits: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Adverbial:
    """An adverb or adverbial phrase in both languages."""

    english: str
    german: str
    kind: str
    front: str


def rows(table: str) -> Iterator[_Row]:
    """Yields the lines of a table, such as "nouns", as cells by column name."""
    text = (files(__package__) / "words" / f"{table}.tsv").read_text(encoding="utf-8")
    header, *lines = (line.split("\t") for line in text.splitlines())
    for cells in lines:
        yield dict(zip(header, cells, strict=True))


def _noun(row: _Row) -> Noun:
    english, german, gender = row["english"], row["german"], row["gender"]
    weak, mass = row["declension"] == "weak", row["german_plural"] == "-"
    plural = row["english_plural"] or inflection.english_plural(english)
    return Noun(
        english=english,
        english_plural="" if mass else plural,
        german=german,
        german_plural="" if mass else row["german_plural"],
        gender=gender,
        weak=weak,
        genitive=row["genitive"] or inflection.german_genitive(german, gender, weak=weak),
        english_location=row["english_location"],
        german_location=row["german_location"],
        german_direction=row["german_direction"],
        classes=frozenset([english, *row["classes"].split()]),
    )


def _verb(row: _Row) -> Verb:
    english, german = row["english"], row["german"]
    regular = {
        "english_third": inflection.english_third(english),
        "english_gerund": inflection.english_gerund(english),
        "english_past": inflection.english_past(english),
        "english_participle": inflection.english_past(english),
        "german_third": inflection.german_third(german),
        "german_preterite": inflection.german_preterite(german),
        "german_participle": row["prefix"] + inflection.german_participle(german),
    }
    texts = row | {name: row[name] or form for name, form in regular.items()}
    objects, flags = texts.pop("objects").split(), texts.pop("flags").split()
    return Verb(**texts, objects=tuple(objects), flags=frozenset(flags))


def _adjective(row: _Row) -> Adjective:
    english, german = row["english"], row["german"]
    return Adjective(
        english=english,
        english_comparative=row["english_comparative"] or f"more {english}",
        german=german,
        german_comparative=row["german_comparative"] or f"{german}er",
        stem=row["stem"] or german.removesuffix("e"),
        kind=row["kind"],
        suits=frozenset(row["suits"].split()),
    )


def _words_of(kind: str) -> dict[str, str]:
    return {row["english"]: row["german"] for row in rows("other_words") if row["kind"] == kind}


NOUNS: tuple[Noun, ...] = tuple(map(_noun, rows("nouns")))
VERBS: tuple[Verb, ...] = tuple(map(_verb, rows("verbs")))
ADJECTIVES: tuple[Adjective, ...] = tuple(map(_adjective, rows("adjectives")))
ADVERBIALS: tuple[Adverbial, ...] = tuple(Adverbial(**row) for row in rows("adverbials"))
# English and German words
NUMBERS = _words_of("number")
ORDINALS = _words_of("ordinal")
MONTHS = _words_of("month")
WEEKDAYS = _words_of("weekday")
DICTIONARY_WORDS = _words_of("dictionary")
