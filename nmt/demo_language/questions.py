"""Generates yes-no questions and questions with words such as "who", "when" and "which"."""

from dataclasses import replace
from random import Random

from nmt.demo_language import adverbials, english, german
from nmt.demo_language.analysis import combinations, phenomena
from nmt.demo_language.clauses import Clause
from nmt.demo_language.fitting import OBJECTS, SINGULAR_OBJECT, TRANS
from nmt.demo_language.phrases import NounPhrase, Phrase, Pronoun, head
from nmt.demo_language.pick_clauses import pick_clause, pick_tense, pick_verb
from nmt.demo_language.pick_phrases import (
    chance,
    pick_adjective,
    pick_certain_subject,
    pick_object_noun,
    pick_plural,
)
from nmt.demo_language.sentences import Draft, asked, draft

_WITH_THINGS = tuple(
    verb for verb in TRANS if not any("person" in noun.classes for noun in OBJECTS[verb])
)


def yes_no_question(rng: Random) -> Draft:
    """Writes a question such as "Did the boy call the doctor yesterday?"."""
    clause = _question_clause(rng, "present past past perfect future can should must may")
    timely = "state" not in clause.verb.flags and clause.tense in ("present", "past", "future")
    if timely and chance(rng, 0.4):
        clause = replace(clause, time=adverbials.time(rng, clause.tense))
    return asked(clause)


def _question_clause(rng: Random, tenses: str) -> Clause:
    verb = pick_verb(rng)
    subject = pick_certain_subject(rng, verb)
    tenses = "present past" if "state" in verb.flags else tenses
    while True:
        clause = pick_clause(rng, verb, subject, pick_tense(rng, verb, subject, tenses))
        if not any(_has_some(phrase) for phrase, _ in clause.objects()):
            return clause


def _has_some(phrase: Phrase) -> bool:
    """Returns whether the determiner is "some". The grammar avoids "some" in questions."""
    return isinstance(phrase, NounPhrase) and phrase.determiner == "some"


def wh_question(rng: Random) -> Draft:
    """Writes a question with "who", "what", "when", "where", "why" or "how often"."""
    if chance(rng, 0.35):
        return _who(rng)
    if chance(rng, 0.15):
        return _what(rng)
    clause = _question_clause(rng, "present past past future can should must")
    clause = replace(clause, tense="present") if clause.tense == "perfect" else clause
    words = [("why", "warum"), ("when", "wann"), ("how often", "wie oft")]
    if clause.place is None and clause.verb.frame in ("trans", "rest"):
        words.append(("where", "wo"))
    if "state" in clause.verb.flags:
        words = [("why", "warum")]
    return asked(clause, rng.choice(words))


def _who(rng: Random) -> Draft:
    verb = pick_verb(rng)
    who = Pronoun("who", "", "", "", "")
    tenses = "present past past perfect future can"
    tense = pick_tense(rng, verb, who, "present" if "state" in verb.flags else tenses)
    clause = pick_clause(rng, verb, who, tense)
    return draft(
        english.statement(clause),
        german.worded(clause, "first", "wer"),
        phenomena(clause, "first") | {"question"},
        combinations(clause),
        "?",
    )


def _what(rng: Random) -> Draft:
    verb, subject = rng.choice(_WITH_THINGS), pick_certain_subject(rng)
    tenses = "present" if "state" in verb.flags else "present past past future can should"
    return asked(Clause(subject, verb, pick_tense(rng, verb, subject, tenses)), ("what", "was"))


def which_question(rng: Random) -> Draft:
    """Writes a question with "which" or "how many", such as "Which book does the man buy?"."""
    verb, subject = rng.choice(SINGULAR_OBJECT), pick_certain_subject(rng)
    noun = pick_object_noun(rng, verb, head(subject))
    plural = pick_plural(rng, noun, 0.3)
    phrase = NounPhrase(noun, "which", pick_adjective(rng, noun, 0.2), plural)
    tenses = "present past" if "state" in verb.flags else "present past past future should"
    clause = Clause(subject, verb, pick_tense(rng, verb, subject, tenses))
    words = phrase.english(), phrase.german("acc")
    if plural and chance(rng, 0.5):
        bare = replace(phrase, determiner="")
        words = f"how many {bare.english()}", f"wie viele {bare.german('acc')}"
    whole = replace(clause, accusative=phrase)
    question = asked(clause, words)
    return replace(
        question,
        phenomena=question.phenomena | phenomena(whole, "first"),
        combinations=frozenset(combinations(whole)),
    )
