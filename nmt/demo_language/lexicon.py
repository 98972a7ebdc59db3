"""Reads the words of the demo language with the inflected forms and categories of each word.

The tables `words/*.tsv` have tab-separated columns and one word per line. Each English word has one
German word per part of speech, so that an English sentence determines its German translation. An
empty cell means that the form is regular (see `nmt.demo_language.inflection`) or that the word has
no such form. Multiple values in a cell are separated by spaces. If the lines are reordered, the
same seed generates different sentences.

The noun table, nouns.tsv, has these columns:
    english, german: the singular of the noun in English and in German.
    english_plural, german_plural: the plural of the noun. The plural of a mass noun is "-".
    gender: the gender of the German noun (m, f or n).
    declension: "weak" for nouns such as "Junge" (accusative "den Jungen"), otherwise empty.
    genitive: the genitive singular of the German noun.
    english_location, german_location: the prepositions that express a location if the noun is a
        place, such as "in" in "in the house".
    german_direction: the German preposition that expresses a direction if the noun is a place, such
        as "in" in "ins Haus" or "zu" in "zum Markt".
    classes: categories that determine with which words the noun can occur. The verb column
        `objects` and the adjective column `suits` list the noun classes, such as "food", that fit
        the verb or the adjective. The following classes do not occur in these two columns:
        own: nouns that can follow "my" or another possessive.
        animal_place: places where animals can be.
        home: places where people live.
        destination: places to which people travel.
        arrival: places at which people arrive.
        trade: nouns that name an occupation, such as "baker".
        roomy: containers into which small things can be put.
        unit: units of time, such as "week".

The verb table, verbs.tsv, has these columns:
    english, english_third, english_gerund, english_past, english_participle: the infinitive, third
        person singular, gerund, past tense and past participle of the English verb.
    particle, preposition: English words that belong to the verb, such as the particle "up" in "wake
        up" and the preposition "for" in "look for".
    prefix, german: the separable prefix of the German verb and the infinitive without the prefix,
        such as "an" and "rufen".
    german_third, german_preterite: the third person singular of the German verb in the present and
        in the preterite, without the separable prefix.
    german_participle: the past participle of the German verb, with the separable prefix.
    auxiliary: the auxiliary verb of the German perfect, which is "haben" or "sein".
    frame: the complements that the verb requires:
        trans: an accusative object.
        dat: a dative object.
        prep: an object with the preposition in the column `german_preposition`.
        give: a dative object, which is a person, and an accusative object.
        rest: no object, but the verb can take an adverbial of place.
        motion: an adverbial that names the destination.
        ride: no object. The subject is a means of public transport.
        event: no object. The subject is an event.
        belong: a dative object, which is the owner.
        cost: a price.
        put: an accusative object, and the place where the object is put.
        be: a predicate.
        that, whether, infinitive: a "that" clause, a "whether" clause or an infinitive,
            respectively.
    german_preposition, case: the preposition and the case (acc or dat) of the German verb's object.
        If the verb has two objects, both columns describe the second object.
    objects: English nouns and noun classes that can be the object of the verb.
    flags: properties of the verb:
        static: the English verb has no progressive, and the verb takes no adverb of manner.
        state: the English verb has no progressive, and the verb takes no adverbial of time.
        animal: the subject of the verb can also be an animal.
        located: the adverbial of place must contain a noun of the class "arrival".
        nowhere: the verb cannot take an adverbial of place.
        placed: the verb can take an adverbial of place in addition to an object.
        getting: the verb means that the subject gets the object, which therefore has no possessive
            such as "my".
        familiar: the object has no indefinite determiner such as "a" or "some".
        first, second: the verb can be the first or the second verb in sentences such as "The boy
            found the key and sold it".
        unasked: the verb is not used in requests such as "Please close the door".

The adjective table, adjectives.tsv, has these columns:
    english, german: the adjective in English and in German.
    english_comparative, german_comparative: the comparative of the adjective. A regular English
        comparative is formed with "more".
    stem: the form of the German adjective to which endings are added, such as "teur" for "teuer".
        An empty cell stands for `german` without a final "e".
    kind: `colour` or `absolute` for adjectives that cannot follow an adverb of degree such as
        "very", otherwise empty.
    suits: English nouns and noun classes that the adjective can describe.

The adverbial table, adverbials.tsv, has these columns:
    english, german: the adverbial in English and in German.
    kind: the use of the adverbial, which is one of the following:
        past, future, present, progressive: an adverbial of time for clauses in the named tense.
        frequency: an adverbial of frequency for clauses in the present or past.
        habit: an adverbial of frequency for clauses in the present.
        still: the adverb "still", which is the only adverb of this kind.
        perfect: an adverb for clauses in the perfect, such as "already".
        manner: an adverb of manner.
        comment: a comment on a clause in any tense, such as "unfortunately".
        narrative: a comment on a clause in the past, such as "suddenly".
        here: an adverbial of place, such as "outside".
        degree: an adverb that modifies an adjective, such as "very".
    front: "comma" if a comma follows the adverbial at the beginning of an English sentence,
        otherwise empty.

The table of other words, other_words.tsv, has these columns:
    english, german: the word in English and in German.
    kind: "number", "ordinal", "month", "weekday" or "dictionary". Only the word-for-word baseline
        uses words of the kind "dictionary", such as pronouns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from nmt.demo_language import inflection

_Row = dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages. The plural forms of a mass noun are empty strings."""

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
    """A verb in both languages, with its complements. Empty strings represent missing parts."""

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
        """The dictionary form of the English verb, such as "look for"."""
        return " ".join(filter(None, (self.english, self.particle, self.preposition)))

    @property
    def german_lemma(self) -> str:
        """The dictionary form of the German verb, such as "anrufen"."""
        return self.prefix + self.german


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages, with the nouns that it can describe."""

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
    """Yields a dictionary for each line of a table such as "nouns", with column names as keys."""
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
