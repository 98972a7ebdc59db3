"""Clauses of the demo grammar: verb forms, and the word order of both languages.

A `Clause` holds what is said; `english` and `german` put it into words.  German knows three
orders: "second" (statement), "first" (question, request) and "final" (subordinate clause).
"""

import re
from dataclasses import dataclass

from nmt.demo_language.lexicon import Verb
from nmt.demo_language.phrases import NOBODY, SOMEBODY, NounPhrase, Phrase, prepositional

# English modal: (third person, other persons, base after do or "", German singular, plural)
MODALS: dict[str, tuple[str, str, str, str, str]] = {
    "can": ("can", "can", "", "kann", "können"),
    "must": ("must", "must", "", "muss", "müssen"),
    "should": ("should", "should", "", "sollte", "sollten"),
    "may": ("may", "may", "", "darf", "dürfen"),
    "could": ("could", "could", "", "konnte", "konnten"),
    "would like to": ("would like to", "would like to", "", "möchte", "möchten"),
    "want to": ("wants to", "want to", "want to", "will", "wollen"),
    "wanted to": ("wanted to", "wanted to", "want to", "wollte", "wollten"),
    "had to": ("had to", "had to", "have to", "musste", "mussten"),
}
_EARLY_ADVERBS = ("oft", "immer", "manchmal", "selten", "meistens", "gerade")
PAST_MODALS = ("could", "wanted to", "had to")

_IRREGULAR_PRESENT = {  # ich ..., sie (plural) ...
    "sein": ("bin", "sind"),
    "haben": ("habe", "haben"),
    "mögen": ("mag", "mögen"),
    "wissen": ("weiß", "wissen"),
}


@dataclass(frozen=True, slots=True)
class Words:
    """An adverbial in both languages, with the phenomena it shows."""

    english: str
    german: str
    phenomena: frozenset[str] = frozenset()
    comma: bool = False  # English comma after it at the front
    combinations: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Clause:
    """What one clause says; `front` names the adverbial that opens it, if any."""

    subject: Phrase
    verb: Verb
    tense: str  # present, progressive, past, perfect, future or a key of MODALS
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
        return getattr(self, self.front) if self.front else None

    def later(self, slot: str) -> Words | None:
        """The adverbial of a slot, unless it opens the clause."""
        return None if slot == self.front else getattr(self, slot)


# English


def _be(subject: Phrase, past: bool) -> str:
    if past:
        return "were" if subject.plural else "was"
    return "are" if subject.plural else "am" if subject.person == 1 else "is"


def _english_verb(clause: Clause, question: bool) -> tuple[str, str]:
    """The operator ("" if none) and the rest of the verb group, without not."""
    verb, subject, tense = clause.verb, clause.subject, clause.tense
    singular = subject.person == 3 and not subject.plural
    if tense == "future":
        return "will", verb.english
    if tense == "perfect":
        return ("has" if singular else "have"), verb.english_participle
    if tense == "progressive":
        return _be(subject, False), verb.english_gerund
    if tense == "could" and not clause.negated:
        return _be(subject, True), f"able to {verb.english}"
    if tense == "may" and not question:
        return _be(subject, False), f"allowed to {verb.english}"
    if tense in MODALS:
        third, other, base, _, _ = MODALS[tense]
        form = third if singular else other
        if not base:
            operator, _, rest = form.partition(" ")
            return operator, f"{rest} {verb.english}".strip()
        if question or clause.negated:
            past = tense in PAST_MODALS
            return ("did" if past else "does" if singular else "do"), f"{base} {verb.english}"
        return "", f"{form} {verb.english}"
    past = tense == "past"
    if verb.english == "be":
        return _be(subject, past), ""
    if question or clause.negated:
        return ("did" if past else "does" if singular else "do"), verb.english
    if past:
        return "", verb.english_past
    return "", verb.english_third if singular else verb.english


def _english_objects(clause: Clause) -> list[str]:
    verb, words = clause.verb, []
    dative = clause.dative.english(subject=False) if clause.dative else ""
    accusative = clause.accusative.english(subject=False) if clause.accusative else ""
    if verb.frame == "give":
        if verb.english in ("explain", "recommend"):
            return [accusative, f"to {dative}"]
        return [dative, accusative]
    if verb.particle:
        pronoun = clause.accusative is not None and clause.accusative.is_pronoun
        words += [accusative, verb.particle] if pronoun else [verb.particle, accusative]
        accusative = ""
    words += [verb.preposition, dative, accusative]
    if clause.prepositional:
        words.append(clause.prepositional.english(subject=False))
    return words


def _english_tail(clause: Clause) -> list[str]:
    words = [*_english_objects(clause)]
    for slot in ("predicate", "manner", "place", "time"):
        adverbial = clause.later(slot)
        words.append(adverbial.english if adverbial else "")
    return words


