"""Reads the words of the demo language with their inflected forms and their categories.

The tables `words/*.tsv` have tab-separated columns and one word per line. Each English word has one
German word per part of speech, so that an English sentence determines its German translation. An
empty cell means that the form is regular (see `nmt.demo_language.inflection`) or that the word has
no such form. Multiple values in a cell are separated by spaces. The order of the lines affects
which sentences are generated from a seed.

The table of nouns, nouns.tsv, has these columns:
    english, german: the singular in both languages.
    english_plural, german_plural: the plural in both languages; "-" if the noun is a mass noun.
    gender: German gender: m, f or n.
    declension: "weak" for nouns such as "Junge" (accusative "den Jungen"); otherwise empty.
    genitive: German genitive singular.
    english_location, german_location: if the noun is a place, the prepositions for being there,
        such as "in" in "in the house".
    german_direction: if the noun is a place, the German preposition for going there, such as "in"
        in "ins Haus" and "zu" in "zum Markt".
    classes: categories that determine where the noun can occur. Most classes, such as "food", are
        used in the columns `objects` of verbs and `suits` of adjectives. Other classes are:
        own: nouns that can follow "my".
        animal_place: places where animals can be.
        home: places where people live.
        destination: places to which people travel.
        arrival: places at which people arrive.
        trade: occupations.
        roomy: containers into which small things can be put.
        unit: units of time.

The table of verbs, verbs.tsv, has these columns:
    english, english_third, english_gerund, english_past, english_participle: the infinitive, third
        person singular, gerund, past tense and past participle in English.
    particle, preposition: English words that belong to the verb, such as "up" in "wake up" and
        "for" in "look for".
    prefix, german: the separable prefix of the German verb and the infinitive without the prefix,
        such as "an" and "rufen".
    german_third, german_preterite: third person singular in the present and the preterite, without
        the prefix.
    german_participle: German past participle with the prefix.
    auxiliary: auxiliary of the German perfect, "haben" or "sein".
    frame: the complements that the verb needs:
        trans: an accusative object.
        dat: a dative object.
        prep: an object with `german_preposition`.
        give: a person as the dative object, and an accusative object.
        rest: no object; a place is possible.
        motion: a destination.
        ride: no object; the subject is a public vehicle.
        event: no object; the subject is an event.
        belong: an owner as the dative object.
        cost: a price.
        put: a thing as the accusative object, and the place where it is put.
        be: a predicate.
        that, whether, infinitive: a clause with "that" or "whether", or an infinitive.
    german_preposition, case: German preposition and case (acc or dat) of the object, or of the last
        object if the verb has two objects.
    objects: English nouns and classes of nouns that can be the object.
    flags: properties of the verb:
        static: has no progressive in English.
        state: has no progressive in English, and takes no adverbial of time.
        animal: the subject of the verb can also be an animal.
        located: the place must be in the class "arrival".
        nowhere: takes no place.
        placed: can take the place where the object is seen or obtained.
        getting: the object should not follow "my".
        familiar: the object should not follow "a" or "some".
        first, second: can be the first or the second verb in sentences such as "The boy found the
            key and sold it".
        unasked: cannot follow "please".

The table of adjectives, adjectives.tsv, has these columns:
    english, german: the adjective in both languages.
    english_comparative, german_comparative: the comparative in both languages; the regular English
        comparative has "more".
    stem: German form before an ending if it differs from `german`, such as "teur" for "teuer".
    kind: `colour` or `absolute` for adjectives that cannot follow a degree such as "very".
    suits: English nouns and classes of nouns that the adjective can describe.

The table of adverbials, adverbials.tsv, has these columns:
    english, german: the adverbial in both languages.
    kind: the use of the adverbial:
        past, future, present, progressive: a time in a clause with the named tense.
        frequency: a frequency in the present or past.
        habit: a frequency in the present.
        still: only the adverb "still".
        perfect: an adverb in the perfect, such as "already".
        manner: an adverb of manner.
        comment: a comment on a clause in any tense.
        narrative: a comment on a clause in the past.
        here: a place.
        degree: a degree of an adjective.
    front: "comma" if a comma follows the adverbial at the beginning of an English sentence.

The table of other words, other_words.tsv, has these columns:
    english, german: the word in both languages.
    kind: number, ordinal, month, weekday or dictionary. Words of the kind "dictionary", such as
        pronouns, are used only by the word-for-word baseline.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from nmt.demo_language import inflection

_Row = dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages; the plural forms of a mass noun are empty strings."""

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
    """Yields each line of a table such as "nouns" as a dictionary of cells by column name."""
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
# From English words to German words
NUMBERS = _words_of("number")
ORDINALS = _words_of("ordinal")
MONTHS = _words_of("month")
WEEKDAYS = _words_of("weekday")
DICTIONARY_WORDS = _words_of("dictionary")
