"""Picks random adverbials of time, date and place, and provides lists of adverbs."""

from random import Random

from nmt.demo_language.clauses import Words
from nmt.demo_language.fitting import nouns_of
from nmt.demo_language.lexicon import ADVERBIALS, MONTHS, NUMBERS, ORDINALS, WEEKDAYS
from nmt.demo_language.phrases import NounPhrase, prepositional

_NUMBER = frozenset({"number or date"})
_SMALL_NUMBERS = tuple(NUMBERS.items())
_HOURS = (("one", "eins", "ein"), *((e, g, g) for e, g in _SMALL_NUMBERS))


def _of_kind(kind: str) -> tuple[Words, ...]:
    negation = frozenset({"negation"})
    return tuple(
        Words(
            adverbial.english,
            adverbial.german,
            phenomena=negation if adverbial.english == "never" else frozenset(),
            comma=adverbial.front == "comma",
        )
        for adverbial in ADVERBIALS
        if adverbial.kind == kind
    )


COMMENTS = _of_kind("comment")
PAST_COMMENTS = COMMENTS + _of_kind("narrative")
FREQUENT = _of_kind("frequency")  # for example, "often"
HABITUAL = FREQUENT + _of_kind("habit")  # for example, "usually"
(STILL,) = _of_kind("still")
PERFECT = _of_kind("perfect")
HERE = _of_kind("here")
DEGREES = tuple((words.english, words.german) for words in _of_kind("degree"))
MANNER = {words.english: words for words in _of_kind("manner")}
_TIMES = {tense: _of_kind(tense) for tense in ("past", "future", "present", "progressive")}
_UNITS = nouns_of("unit")
_FURNITURE = nouns_of("surface")
_BUILDINGS = nouns_of("building")
_INSIDE = nouns_of("roomy")


def day(rng: Random) -> Words:
    """Picks a day, such as "on 3 May", "on the third of May" or "on Monday"."""
    english_month, german_month = rng.choice(tuple(MONTHS.items()))
    kind = rng.random()
    if kind < 0.45:
        number = rng.randint(1, 28)
        return Words(f"on {number} {english_month}", f"am {number}. {german_month}", _NUMBER)
    if kind < 0.7:
        english_day, german_day = rng.choice(tuple(ORDINALS.items()))
        english_text = f"on the {english_day} of {english_month}"
        return Words(english_text, f"am {german_day} {german_month}", _NUMBER)
    english_day, german_day = rng.choice(tuple(WEEKDAYS.items()))
    return Words(f"on {english_day}", f"am {german_day}", _NUMBER)


def date(rng: Random) -> Words:
    """Picks a day or a month, such as "on 3 May" or "in May"."""
    if rng.random() < 0.85:
        return day(rng)
    english_month, german_month = rng.choice(tuple(MONTHS.items()))
    return Words(f"in {english_month}", f"im {german_month}", _NUMBER)


def clock(rng: Random) -> Words:
    """Picks a time of day in digits or words, such as "at 7:30" or "at half past seven"."""
    index = rng.randrange(len(_HOURS))
    english_hour, german_hour, german_full = _HOURS[index]
    kind = rng.random()
    if kind < 0.4:
        time = f"{rng.randint(6, 23)}:{rng.randint(1, 11) * 5:02d}"
        return Words(f"at {time}", f"um {time} Uhr", _NUMBER)
    if kind < 0.7:
        return Words(f"at {english_hour} o'clock", f"um {german_full} Uhr", _NUMBER)
    if kind < 0.85:
        following = _HOURS[(index + 1) % len(_HOURS)][1]
        return Words(f"at half past {english_hour}", f"um halb {following}", _NUMBER)
    return Words(f"at a quarter past {english_hour}", f"um Viertel nach {german_hour}", _NUMBER)


def _distance(rng: Random, past: bool) -> Words:
    unit = rng.choice(_UNITS)
    english_number, german_number = rng.choice(_SMALL_NUMBERS)
    dative = unit.german_plural + ("" if unit.german_plural.endswith("n") else "n")
    english_span = f"{english_number} {unit.english_plural}"
    if past:
        return Words(f"{english_span} ago", f"vor {german_number} {dative}", _NUMBER)
    return Words(f"in {english_span}", f"in {german_number} {dative}", _NUMBER)


def time(rng: Random, tense: str) -> Words:
    """Picks an adverbial of time for the tense "past", "future", "present" or "progressive"."""
    if tense == "progressive":
        return rng.choice(_TIMES[tense])
    kind = rng.random()
    if tense == "present":
        return clock(rng) if kind < 0.2 else rng.choice(_TIMES[tense])
    if kind < 0.5:
        return rng.choice(_TIMES[tense])
    if kind < 0.65:
        return _distance(rng, tense == "past")
    if kind < 0.75 and tense == "past":
        year = rng.randint(1950, 2020)
        return Words(f"in {year}", f"im Jahr {year}", _NUMBER)
    return date(rng) if kind < 0.9 else clock(rng)


def _words(phrase: NounPhrase, english_word: str, german_word: str, case: str) -> Words:
    return Words(
        f"{english_word} {phrase.english()}",
        prepositional(german_word, case, phrase),
        frozenset({"case"} | ({"adjective agreement"} if phrase.adjective else set())),
        combinations=frozenset(phrase.lemma_pairs),
    )


def location(phrase: NounPhrase) -> Words:
    """Returns an adverbial of place, such as "in the kitchen" or "at the station"."""
    noun = phrase.noun
    return _words(phrase, noun.english_location, noun.german_location, "dat")


def direction(phrase: NounPhrase) -> Words:
    """Returns an adverbial of direction, such as "to the station" (zum Bahnhof)."""
    german_word = phrase.noun.german_direction
    return _words(phrase, "to", german_word, "dat" if german_word == "zu" else "acc")


def surface(rng: Random, case: str) -> Words:
    """Picks a place near furniture or in a container, such as "under the table".

    `case` is the German case: "dat" if a thing is at the place, or "acc" if a thing is moved there.
    """
    if rng.random() < 0.3:
        return _words(NounPhrase(rng.choice(_INSIDE), "the"), "in", "in", case)
    words = rng.choice((("on", "auf"), ("on", "auf"), ("under", "unter"), ("next to", "neben")))
    return _words(NounPhrase(rng.choice(_FURNITURE), "the"), *words, case)


def beside(rng: Random) -> Words:
    """Picks a place in or near a building, such as "behind the house"."""
    words = rng.choice((("behind", "hinter"), ("in front of", "vor"), ("next to", "neben")))
    return _words(NounPhrase(rng.choice(_BUILDINGS), "the"), *words, "dat")