def english(clause: Clause) -> str:
    """The clause as an English statement, without capital and full stop."""
    operator, rest = _english_verb(clause, question=False)
    if clause.negated and operator == "can":
        operator, negation = "cannot", ""
    else:
        negation = "not" if clause.negated else ""
    fronted = clause.fronted
    front = f"{fronted.english}{',' if fronted.comma else ''}" if fronted else ""
    frequency = clause.later("frequency")
    words = [front, clause.subject.english(), operator, negation]
    words += [frequency.english if frequency else "", rest, *_english_tail(clause)]
    return " ".join(filter(None, words))


def english_question(clause: Clause, question_words: str = "") -> str:
    """The clause as an English question; the question words must not be its subject."""
    operator, rest = _english_verb(clause, question=True)
    frequency = clause.later("frequency")
    words = [question_words, operator, clause.subject.english()]
    words += ["not" if clause.negated else "", frequency.english if frequency else "", rest]
    return " ".join(filter(None, words + _english_tail(clause)))


def english_infinitive(clause: Clause) -> str:
    """The clause without its subject: "call the woman today"."""
    return " ".join(filter(None, [clause.verb.english, *_english_tail(clause)]))


# German


def _present(verb: Verb, subject: Phrase) -> str:
    first, plural = _IRREGULAR_PRESENT.get(verb.german, ("", verb.german))
    if subject.plural:
        return plural
    if subject.person == 3:
        return verb.german_third
    if verb.german.endswith("eln"):
        return first or verb.german[:-3] + "le"
    return first or re.sub(r"e?n$", "", verb.german) + "e"


def _preterite(verb: Verb, subject: Phrase) -> str:
    if not subject.plural:
        return verb.german_preterite
    return verb.german_preterite + ("n" if verb.german_preterite.endswith("e") else "en")


def _auxiliary(verb: Verb, subject: Phrase) -> str:
    row = ("bin", "ist", "sind") if verb.auxiliary == "sein" else ("habe", "hat", "haben")
    return row[2] if subject.plural else row[0] if subject.person == 1 else row[1]


def german_infinitive(verb: Verb) -> str:
    """The infinitive with zu: zu kaufen, anzurufen."""
    return f"{verb.prefix}zu{verb.german}" if verb.prefix else f"zu {verb.german}"


def _german_verb(clause: Clause, question: bool) -> tuple[str, str]:
    """The finite verb and what closes the bracket (prefix, participle or infinitive)."""
    verb, subject, tense = clause.verb, clause.subject, clause.tense
    # An English past is a preterite in statements and a perfect in questions, but mochte, war.
    asked = question and verb.german not in ("sein", "haben", "kennen", "mögen")
    if tense == "perfect" or (tense == "past" and asked):
        return _auxiliary(verb, subject), verb.german_participle
    if tense == "future":
        form = "werden" if subject.plural else "werde" if subject.person == 1 else "wird"
        return form, verb.german_lemma
    if tense in MODALS:
        *_, singular, plural = MODALS[tense]
        return (plural if subject.plural else singular), verb.german_lemma
    if tense == "past":
        return _preterite(verb, subject), verb.prefix
    return _present(verb, subject), verb.prefix


def _negates_with_kein(clause: Clause) -> bool:
    nearest = clause.accusative or clause.dative
    return clause.negated and nearest is not None and nearest.indefinite


def _german_objects(clause: Clause) -> list[tuple[str, Phrase]]:
    kein = _negates_with_kein(clause)
    pairs = []
    if clause.dative:
        negated = kein and clause.accusative is None
        pairs.append((clause.dative.german("dat", negated=negated), clause.dative))
    if clause.accusative:
        pairs.append((clause.accusative.german("acc", negated=kein), clause.accusative))
    if len(pairs) == 2 and pairs[1][1].is_pronoun:
        pairs.reverse()
    return pairs


def german_middle(clause: Clause) -> list[str]:
    """Everything between the finite verb (with its subject) and the closing bracket."""
    objects = _german_objects(clause)
    pronouns = [text for text, phrase in objects if phrase.is_pronoun]
    known = [text for text, phrase in objects if not (phrase.is_pronoun or phrase.new)]
    new = [text for text, phrase in objects if phrase.new]
    nicht = clause.negated and not _negates_with_kein(clause)
    time, frequency = _text(clause.later("time")), _text(clause.later("frequency"))
    words = [*pronouns, *known, time, "nicht"] if nicht else [*pronouns, time, *known]
    # oft das Buch, oft dem Mann, but das Buch schon
    last = [text for text, phrase in objects if phrase is (clause.accusative or clause.dative)]
    early = frequency in _EARLY_ADVERBS and last and last == known[-1:]
    words.insert(len(words) - 1 if early else len(words), frequency)
    words += [_text(clause.later("manner")), _text(clause.later("place")), *new]
    if clause.prepositional:
        verb = clause.verb
        words.append(prepositional(verb.german_preposition, verb.case, clause.prepositional))
    return [word for word in [*words, _text(clause.predicate)] if word]


