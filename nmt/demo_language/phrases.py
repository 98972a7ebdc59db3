"""Represents noun phrases and pronouns, and writes them in English and in each German case.

The cases are "nom", "acc", "dat" and "gen". In German, articles, adjectives (weak, mixed or strong)
and nouns are inflected.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from nmt.demo_language.inflection import weak_form
from nmt.demo_language.lexicon import NUMBERS, Adjective, Noun

_CASES = ("nom", "acc", "dat", "gen")

_Table = dict[str, dict[str, str]]


def _table(m: str, f: str, n: str, pl: str) -> _Table:
    """Returns forms by gender (or "pl") and case. Each argument contains the forms of all cases."""
    rows = {"m": m, "f": f, "n": n, "pl": pl}
    return {gender: dict(zip(_CASES, row.split(), strict=True)) for gender, row in rows.items()}


_ARTICLE = _table("der den dem des", "die die der der", "das das dem des", "die die den der")
_DER_ENDING = _table("er en em es", "e e er er", "es es em es", "e e en er")
_EIN_ENDING: _Table = {
    "m": {"nom": "", "acc": "en", "dat": "em", "gen": "es"},
    "f": {"nom": "e", "acc": "e", "dat": "er", "gen": "er"},
    "n": {"nom": "", "acc": "", "dat": "em", "gen": "es"},
    "pl": {"nom": "e", "acc": "e", "dat": "en", "gen": "er"},
}
_WEAK = _table("e en en en", "e e en en", "e e en en", "en en en en")
_MIXED = _table("er en en en", "e e en en", "es es en en", "en en en en")
_STRONG = _table("er en em en", "e e er er", "es es em en", "e e en er")
_RELATIVE_PRONOUN = _table(
    "der den dem dessen", "die die der deren", "das das dem dessen", "die die denen deren"
)

_DER_WORDS = {"this": "dies", "these": "dies", "every": "jed", "which": "welch"}
_EIN_WORDS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "our": "unser",
    "your": "Ihr",
    "his": "sein",
    "her": "ihr",
    "their": "ihr",
}
_PLURAL_WORDS = {"some": "einige", "many": "viele", "several": "mehrere"}
_INDEFINITE = ("a", "")


def _indefinite_article(following: str) -> str:
    """Returns "a" or "an", depending on the sound with which the following word begins."""
    if re.match(r"(uni|use|eu|one)", following):
        return "a"
    return "an" if re.match(r"([aeiou]|hour|honest)", following) else "a"


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with an optional determiner, adjective, genitive and relative clause.

    `determiner` is "" if the phrase has no determiner. `attribute` contains the English and German
    texts of a genitive. `relative` contains the English and German texts of a relative clause. The
    German relative clause includes its commas. `phenomena` and `combinations` list the phenomena
    and lemma combinations in the relative clause. If the determiner is "whose", `owner` is the
    gender of the antecedent of "whose", or "pl" if the antecedent is plural.
    """

    noun: Noun
    determiner: str
    adjective: Adjective | None = None
    plural: bool = False
    attribute: tuple[str, str] = ("", "")
    relative: tuple[str, str] = ("", "")
    phenomena: frozenset[str] = frozenset()
    combinations: frozenset[tuple[str, str]] = frozenset()
    owner: str = ""

    person: ClassVar[int] = 3
    is_pronoun: ClassVar[bool] = False

    @property
    def row(self) -> str:
        """The string "pl" if the phrase is plural, otherwise the gender of its noun."""
        return "pl" if self.plural else self.noun.gender

    @property
    def indefinite(self) -> bool:
        """Whether the article is indefinite or missing, so that "kein" can negate the phrase."""
        return self.determiner in _INDEFINITE

    @property
    def numeral(self) -> bool:
        """Whether the determiner is a number."""
        return self.determiner in NUMBERS or self.determiner.isdigit()

    @property
    def new(self) -> bool:
        """Whether the phrase introduces new information and therefore comes late in German."""
        return self.indefinite or self.numeral or self.determiner in _PLURAL_WORDS

    @property
    def quantified(self) -> bool:
        """Whether the phrase has a quantifier such as "every", which makes "not" ambiguous."""
        return self.numeral or self.determiner in ("every", "some", "many", "several", "no")

    @property
    def lemma_pairs(self) -> set[tuple[str, str]]:
        """The English lemma pairs of the phrase (adjective and noun) and of its relative clause."""
        own = {(self.adjective.english, self.noun.english)} if self.adjective else set()
        return own | self.combinations

    def english(self, *, subject: bool = True) -> str:
        """Returns the English text. Ignores `subject`, because noun phrases have only one form."""
        noun = self.noun.english_plural if self.plural else self.noun.english
        words = f"{self.adjective.english} {noun}" if self.adjective else noun
        determiner = _indefinite_article(words) if self.determiner == "a" else self.determiner
        parts = (determiner, words, self.attribute[0], self.relative[0])
        return " ".join(filter(None, parts))

    def german(self, case: str, *, negated: bool = False) -> str:
        """Returns the German text in the given grammatical case. `negated` adds "kein" to an
        indefinite noun phrase."""
        determiner = "no" if negated and self.indefinite else self.determiner
        row = self.row
        owner = _RELATIVE_PRONOUN[self.owner]["gen"] if self.owner else ""
        words = [owner or _determiner_form(determiner, row, case)]
        if self.adjective:
            words.append(self.adjective.stem + _ending_table(determiner)[row][case])
        words += [_noun_form(self.noun, self.plural, case), self.attribute[1]]
        return " ".join(filter(None, words)) + self.relative[1]


