"""Reads the words of the demo language, with their meanings, inflection and combinations.

The tables `words/*.tsv` have tab-separated columns and one word per line. Each English word has one
German word per part of speech, so that the English sentence determines the German one. An
empty cell means that the form is regular (`nmt.demo_language.inflection`) or does not apply.
Multiple entries in a cell are separated by spaces. The order of the lines affects which sentences
are generated from a seed.

nouns.tsv
    english, english_plural, german, german_plural: a mass noun has "-" in both plural columns.
    gender: m, f or n.
    declension: "weak" for nouns such as Junge (accusative: den Jungen); otherwise empty.
    genitive: German genitive singular.
    english_location, german_location: for places, the prepositions of "in the house".
    german_direction: for places, the German preposition of "to the house" (ins Haus, zum Markt).
    classes: categories that verbs and adjectives refer to; own: may follow "my"; animal_place:
        where animals are; home: where people live; destination: where people travel; arrival: where
        people arrive; trade: an occupation; roomy: holds small things; unit: a unit of time.

verbs.tsv
    english, english_third, english_gerund, english_past, english_participle: the English forms.
    particle, preposition: English words that belong to the verb, as in "wake up" and "look for".
    prefix, german: the separable prefix, and the infinitive without the prefix (an, rufen).
    german_third, german_preterite: third person singular, without the prefix.
    german_participle: participle with the prefix.
    auxiliary: the auxiliary of the perfect, haben or sein.
    frame: the complements that the verb needs: trans (an accusative), dat (a dative), prep
        (german_preposition with a phrase), give (a dative person and an accusative), rest
        (nothing; a place is optional), motion (a destination), ride (a public vehicle as subject),
        event (an event as subject), belong (a dative owner), cost (a price), put (a thing and its
        destination), be, and that, whether, infinitive for the following clause.
    german_preposition, case: preposition and case (acc or dat) of the object (of two, the last).
    objects: nouns, or classes of nouns, that can be the object.
    flags: static: has no English progressive; state: also takes no adverbial of time; animal: the
        subject can also be an animal; located: the place is of class arrival; nowhere: takes no
        place; placed: the object is seen or obtained somewhere; getting: the object should not
        follow "my"; familiar: the object should not follow "a" or "some"; first, second: can
        be the first or the second verb in "found the key and sold it"; unasked: not after
        "please".

adjectives.tsv
    english, english_comparative (empty: more ...), german, german_comparative.
    stem: the German form before an ending (teuer: teur-).
    kind: `colour` or `absolute`, for adjectives without degrees such as "very".
    suits: nouns, or classes of nouns, that the adjective fits.

adverbials.tsv
    english, german.
    kind: past, future, present, progressive (times for these tenses); frequency (with present and
        past), habit (with the present), still, perfect; manner; comment, narrative (a comment on
        the past); here (places); degree (of an adjective).
    front: "comma" if English has a comma after the adverbial at the beginning of a sentence.

other_words.tsv
    english, german: the word in both languages.
    kind: number, ordinal, month, weekday, or dictionary (words such as pronouns, which only the
        word-for-word baseline looks up).
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
    classes: frozenset[str]  # includes the English noun itself

    @property
    def mass(self) -> bool:
        """Whether the noun is a mass noun."""
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
    """Yields each line of a table, such as "nouns", as a dictionary of cells by column name."""
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
