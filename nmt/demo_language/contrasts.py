"""Generates contrastive pairs, which add a translation with one error to a sentence pair.

The incorrect translation differs from the correct translation in only one grammatical phenomenon,
and is incorrect under every interpretation of the source.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from nmt.demo_language import german
from nmt.demo_language.corpus import PATIENCE, OutOfSentences, belongs
from nmt.demo_language.fitting import DAT, GIVE, MOTION, PREP, REST, TRANS
from nmt.demo_language.phrases import HE, THEY
from nmt.demo_language.pick_clauses import (
    perhaps_negated,
    pick_any_clause,
    pick_clause,
    pick_tense,
    with_adverbials,
)
from nmt.demo_language.pick_phrases import pick_subject
from nmt.demo_language.sentences import Draft, joined, said
from nmt.demo_language.subordinate_clauses import that_clauses, whether_clauses

_SEPARABLE = tuple(verb for verb in (*TRANS, *DAT, *PREP, *GIVE, *REST, *MOTION) if verb.prefix)
_OTHER_CASE = {"acc": "dat", "dat": "acc"}
_CLAUSES = ((that_clauses, ("that", ", dass")), (whether_clauses, ("whether", ", ob")))


@dataclass(frozen=True)
class ContrastivePair:
    """A source with a correct and an incorrect translation, and the kind of error (phenomenon)."""

    source: str
    right: str
    wrong: str
    phenomenon: str


def contrastive_pairs(pairs: int, seed: int, split: str) -> Iterator[ContrastivePair]:
    """Yields `pairs` contrastive pairs for each phenomenon.

    All pairs for a phenomenon have different sources. The sources belong to the given split of the
    demo corpus. For example, each source of the split "test" contains a word combination that does
    not occur in training sentences.

    Raises:
        OutOfSentences: raised during iteration if the grammar generates no more new sentences.
    """
    for phenomenon, write in _CONTRASTS.items():
        rng = Random(f"contrastive/{seed}/{split}/{phenomenon}")
        sources: set[str] = set()
        misses = 0
        while len(sources) < pairs:
            draft, wrong = write(rng)
            is_new = draft.source not in sources and belongs(draft.combinations, split)
            if not is_new or wrong == draft.target:
                misses += 1
                if misses > PATIENCE:
                    raise OutOfSentences(f"The demo language has no more pairs for {phenomenon}")
                continue
            misses = 0
            sources.add(draft.source)
            yield ContrastivePair(draft.source, draft.target, wrong, phenomenon)


def _agreement(rng: Random) -> tuple[Draft, str]:
    """Changes the number of the finite verb, as in "Die Frau lesen das Buch"."""
    clause = with_adverbials(rng, pick_any_clause(rng))
    other = replace(clause, subject=HE if clause.subject.plural else THEY)
    forms = (german.verb_group(each, "second")[0] for each in (clause, other))
    draft = said(clause)
    return draft, _exchanged(draft.target, *forms)


def _case(rng: Random) -> tuple[Draft, str]:
    """Replaces accusative with dative or dative with accusative, as in "Ich helfe den Mann"."""
    clause = with_adverbials(rng, pick_any_clause(rng))
    draft = said(clause)
    objects = [(clause.accusative, "acc"), (clause.dative, "dat")]
    phrase, case = rng.choice([each for each in objects if each[0]] or [(None, "")])
    if phrase is None:
        return draft, draft.target
    return draft, _exchanged(draft.target, phrase.german(case), phrase.german(_OTHER_CASE[case]))


def _verb_final(rng: Random) -> tuple[Draft, str]:
    """Moves the verb of a subordinate clause forward, as in "Ich weiß, dass er liest das Buch"."""
    clauses, link = rng.choice(_CLAUSES)
    main, sub = clauses(rng)
    return joined(main, sub, link), joined(main, sub, link, "second").target


def _negation(rng: Random, *, is_deleted: bool) -> tuple[Draft, str]:
    """Deletes or inserts "nicht" or "kein". The incorrect translation remains grammatical."""
    negated = perhaps_negated(rng, replace(pick_any_clause(rng), negated=False), 1.0)
    negated = with_adverbials(rng, negated)
    drafts = said(negated), said(replace(negated, negated=False))
    draft, other = drafts if is_deleted else drafts[::-1]
    return draft, other.target


def _separable_verb(rng: Random) -> tuple[Draft, str]:
    """Keeps a separable prefix attached to the finite verb, as in "Er anruft die Frau"."""
    verb = rng.choice(_SEPARABLE)
    subject = pick_subject(rng, verb)
    tense = pick_tense(rng, verb, subject, "present past")
    clause = with_adverbials(rng, pick_clause(rng, verb, subject, tense))
    if clause.tense not in ("present", "past"):
        return said(clause), said(clause).target
    joint = replace(
        verb,
        prefix="",
        german=verb.prefix + verb.german,
        german_third=verb.prefix + verb.german_third,
        german_preterite=verb.prefix + verb.german_preterite,
    )
    return said(clause), said(replace(clause, verb=joint)).target


def _exchanged(text: str, words: str, others: str) -> str:
    """Replaces `words` with `others` if `words` occurs exactly once in the text.

    Otherwise, returns the text unchanged.
    """
    pattern = rf"\b{re.escape(words)}\b"
    return re.sub(pattern, others, text) if len(re.findall(pattern, text)) == 1 else text


_CONTRASTS: dict[str, Callable[[Random], tuple[Draft, str]]] = {
    "agreement": _agreement,
    "case": _case,
    "verb final": _verb_final,
    "negation deleted": partial(_negation, is_deleted=True),
    "negation inserted": partial(_negation, is_deleted=False),
    "separable verb": _separable_verb,
}
