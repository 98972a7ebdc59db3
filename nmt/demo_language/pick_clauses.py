"""Picks random clauses whose words make sense together. Also extends and negates clauses."""

from dataclasses import replace
from random import Random

from nmt.demo_language import adverbials
from nmt.demo_language.clauses import MODALS, PAST_MODALS, Clause, Words
from nmt.demo_language.fitting import (
    ARRIVALS,
    BE,
    DAT,
    DESTINATIONS,
    FITTING,
    GIVE,
    HOMES,
    MOTION,
    PEOPLE,
    PLACES,
    PREP,
    REST,
    TRANS,
    places_of,
)
from nmt.demo_language.lexicon import Noun, Verb
from nmt.demo_language.phrases import NOBODY, SOMEBODY, NounPhrase, Phrase, head
from nmt.demo_language.pick_phrases import (
    chance,
    pick_object,
    pick_other_pronoun,
    pick_phrase,
    pick_place_phrase,
    pick_subject,
)

_NO_EXCESS = tuple(degree for degree in adverbials.DEGREES if degree[0] != "too")


def pick_verb(rng: Random) -> Verb:
    """Picks a verb that can have a person as its subject."""
    frames = (TRANS, DAT, PREP, GIVE, REST, MOTION)
    return rng.choice(rng.choices(frames, (60, 8, 9, 11, 12, 7))[0])


def pick_any_clause(rng: Random, tenses: str = "") -> Clause:
    """Picks a clause with a random verb. Occasionally negates the clause."""
    verb = pick_verb(rng)
    subject = pick_subject(rng, verb)
    clause = pick_clause(rng, verb, subject, pick_tense(rng, verb, subject, tenses))
    return perhaps_negated(rng, clause, 0.12)


def pick_clause(
    rng: Random, verb: Verb, subject: Phrase, tense: str, avoided: Noun | None = None
) -> Clause:
    """Picks a clause with the objects that the verb requires, and sometimes with a place."""
    clause = Clause(subject, verb, tense)
    if verb.frame in ("trans", "give"):
        clause = replace(clause, accusative=pick_object(rng, verb, subject, avoided))
    if verb.frame == "give":
        clause = replace(clause, dative=_pick_receiver(rng, subject, avoided))
    if verb.frame == "dat":
        clause = replace(clause, dative=pick_object(rng, verb, subject, avoided))
    if verb.frame == "prep":
        clause = replace(clause, prepositional=pick_object(rng, verb, subject, avoided))
    if verb.frame == "motion":
        goals = DESTINATIONS if verb.english == "travel" else places_of(head(subject))
        clause = replace(clause, place=adverbials.direction(pick_place_phrase(rng, goals)))
    located = _has_place(rng, verb, clause.accusative)
    return replace(clause, place=_pick_place(rng, verb, subject)) if located else clause


def _pick_receiver(rng: Random, subject: Phrase, avoided: Noun | None) -> Phrase:
    if chance(rng, 0.2):
        return pick_other_pronoun(rng, subject)
    taken = head(subject) or avoided
    return pick_phrase(rng, rng.choice([x for x in PEOPLE if x is not taken]), definite=True)


def _has_place(rng: Random, verb: Verb, thing: Phrase | None) -> bool:
    if "placed" in verb.flags:
        return not (thing and head(thing) in PLACES) and chance(rng, 0.12)
    if verb.frame != "rest" or "nowhere" in verb.flags:
        return False
    return verb.german in ("wohnen", "bleiben", "sitzen", "stehen") or chance(rng, 0.65)


def _pick_place(rng: Random, verb: Verb, subject: Phrase) -> Words:
    """Picks an adverbial of place that fits the subject and the verb."""
    kind = rng.random()
    if kind < 0.12:
        return rng.choice(adverbials.HERE)
    if kind < 0.25 and "located" not in verb.flags:
        return adverbials.beside(rng)
    nouns = HOMES if verb.german == "wohnen" else places_of(head(subject))
    nouns = ARRIVALS if "located" in verb.flags else nouns
    return adverbials.location(pick_place_phrase(rng, nouns))


def pick_tense(rng: Random, verb: Verb, subject: Phrase, choices: str = "") -> str:
    """Picks a tense or a modal verb for a clause.

    `choices` contains the possible names, separated by spaces. If `choices` is empty, all names are
    possible. Returns another tense if the verb does not have the picked tense, or if the picked
    tense is the past and the English past looks like the present.
    """
    if choices:
        tense = rng.choice(choices.split())
    elif "state" in verb.flags:
        tense = rng.choice(("present", "present", "past", "future"))
    else:
        names = ("present", "progressive", "past", "perfect", "future", "modal")
        tense = rng.choices(names, (26, 8, 30, 11, 10, 15))[0]
    if tense == "perfect" and "state" in verb.flags:
        return "present"
    if tense == "modal":
        return rng.choice(MODALS)
    if tense == "progressive" and verb.flags & {"static", "state"}:
        return "present"
    return _clear_tense(verb, subject, tense)


