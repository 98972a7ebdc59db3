"""Sentence patterns that describe: there is, to be, prices, ages, times and comparisons."""

from dataclasses import replace

from nmt.demo_language import adverbials, clauses
from nmt.demo_language.adverbials import PLACES
from nmt.demo_language.clauses import Clause, Words
from nmt.demo_language.lexicon import NUMBERS, Adjective, Noun
from nmt.demo_language.phrases import NounPhrase, Phrase
from nmt.demo_language.selection import (
    ANIMAL_PLACES,
    FITTING,
    KIN,
    PEOPLE,
    Selection,
    nouns_of,
    verbs_of,
)
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
(_COST,), (_BE,) = verbs_of("cost"), verbs_of("be")
_KINDS = ("person", "animal", "food", "drink", "clothes", "furniture", "document", "vehicle")
_NO_EXCESS = tuple(degree for degree in adverbials.DEGREES if degree[0] != "too")


class Descriptions(Selection):
    """The describing patterns; each method writes one sentence pair."""

    def there_is(self) -> Draft:
        """There are three old chairs in the kitchen."""
        noun = self.rng.choice(_COUNTED)
        plural = self.chance(0.6)
        counts = ("many", "some", "no", "several", *NUMBERS, str(self.rng.randint(13, 60)))
        determiner = self.rng.choice(counts) if plural else self.rng.choice(("a", "a", "no"))
        phrase = NounPhrase(noun, determiner, self.adjective(noun, 0.6), plural)
        past = self.chance(0.25)
        be = ("were" if past else "are") if plural else ("was" if past else "is")
        give = "gab" if past else "gibt"
        places = ANIMAL_PLACES if "animal" in noun.classes else PLACES
        place = adverbials.location(self.place_phrase(places))
        shown = {"case"} | ({"tense"} if past else set())
        shown |= {"negation"} if determiner == "no" else set()
        shown |= {"number or date"} if phrase.numeral else set()
        shown |= {"adjective agreement"} if phrase.adjective else set()
        source = f"there {be} {phrase.english()} {place.english}"
        target = f"es {give} {phrase.german('acc')} {place.german}"
        if self.chance(0.4):
            shown.add("verb second")
            source = f"{place.english} there {be} {phrase.english()}"
            target = f"{place.german} {give} es {phrase.german('acc')}"
        pairs = clauses.phrase_combinations(phrase) | place.combinations
        return draft(source, target, shown | place.phenomena, pairs)

    def measure(self) -> Draft:
        """Prices, ages and times of events."""
        kind = self.rng.random()
        if kind < 0.4:
            return self._price()
        if kind > 0.6:
            return self._appointment()
        subject = _single(self._described(self.rng.choice(PEOPLE)))
        if subject.adjective and subject.adjective.english in ("old", "young"):
            subject = replace(subject, adjective=None)
        count = self.rng.randint(*_age_range(subject.noun))
        age = Words(f"{count} years old", f"{count} Jahre alt", frozenset({"number or date"}))
        tense = self.rng.choice(("present", "past"))
        return said(Clause(subject, _BE, tense, predicate=age))

    def _price(self) -> Draft:
        subject = self._described(self.rng.choice(_GOODS))
        digits = str(self.rng.randint(13, 99))
        number = (digits, digits)
        if subject.noun.classes & {"vehicle", "instrument", "furniture", "machine"}:
            digits = str(self.rng.randint(100, 990))
            number = (digits, digits)
        elif "small" in subject.noun.classes and self.chance(0.5):
            number = self.rng.choice(tuple(NUMBERS.items()))
        price = Words(f"{number[0]} euros", f"{number[1]} Euro", frozenset({"number or date"}))
        tense = "present" if subject.plural else self.rng.choice(("present", "present", "past"))
        return said(Clause(subject, _COST, tense, predicate=price))

    def _appointment(self) -> Draft:
        subject = _single(self._described(self.rng.choice(_EVENTS)))
        time = adverbials.clock(self.rng)
        if self.chance(0.5):
            day = adverbials.day(self.rng)
            english, german = f"{time.english} {day.english}", f"{day.german} {time.german}"
            time = replace(time, english=english, german=german)
        front = "time" if self.chance(0.3) else ""
        tense = self.rng.choice(("present", "past", "future"))
        return said(Clause(subject, self.rng.choice(_EVENT), tense, time=time, front=front))

    def _described(self, noun: Noun) -> NounPhrase:
        phrase = self.phrase(noun, definite=True, subject=True)
        return phrase if phrase.adjective else replace(phrase, adjective=self.adjective(noun, 0.6))

    # To be

    def predicate(self) -> Draft:
        """The roof of the house is red; the key is under the bed; my aunt is a good doctor."""
        kind = self.rng.random()
        tense = self.rng.choice(("present", "present", "past"))
        if kind < 0.25:
            subject = self.phrase(self.rng.choice(_PORTABLE), definite=True, subject=True)
            place = adverbials.surface(self.rng, "dat")
            return said(self.negated(Clause(subject, _BE, tense, place=place), 0.25))
        if kind < 0.5:
            return self._trade(tense)
        subject = self.phrase(self.rng.choice(_DESCRIBED), definite=True, subject=True)
        if kind < 0.8:
            subject = self._part()
        if not FITTING[subject.noun]:
            return self._trade(tense)
        return said(self.perhaps_not(self.state(replace(subject, adjective=None), tense)))

    def _part(self) -> NounPhrase:
        """A noun with a genitive: the price of the car."""
        whole = self.rng.choice(_WHOLES)
        names: tuple[str, ...] = ("owner", "price", "colour")
        if whole.classes & {"building", "room"}:
            names = ("door", "window", "wall", "roof" if "building" in whole.classes else "door")
        phrase = NounPhrase(whole, self.rng.choice(("the", "the", "this")))
        return NounPhrase(
            _PARTS[self.rng.choice(names)],
            "the",
            attribute=(f"of {phrase.english()}", phrase.german("gen")),
            phenomena=frozenset({"case"}),
        )

    def _trade(self, tense: str) -> Draft:
        """My father is a (good) baker: no article in German without an adjective."""
        person, trade = self.rng.choice(KIN), self.rng.choice(_TRADES)
        while person.gender != trade.gender:
            trade = self.rng.choice(_TRADES)
        subject = NounPhrase(person, self.rng.choice(("my", "his", "her", "our", "your")))
        phrase = NounPhrase(trade, "a", self.adjective(trade, 0.7))
        words = Words(
            phrase.english(),
            phrase.german("nom") if phrase.adjective else trade.german,
            frozenset({"adjective agreement"} if phrase.adjective else ()),
            combinations=frozenset(clauses.phrase_combinations(phrase)),
        )
        return said(Clause(subject, _BE, tense, predicate=words))

    def state(self, subject: Phrase, tense: str, noun: Noun | None = None) -> Clause:
        """The subject is (very) ...; `noun` is what a pronoun subject stands for."""
        if isinstance(subject, NounPhrase):
            noun = subject.noun
        fitting = FITTING[noun or PEOPLE[0]]
        reason = not isinstance(subject, NounPhrase)  # what is good, not what is red or too good
        if reason:
            fitting = tuple(word for word in fitting if word.kind != "colour")
        human = noun is None or "person" in noun.classes
        adjective = self.rng.choice(fitting)
        predicate = Words(adjective.english, adjective.german)
        if not adjective.kind and self.chance(0.4):
            english, german = self.rng.choice(_NO_EXCESS if human or reason else adverbials.DEGREES)
            predicate = Words(f"{english} {adjective.english}", f"{german} {adjective.german}")
        if noun:
            pairs = frozenset({(adjective.english, noun.english)})
            predicate = replace(predicate, combinations=pairs)
        return Clause(subject, _BE, tense, predicate=predicate)

    def perhaps_not(self, state: Clause) -> Clause:
        """not old, not very old, but never "not quite old"."""
        degree = state.predicate.english.partition(" ")[0] if state.predicate else ""
        return state if degree in ("quite", "really", "extremely") else self.negated(state, 0.28)

    def comparison(self) -> Draft:
        """The dog is older than the cat."""
        noun, adjective, other = self._compared()
        first = replace(self.phrase(noun, definite=True, subject=True), adjective=None)
        second = replace(self.phrase(other, definite=True, subject=True), adjective=None)
        words = (f"{adjective.english_comparative} than", f"{adjective.german_comparative} als")
        if self.chance(0.3):
            words = (f"as {adjective.english} as", f"so {adjective.german} wie")
        predicate = Words(
            f"{words[0]} {second.english()}",
            f"{words[1]} {second.german('nom')}",
            combinations=frozenset({(adjective.english, noun.english)}),
        )
        tense = self.rng.choice(("present", "present", "past"))
        return said(self.negated(Clause(first, _BE, tense, predicate=predicate), 0.2))

    def _compared(self) -> tuple[Noun, Adjective, Noun]:
        """Two nouns of one kind and an adjective that suits both."""
        while True:
            noun, other = self.rng.choice(_DESCRIBED), self.rng.choice(_DESCRIBED)
            shared = [word for word in FITTING[noun] if word in FITTING[other]]
            adjective = self.rng.choice(shared) if shared else None
            same_kind = noun is not other and _kind(noun) == _kind(other)
            if adjective and same_kind and not adjective.kind:
                return noun, adjective, other


def _age_range(noun: Noun) -> tuple[int, int]:
    if noun.english in ("grandmother", "grandfather"):
        return 55, 95
    if noun.english in ("mother", "father", "uncle", "aunt"):
        return 32, 70
    return (5, 17) if "young" in noun.classes else (20, 80)


def _single(phrase: NounPhrase) -> NounPhrase:
    determiner = "this" if phrase.determiner == "these" else phrase.determiner
    return replace(phrase, plural=False, determiner=determiner)


def _kind(noun: Noun) -> str:
    for kind in (*_KINDS, "thing", "room", "building", "place"):
        if kind in noun.classes:
            return kind
    return "thought"
