"""Generates descriptions, such as sentences with "there is" or a form of "to be".

Some of the sentences state a price, an age or a time, or compare two people or things.
"""

from dataclasses import replace
from random import Random

from nmt.demo_language import adverbials
from nmt.demo_language.clauses import Clause, Words
from nmt.demo_language.fitting import BE, FITTING, KIN, PEOPLE, nouns_of, places_of, verbs_of
from nmt.demo_language.lexicon import NUMBERS, Adjective, Noun
from nmt.demo_language.phrases import NounPhrase
from nmt.demo_language.pick_clauses import perhaps_negated, perhaps_not, pick_state
from nmt.demo_language.pick_phrases import chance, pick_adjective, pick_phrase, pick_place_phrase
from nmt.demo_language.sentences import Draft, draft, said

_EVENTS = nouns_of("event")
_GOODS = nouns_of("thing", "private", "book", "novel", "magazine", "newspaper", "dictionary")
_PORTABLE = nouns_of("small", "paper")
_COUNTED = tuple(
    noun
    for noun in nouns_of("thing", "animal", "book", "newspaper", "letter", "person")
    if "kin" not in noun.classes and not noun.mass
)
_DESCRIBED = nouns_of(
    "person", "animal", "food", "thing", "document", "vehicle", "place", "thought"
)
_TRADES = nouns_of("trade")
_WHOLES = tuple(
    noun
    for noun in nouns_of("building", "vehicle", "clothes", "furniture", "room")
    if noun.english != "bridge"
)
_PARTS = {noun.english: noun for noun in nouns_of("attribute", "part")}
_EVENT = verbs_of("event")
(_COST,) = verbs_of("cost")
_KINDS = ("person", "animal", "food", "drink", "clothes", "furniture", "document", "vehicle")


def there_is(rng: Random) -> Draft:
    """Writes a sentence such as "There are three old chairs in the kitchen"."""
    noun = rng.choice(_COUNTED)
    plural = chance(rng, 0.6)
    counts = ("many", "some", "no", "several", *NUMBERS, str(rng.randint(13, 60)))
    determiner = rng.choice(counts) if plural else rng.choice(("a", "a", "no"))
    phrase = NounPhrase(noun, determiner, pick_adjective(rng, noun, 0.6), plural)
    past = chance(rng, 0.25)
    be = ("were" if past else "are") if plural else ("was" if past else "is")
    give = "gab" if past else "gibt"
    place = adverbials.location(pick_place_phrase(rng, places_of(noun)))
    shown = {"case"} | ({"tense"} if past else set())
    shown |= {"negation"} if determiner == "no" else set()
    shown |= {"number or date"} if phrase.numeral else set()
    shown |= {"adjective agreement"} if phrase.adjective else set()
    source = f"there {be} {phrase.english()} {place.english}"
    target = f"es {give} {phrase.german('acc')} {place.german}"
    if chance(rng, 0.4):
        shown.add("verb second")
        source = f"{place.english} there {be} {phrase.english()}"
        target = f"{place.german} {give} es {phrase.german('acc')}"
    pairs = phrase.lemma_pairs | place.combinations
    return draft(source, target, shown | place.phenomena, pairs)


def measure(rng: Random) -> Draft:
    """Writes a sentence that states the price of a thing, a person's age or an event's time."""
    kind = rng.random()
    if kind < 0.4:
        return _price(rng)
    if kind > 0.6:
        return _appointment(rng)
    subject = _single(_described(rng, rng.choice(PEOPLE)))
    if subject.adjective and subject.adjective.english in ("old", "young"):
        subject = replace(subject, adjective=None)
    count = rng.randint(*_age_range(subject.noun))
    age = Words(f"{count} years old", f"{count} Jahre alt", frozenset({"number or date"}))
    tense = rng.choice(("present", "past"))
    return said(Clause(subject, BE, tense, predicate=age))


def _price(rng: Random) -> Draft:
    subject = _described(rng, rng.choice(_GOODS))
    digits = str(rng.randint(13, 99))
    number = (digits, digits)
    if subject.noun.classes & {"vehicle", "instrument", "furniture", "machine"}:
        digits = str(rng.randint(100, 990))
        number = (digits, digits)
    elif "small" in subject.noun.classes and chance(rng, 0.5):
        number = rng.choice(tuple(NUMBERS.items()))
    price = Words(f"{number[0]} euros", f"{number[1]} Euro", frozenset({"number or date"}))
    tense = "present" if subject.plural else rng.choice(("present", "present", "past"))
    return said(Clause(subject, _COST, tense, predicate=price))


def _appointment(rng: Random) -> Draft:
    subject = _single(_described(rng, rng.choice(_EVENTS)))
    time = adverbials.clock(rng)
    if chance(rng, 0.5):
        day = adverbials.day(rng)
        english, german = f"{time.english} {day.english}", f"{day.german} {time.german}"
        time = replace(time, english=english, german=german)
    front = "time" if chance(rng, 0.3) else ""
    tense = rng.choice(("present", "past", "future"))
    return said(Clause(subject, rng.choice(_EVENT), tense, time=time, front=front))