def _determiner_form(determiner: str, row: str, case: str) -> str:
    if determiner == "the":
        return _ARTICLE[row][case]
    if determiner in _DER_WORDS:
        return _DER_WORDS[determiner] + _DER_ENDING[row][case]
    if determiner in _EIN_WORDS:
        ending = _EIN_ENDING[row][case]
        return _EIN_WORDS[determiner] + ending
    if determiner in _PLURAL_WORDS:
        return _PLURAL_WORDS[determiner][:-1] + _DER_ENDING["pl"][case]
    return NUMBERS.get(determiner, determiner)


def _ending_table(determiner: str) -> _Table:
    if determiner == "the" or determiner in _DER_WORDS:
        return _WEAK
    return _MIXED if determiner in _EIN_WORDS else _STRONG


def _noun_form(noun: Noun, plural: bool, case: str) -> str:
    if plural:
        dative_n = case == "dat" and not noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + ("n" if dative_n else "")
    if case == "gen":
        return noun.genitive
    return weak_form(noun.german) if noun.weak and case != "nom" else noun.german


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun, or a word that is used like a pronoun, such as "nobody" or "who"."""

    subject: str
    object: str
    nominative: str
    accusative: str
    dative: str
    person: int = 3
    plural: bool = False
    phenomena: frozenset[str] = frozenset()

    is_pronoun: ClassVar[bool] = True
    indefinite: ClassVar[bool] = False
    numeral: ClassVar[bool] = False
    new: ClassVar[bool] = False
    quantified: ClassVar[bool] = False

    def english(self, *, subject: bool = True) -> str:
        """Returns the English form of a subject, such as "he", or of an object, such as "him"."""
        return self.subject if subject else self.object

    def german(self, case: str, *, negated: bool = False) -> str:
        """Returns the German nominative, accusative or dative form. Ignores `negated`."""
        return {"nom": self.nominative, "acc": self.accusative, "dat": self.dative}[case]


Phrase = NounPhrase | Pronoun


def head(phrase: Phrase) -> Noun | None:
    """Returns the noun of a noun phrase, or None for a pronoun."""
    return phrase.noun if isinstance(phrase, NounPhrase) else None


ME = Pronoun("I", "me", "ich", "mich", "mir", person=1)
YOU = Pronoun("you", "you", "Sie", "Sie", "Ihnen", plural=True)
HE = Pronoun("he", "him", "er", "ihn", "ihm")
SHE = Pronoun("she", "her", "sie", "sie", "ihr")
WE = Pronoun("we", "us", "wir", "uns", "uns", plural=True)
THEY = Pronoun("they", "them", "sie", "sie", "ihnen", plural=True)
NOBODY = Pronoun("nobody", "nobody", "niemand", "niemanden", "niemandem")
SOMEBODY = Pronoun("somebody", "somebody", "jemand", "jemanden", "jemandem")

_GENDER = frozenset({"gender"})
_IT = {
    "m": Pronoun("it", "it", "er", "ihn", "ihm", phenomena=_GENDER),
    "f": Pronoun("it", "it", "sie", "sie", "ihr", phenomena=_GENDER),
    "n": Pronoun("it", "it", "es", "es", "ihm", phenomena=_GENDER),
    "pl": THEY,
}


def pronoun_for(phrase: NounPhrase) -> Pronoun:
    """Returns "they" for a plural, otherwise "it" with the gender of the German noun."""
    return _IT[phrase.row]


def relative_pronoun(antecedent: NounPhrase) -> Pronoun:
    """Returns the relative pronoun "who" or "that" in the gender and number of the antecedent."""
    forms = _RELATIVE_PRONOUN[antecedent.row]
    human = "person" in antecedent.noun.classes
    return Pronoun(
        "who" if human else "that",
        "whom" if human else "that",
        forms["nom"],
        forms["acc"],
        forms["dat"],
        plural=antecedent.plural,
        phenomena=frozenset() if antecedent.plural else _GENDER,
    )


_CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
    "bei dem": "beim",
}


def prepositional(preposition: str, case: str, phrase: Phrase) -> str:
    """Adds a German preposition to a phrase, with contractions such as "im", "zur" and "ins"."""
    words = f"{preposition} {phrase.german(case)}"
    if isinstance(phrase, NounPhrase) and phrase.determiner == "the" and not phrase.relative[1]:
        first, article, *rest = words.split(" ")
        contracted = _CONTRACTIONS.get(f"{first} {article}")
        return " ".join([contracted, *rest]) if contracted else words
    return words
