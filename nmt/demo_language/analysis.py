"""Lists the grammatical phenomena and the lemma combinations in a clause."""

from nmt.demo_language import german
from nmt.demo_language.clauses import PAST_MODALS, Clause
from nmt.demo_language.phrases import NOBODY, NounPhrase, Phrase


def phenomena(clause: Clause, order: str) -> set[str]:
    """Returns the grammatical phenomena in the German clause.

    `order` is "infinitive" or one of the word orders "second", "first" and "final" (see `german`).
    """
    shown = _of_phrase(clause.subject, "nom")
    for phrase, case in clause.objects():
        shown |= _of_phrase(phrase, case)
    for words in clause.adverbials():
        shown |= words.phenomena
    if _verb_final(clause, order):
        shown.add("verb final")
    if order != "infinitive" and clause.tense in ("past", "perfect", "future", *PAST_MODALS):
        shown.add("tense")
    if order == "second" and clause.front:
        shown.add("verb second")
    if clause.verb.prefix:
        shown.add("separable verb")
    if clause.negated or clause.subject == NOBODY:
        shown.add("negation")
    return shown


def _verb_final(clause: Clause, order: str) -> bool:
    """Returns whether the clause ends with a verb. A separated prefix does not count as a verb."""
    if order in ("infinitive", "final"):
        return True
    _, bracket = german.verb_group(clause, order)
    return bracket not in ("", clause.verb.prefix)


def _of_phrase(phrase: Phrase, case: str) -> set[str]:
    shown = set(phrase.phenomena)
    if case != "nom" and phrase.german(case) != phrase.german("nom"):
        shown.add("case")
    if phrase.numeral:
        shown.add("number or date")
    if isinstance(phrase, NounPhrase) and phrase.adjective:
        shown.add("adjective agreement")
    return shown


def combinations(clause: Clause) -> set[tuple[str, str]]:
    """Returns the (verb, object) and (adjective, noun) pairs of English lemmas in the clause."""
    subject = clause.subject
    pairs = subject.lemma_pairs if isinstance(subject, NounPhrase) else set()
    for phrase, case in clause.objects():
        if not isinstance(phrase, NounPhrase):
            continue
        pairs |= phrase.lemma_pairs
        # The choice of a receiver does not depend on the verb.
        receiver = case == "dat" and clause.accusative is not None
        if not receiver:
            pairs.add((clause.verb.lemma, phrase.noun.english))
    for words in clause.adverbials():
        pairs |= words.combinations
    return pairs