def pick_relative_tense(
    rng: Random, verb: Verb, subject: Phrase, main_tense: str, choices: str
) -> str:
    """Picks the tense of a relative clause, which is past if the main clause is in the past."""
    past = main_tense == "past" or main_tense in PAST_MODALS
    return "past" if past else pick_tense(rng, verb, subject, choices)


def _clear_tense(verb: Verb, subject: Phrase, tense: str) -> str:
    """Replaces "past" with "perfect" if the English past looks like the present ("they read")."""
    singular = subject.person == 3 and not subject.plural
    same = verb.english_past == verb.english
    return "perfect" if same and tense == "past" and not singular else tense


def perhaps_negated(rng: Random, clause: Clause, probability: float) -> Clause:
    """Negates the clause with the given probability, unless "not" would be ambiguous."""
    phrases = [clause.subject, *(phrase for phrase, _ in clause.objects())]
    if any(phrase in (NOBODY, SOMEBODY) or phrase.quantified for phrase in phrases):
        return clause
    if clause.tense in ("must", "may", "would like to", "had to"):
        return clause
    return replace(clause, negated=True) if chance(rng, probability) else clause


def with_adverbials(rng: Random, clause: Clause) -> Clause:
    """Randomly adds a comment, or adverbials of time, frequency or manner, to a clause."""
    if chance(rng, 0.08):
        return replace(clause, comment=_pick_comment(rng, clause), front="comment")
    if "state" in clause.verb.flags:
        still = clause.tense == "present" and not clause.negated and chance(rng, 0.2)
        return replace(clause, frequency=adverbials.STILL) if still else clause
    clause = _with_frequency(rng, clause)
    timeless = clause.tense == "perfect" or (clause.tense == "present" and clause.negated)
    if clause.frequency is None and not timeless and chance(rng, 0.5):
        time = adverbials.time(rng, _time_tense(clause.tense))
        return replace(clause, time=time, front="time" if chance(rng, 0.6) else "")
    if not clause.negated and clause.frequency is None and chance(rng, 0.2):
        clause = replace(clause, manner=_pick_manner(rng, clause))
    if clause.place and clause.verb.frame == "rest" and chance(rng, 0.2):
        clause = replace(clause, front="place")
    return clause


def _pick_comment(rng: Random, clause: Clause) -> Words:
    past = clause.tense == "past" and not clause.negated
    return rng.choice(adverbials.PAST_COMMENTS if past else adverbials.COMMENTS)


def _with_frequency(rng: Random, clause: Clause) -> Clause:
    if clause.negated or clause.subject in (NOBODY, SOMEBODY) or not chance(rng, 0.3):
        return clause
    choices = {
        "present": adverbials.HABITUAL,
        "perfect": adverbials.PERFECT,
        "past": adverbials.FREQUENT,
    }.get(clause.tense)
    return replace(clause, frequency=rng.choice(choices)) if choices else clause


def _pick_manner(rng: Random, clause: Clause) -> Words | None:
    names = {
        "trans": ("immediately", "carefully", "again", "quickly"),
        "dat": ("immediately", "again"),
        "rest": ("again", "quietly"),
        "motion": ("quickly", "slowly", "immediately"),
    }.get(clause.verb.frame, ())
    if clause.verb.frame in ("rest", "motion"):
        names += ("together",) if clause.subject.plural else ("alone",)
    if not names or "static" in clause.verb.flags:
        return None
    return adverbials.MANNER[rng.choice(names)]


def _time_tense(tense: str) -> str:
    if tense in PAST_MODALS:
        return "past"
    return tense if tense in ("past", "present", "progressive") else "future"


def pick_state(rng: Random, subject: Phrase, tense: str, noun: Noun | None = None) -> Clause:
    """Picks a clause with an adjective as its predicate, such as "the king is very old".

    If `subject` is a pronoun, it refers to `noun`, or to a person if `noun` is None.
    """
    if isinstance(subject, NounPhrase):
        noun = subject.noun
    fitting = FITTING[noun or PEOPLE[0]]
    reason = not isinstance(subject, NounPhrase)  # a reason has no color or degree such as "too"
    if reason:
        fitting = tuple(word for word in fitting if word.kind != "colour")
    human = noun is None or "person" in noun.classes
    adjective = rng.choice(fitting)
    predicate = Words(adjective.english, adjective.german)
    if not adjective.kind and chance(rng, 0.4):
        english, german = rng.choice(_NO_EXCESS if human or reason else adverbials.DEGREES)
        predicate = Words(f"{english} {adjective.english}", f"{german} {adjective.german}")
    if noun:
        pairs = frozenset({(adjective.english, noun.english)})
        predicate = replace(predicate, combinations=pairs)
    return Clause(subject, BE, tense, predicate=predicate)


def perhaps_not(rng: Random, state: Clause) -> Clause:
    """Randomly negates a clause from `pick_state`, unless it contains a word such as "quite"."""
    degree = state.predicate.english.partition(" ")[0] if state.predicate else ""
    if degree in ("quite", "really", "extremely"):
        return state
    return perhaps_negated(rng, state, 0.28)
