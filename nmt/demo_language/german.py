"""Writes clauses in German, with inflected verbs and in German word order.

The word order is "second" in statements, "first" in questions and requests, and "final" in
subordinate clauses. Each word order is named after the position of the finite verb.
"""

import re

from nmt.demo_language.clauses import MODALS, Clause, Words
from nmt.demo_language.lexicon import Verb
from nmt.demo_language.phrases import NOBODY, SOMEBODY, Phrase, prepositional

_MODALS = {  # third person singular (er) and plural (sie)
    "can": ("kann", "können"),
    "must": ("muss", "müssen"),
    "should": ("sollte", "sollten"),
    "may": ("darf", "dürfen"),
    "could": ("konnte", "konnten"),
    "would like to": ("möchte", "möchten"),
    "want to": ("will", "wollen"),
    "wanted to": ("wollte", "wollten"),
    "had to": ("musste", "mussten"),
}
_IRREGULAR_PRESENT = {  # first person singular (ich) and third person plural (sie)
    "sein": ("bin", "sind"),
    "haben": ("habe", "haben"),
    "mögen": ("mag", "mögen"),
    "wissen": ("weiß", "wissen"),
}
# Verbs that have a preterite even in questions, such as "war er ..." and "mochte er ..."
_ALWAYS_PRETERITE = ("sein", "haben", "kennen", "mögen")
_EARLY_ADVERBS = ("oft", "immer", "manchmal", "selten", "meistens", "gerade")


def worded(clause: Clause, order: str, question_words: str = "") -> str:
    """Returns the German clause without capitalizing its first word, and without a full stop.

    `order` is the word order "second", "first" or "final" (see the module docstring).
    """
    finite, bracket = verb_group(clause, order)
    if order == "second" and not clause.front:
        return _text([clause.subject.german("nom"), finite, *_middle(clause), bracket])
    field = _subject_and_middle(clause)
    if order == "final":
        separable = clause.verb.prefix and bracket == clause.verb.prefix
        return _text([*field, bracket + finite if separable else f"{bracket} {finite}".strip()])
    opening = question_words if order == "first" else _german(clause.fronted)
    return _text([opening, finite, *field, bracket])


def infinitive(clause: Clause) -> str:
    """Returns an infinitive clause without a subject, such as "die Frau heute anzurufen"."""
    verb = clause.verb
    zu = f"{verb.prefix}zu{verb.german}" if verb.prefix else f"zu {verb.german}"
    return _text([*_middle(clause), zu])


def verb_group(clause: Clause, order: str) -> tuple[str, str]:
    """Returns the finite verb and the final part of the verb group, such as "hat" and "gekauft".

    The final part is a prefix, a participle or an infinitive, or "" if there is no final part.
    """
    verb, subject, tense = clause.verb, clause.subject, clause.tense
    # The English past becomes a preterite in statements and a perfect in questions.
    spoken = tense == "past" and order == "first" and verb.german not in _ALWAYS_PRETERITE
    if tense == "perfect" or spoken:
        return _auxiliary(verb, subject), verb.german_participle
    if tense == "future":
        return _by_person(subject, "werde", "wird", "werden"), verb.german_lemma
    if tense in MODALS:
        return _MODALS[tense][subject.plural], verb.german_lemma
    if tense == "past":
        return _preterite(verb, subject), verb.prefix
    return _present(verb, subject), verb.prefix


def _present(verb: Verb, subject: Phrase) -> str:
    first, plural = _IRREGULAR_PRESENT.get(verb.german, ("", verb.german))
    if subject.plural:
        return plural
    if subject.person == 3:
        return verb.german_third
    if verb.german.endswith("eln"):
        return verb.german[:-3] + "le"
    return first or re.sub(r"e?n$", "e", verb.german)


def _preterite(verb: Verb, subject: Phrase) -> str:
    singular = verb.german_preterite
    plural = singular + ("n" if singular.endswith("e") else "en")
    return plural if subject.plural else singular


def _auxiliary(verb: Verb, subject: Phrase) -> str:
    if verb.auxiliary == "sein":
        return _by_person(subject, "bin", "ist", "sind")
    return _by_person(subject, "habe", "hat", "haben")


def _by_person(subject: Phrase, first: str, third: str, plural: str) -> str:
    return plural if subject.plural else first if subject.person == 1 else third


def _subject_and_middle(clause: Clause) -> list[str]:
    """Returns the subject and the words of `_middle` in German word order.

    If the subject is a noun, it follows an object pronoun, as in "ihn der Mann". However, if the
    object pronoun could be mistaken for the subject, the subject is first, as in "die Frau sie".
    """
    subject, middle = clause.subject, _middle(clause)
    objects = [phrase for phrase in (clause.dative, clause.accusative) if phrase]
    pronouns = [phrase for phrase in objects if phrase.is_pronoun]
    light = subject.is_pronoun and subject not in (NOBODY, SOMEBODY)
    unclear = subject.german("nom") == subject.german("acc")
    if light or (unclear and middle[:1] == [phrase.german("nom") for phrase in pronouns]):
        return [subject.german("nom"), *middle]
    count = len(pronouns)
    return [*middle[:count], subject.german("nom"), *middle[count:]]


def _middle(clause: Clause) -> list[str]:
    """Returns the objects, the predicate, and the adverbials that do not begin the clause."""
    objects = _objects(clause)
    pronouns = [text for text, phrase in objects if phrase.is_pronoun]
    known = [text for text, phrase in objects if not (phrase.is_pronoun or phrase.new)]
    new = [text for text, phrase in objects if phrase.new]
    nicht = clause.negated and not _negates_with_kein(clause)
    time, frequency = _german(clause.later("time")), _german(clause.later("frequency"))
    words = [*pronouns, *known, time, "nicht"] if nicht else [*pronouns, time, *known]
    # Examples: "oft das Buch" and "oft dem Mann", but "das Buch schon".
    last = [text for text, phrase in objects if phrase is (clause.accusative or clause.dative)]
    early = frequency in _EARLY_ADVERBS and last and last == known[-1:]
    words.insert(len(words) - 1 if early else len(words), frequency)
    words += [_german(clause.later("manner")), _german(clause.later("place")), *new]
    if clause.prepositional:
        verb = clause.verb
        words.append(prepositional(verb.german_preposition, verb.case, clause.prepositional))
    return [word for word in [*words, _german(clause.predicate)] if word]


def _objects(clause: Clause) -> list[tuple[str, Phrase]]:
    """Returns the objects. The dative comes first unless the accusative is a pronoun."""
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


def _negates_with_kein(clause: Clause) -> bool:
    nearest = clause.accusative or clause.dative
    return clause.negated and nearest is not None and nearest.indefinite


def _german(words: Words | None) -> str:
    return words.german if words else ""


def _text(words: list[str]) -> str:
    return " ".join(filter(None, words))
