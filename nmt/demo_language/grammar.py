"""Defines how often each kind of sentence occurs in the demo language.

Each English sentence has exactly one German translation, because the grammar follows these rules:
"You" is always translated as "Sie". The English past tense becomes the preterite in statements, and
the perfect in questions. The verbs "sein", "haben", "kennen" and "mögen" use the preterite in
questions, too. "It" becomes a pronoun with the gender of the noun to which "it" refers.
"""

from collections.abc import Callable
from itertools import accumulate
from random import Random

from nmt.demo_language import (
    anaphora,
    descriptions,
    infinitives,
    questions,
    relative_clauses,
    statements,
    subordinate_clauses,
)
from nmt.demo_language.sentences import Draft

_PATTERNS: tuple[tuple[Callable[[Random], Draft], int], ...] = (  # with weights, which sum to 112
    (statements.statement, 27),
    (relative_clauses.relative, 13),
    (subordinate_clauses.subordinate, 10),
    (subordinate_clauses.that_clause, 4),
    (subordinate_clauses.whether_clause, 2),
    (anaphora.and_it, 7),
    (anaphora.because_it, 5),
    (infinitives.infinitive, 5),
    (infinitives.purpose, 3),
    (questions.yes_no_question, 7),
    (questions.wh_question, 5),
    (questions.which_question, 4),
    (descriptions.there_is, 4),
    (descriptions.measure, 4),
    (descriptions.predicate, 5),
    (descriptions.comparison, 2),
    (statements.request, 3),
    (statements.belonging, 2),
)
_WRITERS = [pattern for pattern, _ in _PATTERNS]
_WEIGHTS = list(accumulate(weight for _, weight in _PATTERNS))


def sentence(rng: Random) -> Draft:
    """Writes a random sentence pair. Several calls may return the same pair."""
    return rng.choices(_WRITERS, cum_weights=_WEIGHTS)[0](rng)
