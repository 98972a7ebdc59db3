"""Generates sentences with an infinitive that follows a verb such as "try" or states a purpose."""

from dataclasses import replace
from random import Random

from nmt.demo_language.clauses import Clause
from nmt.demo_language.fitting import DAT, GIVE, MOTION, PREP, TRANS, verbs_of
from nmt.demo_language.phrases import Phrase
from nmt.demo_language.pick_clauses import pick_clause, pick_tense
from nmt.demo_language.pick_phrases import pick_certain_subject
from nmt.demo_language.sentences import Draft, with_infinitive

_INFINITIVE = verbs_of("infinitive")


def infinitive(rng: Random) -> Draft:
    """Writes a sentence such as "The boy tries to open the door"."""
    verb, subject = rng.choice(_INFINITIVE), pick_certain_subject(rng)
    tenses = "present past" if verb.english == "hope" else "present past past perfect"
    main = Clause(subject, verb, pick_tense(rng, verb, subject, tenses))
    return with_infinitive(main, _task(rng, subject), "")


def purpose(rng: Random) -> Draft:
    """Writes a sentence such as "The woman goes to the market to buy bread"."""
    verb, subject = rng.choice(MOTION), pick_certain_subject(rng)
    main = pick_clause(rng, verb, subject, pick_tense(rng, verb, subject))
    return with_infinitive(main, _task(rng, subject), "um ")


def _task(rng: Random, subject: Phrase) -> Clause:
    """Picks a clause with the given subject for use as an infinitive clause."""
    verb = rng.choice(rng.choices((TRANS, DAT, PREP, GIVE), (6, 1, 1, 1))[0])
    while verb.flags & {"state", "static"}:
        verb = rng.choice(TRANS)
    return replace(pick_clause(rng, verb, subject, "present"), place=None)