def _text(words: Words | None) -> str:
    return words.german if words else ""


def _subject_and_middle(clause: Clause) -> list[str]:
    """What follows verb or conjunction: a noun stands behind an object pronoun (ihn der Mann).

    But it stays before a pronoun that could be taken for the subject: die Frau sie.
    """
    subject, middle = clause.subject, german_middle(clause)
    objects = [phrase for phrase in (clause.dative, clause.accusative) if phrase]
    pronouns = [phrase for phrase in objects if phrase.is_pronoun]
    light = subject.is_pronoun and subject not in (NOBODY, SOMEBODY)
    unclear = subject.german("nom") == subject.german("acc")
    if light or (unclear and middle[:1] == [phrase.german("nom") for phrase in pronouns]):
        return [subject.german("nom"), *middle]
    count = len(pronouns)
    return [*middle[:count], subject.german("nom"), *middle[count:]]


def german(clause: Clause, order: str, question_words: str = "") -> str:
    """The clause in German; order is "second", "first" or "final"."""
    finite, bracket = _german_verb(clause, question=order == "first")
    if order == "second" and not clause.front:
        subject = clause.subject.german("nom")
        return " ".join(filter(None, [subject, finite, *german_middle(clause), bracket]))
    field = _subject_and_middle(clause)
    if order == "final":
        separable = clause.verb.prefix and bracket == clause.verb.prefix
        end = bracket + finite if separable else f"{bracket} {finite}".strip()
        return " ".join([*field, end])
    opening = question_words if order == "first" else _text(clause.fronted)
    return " ".join(filter(None, [opening, finite, *field, bracket]))


def german_zu(clause: Clause) -> str:
    """The clause without its subject and with zu: "die Frau heute anzurufen"."""
    return " ".join([*german_middle(clause), german_infinitive(clause.verb)])


def phenomena(clause: Clause, order: str) -> set[str]:
    """What the German clause shows in the given order ("infinitive" for one with zu)."""
    shown: set[str] = set()
    phrases = [clause.subject, clause.dative, clause.accusative, clause.prepositional]
    for phrase, case in zip(phrases, ("nom", "dat", "acc", clause.verb.case), strict=True):
        if phrase is not None:
            shown |= _phrase_phenomena(phrase, case)
    slots = ("predicate", "time", "frequency", "manner", "place", "comment")
    for slot in slots:
        adverbial = getattr(clause, slot)
        if adverbial is not None:
            shown |= adverbial.phenomena
    if order == "infinitive":
        shown.add("verb final")
    else:
        _, bracket = _german_verb(clause, question=order == "first")
        if order == "final" or (bracket and bracket != clause.verb.prefix):
            shown.add("verb final")
        if clause.tense in ("past", "perfect", "future", *PAST_MODALS):
            shown.add("tense")
        if order == "second" and clause.front:
            shown.add("verb second")
    if clause.verb.prefix:
        shown.add("separable verb")
    if clause.negated or clause.subject.english() == "nobody":
        shown.add("negation")
    return shown


def _phrase_phenomena(phrase: Phrase, case: str) -> set[str]:
    shown = set(phrase.phenomena)
    if case != "nom" and phrase.german(case) != phrase.german("nom"):
        shown.add("case")
    if phrase.numeral:
        shown.add("number or date")
    if isinstance(phrase, NounPhrase) and phrase.adjective:
        shown.add("adjective agreement")
    return shown


def combinations(clause: Clause) -> set[tuple[str, str]]:
    """The (verb, object) and (adjective, noun) lemma pairs the clause is made of."""
    pairs: set[tuple[str, str]] = set()
    for phrase in (clause.subject, clause.dative, clause.accusative, clause.prepositional):
        if isinstance(phrase, NounPhrase):
            pairs |= phrase_combinations(phrase)
            receiver = phrase is clause.dative and clause.accusative is not None
            if phrase is not clause.subject and not receiver:
                pairs.add((clause.verb.lemma, phrase.noun.english))
    for slot in ("predicate", "time", "frequency", "manner", "place", "comment"):
        adverbial = getattr(clause, slot)
        if adverbial is not None:
            pairs |= adverbial.combinations
    return pairs


def phrase_combinations(phrase: NounPhrase) -> set[tuple[str, str]]:
    """The lemma pairs inside a noun phrase, relative clause included."""
    own = {(phrase.adjective.english, phrase.noun.english)} if phrase.adjective else set()
    return own | phrase.combinations
