"""Writes clauses in English, with auxiliary verbs and in English word order."""

from nmt.demo_language.clauses import MODALS, PAST_MODALS, Clause
from nmt.demo_language.phrases import Phrase

# Forms of "want to" and "have to": in the third person singular, in other persons, and after "do"
_FULL_VERBS = {
    "want to": ("wants to", "want to", "want to"),
    "wanted to": ("wanted to", "wanted to", "want to"),
    "had to": ("had to", "had to", "have to"),
}


def statement(clause: Clause) -> str:
    """Returns the clause as a statement, not capitalized and without a full stop."""
    operator, rest = _verb_group(clause, question=False)
    negation = "not" if clause.negated else ""
    if clause.negated and operator == "can":
        operator, negation = "cannot", ""
    fronted = clause.fronted
    front = f"{fronted.english}{',' if fronted.comma else ''}" if fronted else ""
    words = [front, clause.subject.english(), operator, negation]
    return _text([*words, _slot(clause, "frequency"), rest, *_tail(clause)])


def question(clause: Clause, question_words: str = "") -> str:
    """Returns the clause as a question. `question_words` must not ask for the subject."""
    operator, rest = _verb_group(clause, question=True)
    words = [question_words, operator, clause.subject.english(), "not" if clause.negated else ""]
    return _text([*words, _slot(clause, "frequency"), rest, *_tail(clause)])


def infinitive(clause: Clause) -> str:
    """Returns the clause as an infinitive, without its subject, such as "call the woman today"."""
    return _text([clause.verb.english, *_tail(clause)])


def _text(words: list[str]) -> str:
    return " ".join(filter(None, words))


def _verb_group(clause: Clause, question: bool) -> tuple[str, str]:
    """Returns the operator, such as "does", and the rest of the verb group. Omits "not".

    The operator is "" if the verb group has no operator, as in "he reads".
    """
    verb, subject, tense = clause.verb, clause.subject, clause.tense
    singular = _third_singular(subject)
    if tense == "future":
        return "will", verb.english
    if tense == "perfect":
        return ("has" if singular else "have"), verb.english_participle
    if tense == "progressive":
        return _be(subject, past=False), verb.english_gerund
    if tense in MODALS:
        return _modal(clause, question)
    past = tense == "past"
    if verb.english == "be":
        return _be(subject, past=past), ""
    if question or clause.negated:
        return _do(subject, past=past), verb.english
    if past:
        return "", verb.english_past
    return "", verb.english_third if singular else verb.english


def _modal(clause: Clause, question: bool) -> tuple[str, str]:
    verb, subject, modal = clause.verb.english, clause.subject, clause.tense
    if modal == "could" and not clause.negated:
        return _be(subject, past=True), f"able to {verb}"
    if modal == "may" and not question:
        return _be(subject, past=False), f"allowed to {verb}"
    if modal not in _FULL_VERBS:
        operator, _, rest = modal.partition(" ")  # for example, "would like to"
        return operator, f"{rest} {verb}".strip()
    third, other, base = _FULL_VERBS[modal]
    if question or clause.negated:
        return _do(subject, past=modal in PAST_MODALS), f"{base} {verb}"
    return "", f"{third if _third_singular(subject) else other} {verb}"


def _third_singular(subject: Phrase) -> bool:
    return subject.person == 3 and not subject.plural


def _be(subject: Phrase, *, past: bool) -> str:
    if past:
        return "were" if subject.plural else "was"
    return "are" if subject.plural else "am" if subject.person == 1 else "is"


def _do(subject: Phrase, *, past: bool) -> str:
    return "did" if past else "does" if _third_singular(subject) else "do"


def _objects(clause: Clause) -> list[str]:
    verb = clause.verb
    dative = clause.dative.english(subject=False) if clause.dative else ""
    accusative = clause.accusative.english(subject=False) if clause.accusative else ""
    prepositional = clause.prepositional.english(subject=False) if clause.prepositional else ""
    if verb.frame == "give":
        to = verb.english in ("explain", "recommend")
        return [accusative, f"to {dative}"] if to else [dative, accusative]
    if verb.particle:  # "wake up the man", but "wake him up"
        pronoun = clause.accusative is not None and clause.accusative.is_pronoun
        return [accusative, verb.particle] if pronoun else [verb.particle, accusative]
    return [verb.preposition, dative, accusative, prepositional]


def _tail(clause: Clause) -> list[str]:
    """Returns the words after the verb group, which are the objects, predicate and adverbials."""
    slots = ("predicate", "manner", "place", "time")
    return [*_objects(clause), *(_slot(clause, slot) for slot in slots)]


def _slot(clause: Clause, slot: str) -> str:
    words = clause.later(slot)
    return words.english if words else ""