def _described(rng: Random, noun: Noun) -> NounPhrase:
    phrase = pick_phrase(rng, noun, definite=True, subject=True)
    return phrase if phrase.adjective else replace(phrase, adjective=pick_adjective(rng, noun, 0.6))


def _single(phrase: NounPhrase) -> NounPhrase:
    determiner = "this" if phrase.determiner == "these" else phrase.determiner
    return replace(phrase, plural=False, determiner=determiner)


def _age_range(noun: Noun) -> tuple[int, int]:
    if noun.english in ("grandmother", "grandfather"):
        return 55, 95
    if noun.english in ("mother", "father", "uncle", "aunt"):
        return 32, 70
    return (5, 17) if "young" in noun.classes else (20, 80)


def predicate(rng: Random) -> Draft:
    """Writes a sentence such as "The roof is red" or "The key is under the bed"."""
    kind = rng.random()
    tense = rng.choice(("present", "present", "past"))
    if kind < 0.25:
        subject = pick_phrase(rng, rng.choice(_PORTABLE), definite=True, subject=True)
        place = adverbials.surface(rng, "dat")
        return said(perhaps_negated(rng, Clause(subject, BE, tense, place=place), 0.25))
    if kind < 0.5:
        return _trade(rng, tense)
    subject = pick_phrase(rng, rng.choice(_DESCRIBED), definite=True, subject=True)
    if kind < 0.8:
        subject = _part(rng)
    if not FITTING[subject.noun]:
        return _trade(rng, tense)
    return said(perhaps_not(rng, pick_state(rng, replace(subject, adjective=None), tense)))


def _part(rng: Random) -> NounPhrase:
    """Picks a noun phrase with a genitive, such as "the price of the car"."""
    whole = rng.choice(_WHOLES)
    names: tuple[str, ...] = ("owner", "price", "colour")
    if whole.classes & {"building", "room"}:
        names = ("door", "window", "wall", "roof" if "building" in whole.classes else "door")
    phrase = NounPhrase(whole, rng.choice(("the", "the", "this")))
    return NounPhrase(
        _PARTS[rng.choice(names)],
        "the",
        attribute=(f"of {phrase.english()}", phrase.german("gen")),
        phenomena=frozenset({"case"}),
    )


def _trade(rng: Random, tense: str) -> Draft:
    """Writes a sentence such as "My father is a good baker".

    Without an adjective, an occupation has no article in German, as in "Mein Vater ist Bäcker".
    """
    person, trade = rng.choice(KIN), rng.choice(_TRADES)
    while person.gender != trade.gender:
        trade = rng.choice(_TRADES)
    subject = NounPhrase(person, rng.choice(("my", "his", "her", "our", "your")))
    phrase = NounPhrase(trade, "a", pick_adjective(rng, trade, 0.7))
    words = Words(
        phrase.english(),
        phrase.german("nom") if phrase.adjective else trade.german,
        frozenset({"adjective agreement"} if phrase.adjective else ()),
        combinations=frozenset(phrase.lemma_pairs),
    )
    return said(Clause(subject, BE, tense, predicate=words))


def comparison(rng: Random) -> Draft:
    """Writes a sentence such as "The dog is older than the cat"."""
    noun, adjective, other = _compared(rng)
    first = replace(pick_phrase(rng, noun, definite=True, subject=True), adjective=None)
    second = replace(pick_phrase(rng, other, definite=True, subject=True), adjective=None)
    words = (f"{adjective.english_comparative} than", f"{adjective.german_comparative} als")
    if chance(rng, 0.3):
        words = (f"as {adjective.english} as", f"so {adjective.german} wie")
    predicate = Words(
        f"{words[0]} {second.english()}",
        f"{words[1]} {second.german('nom')}",
        combinations=frozenset({(adjective.english, noun.english)}),
    )
    tense = rng.choice(("present", "present", "past"))
    return said(perhaps_negated(rng, Clause(first, BE, tense, predicate=predicate), 0.2))


def _compared(rng: Random) -> tuple[Noun, Adjective, Noun]:
    """Picks two nouns of the same kind and an adjective that can describe both nouns."""
    while True:
        noun, other = rng.choice(_DESCRIBED), rng.choice(_DESCRIBED)
        shared = [word for word in FITTING[noun] if word in FITTING[other]]
        adjective = rng.choice(shared) if shared else None
        same_kind = noun is not other and _kind(noun) == _kind(other)
        if adjective and same_kind and not adjective.kind:
            return noun, adjective, other


def _kind(noun: Noun) -> str:
    for kind in (*_KINDS, "thing", "room", "building", "place"):
        if kind in noun.classes:
            return kind
    return "thought"
