"""Sentence patterns of the demo grammar: each call of `Grammar.sentence` writes one aligned pair.

Choices made once, so that the German is a function of the English: you is Sie; an English past is
a preterite in statements and a perfect in questions; it has the gender of the noun it stands for.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from nmt.demo_language import adverbials, clauses
from nmt.demo_language.clauses import Clause, Words
from nmt.demo_language.descriptions import Descriptions
from nmt.demo_language.lexicon import Noun, Verb
from nmt.demo_language.phrases import (
    NOBODY,
    YOU,
    NounPhrase,
    Phrase,
    Pronoun,
    pronoun_for,
    relative_pronoun,
)
from nmt.demo_language.selection import (
    DAT,
    FITTING,
    GIVE,
    KIN,
    MOTION,
    OBJECTS,
    PEOPLE,
    PREP,
    REST,
    TAKING,
    TRANS,
    has_some,
    head,
    nouns_of,
    plain,
    resumed,
    same_subject,
    verbs_of,
)
from nmt.demo_language.sentences import (
    Draft,
    asked,
    attached,
    draft,
    joined,
    said,
    with_infinitive,
)

_PUBLIC = nouns_of("public")
_GOODS = nouns_of("thing", "paper", "private")
_RIDE, _THAT, _WHETHER, _INFINITIVE = (
    verbs_of(frame) for frame in ("ride", "that", "whether", "infinitive")
)
(_BELONG,), (_PUT,) = verbs_of("belong"), verbs_of("put")
# The boy found the key and (sold) it: what may come first and what then.
_FIRST = tuple(verb for verb in TRANS if "first" in verb.flags)
_ONE = tuple(verb for verb in TRANS if verb.english != "count")  # take a singular, too
_WITH_THINGS = tuple(
    verb for verb in TRANS if not any("person" in noun.classes for noun in OBJECTS[verb])
)
_CONJUNCTIONS = {
    "past": (
        *(("because", "weil"), ("although", "obwohl"), ("when", "als"), ("while", "während")),
        ("before", "bevor"),
    ),
    "present": (
        *(("because", "weil"), ("although", "obwohl"), ("when", "wenn"), ("if", "wenn")),
        *(("while", "während"), ("before", "bevor")),
    ),
}
_IT_CLASSES = frozenset({"thing", "food", "drink", "document", "vehicle"})


class Grammar(Descriptions):
    """Writes sentence pairs with one random generator; `sentence` is the way in."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        weighted: tuple[tuple[Callable[[], Draft], int], ...] = (
            (self._statement, 27),
            (self._relative, 13),
            (self._subordinate, 10),
            (self._that, 4),
            (self._whether, 2),
            (self._and_it, 7),
            (self._because_it, 5),
            (self._infinitive, 5),
            (self._purpose, 3),
            (self._yes_no, 7),
            (self._wh, 5),
            (self._which, 4),
            (self.there_is, 4),
            (self.measure, 4),
            (self.predicate, 5),
            (self.comparison, 2),
            (self._request, 3),
            (self._belonging, 2),
        )
        self._patterns = [pattern for pattern, _ in weighted]
        self._weights = [weight for _, weight in weighted]

    def sentence(self) -> Draft:
        """One sentence pair; the same one may come again later."""
        return self.rng.choices(self._patterns, self._weights)[0]()

    # Statements

    def _statement(self) -> Draft:
        if self.chance(0.06):
            verb = self.rng.choice(_RIDE)
            tenses = "present progressive past past perfect future must"
            subject = self.phrase(self.rng.choice(_PUBLIC), subject=True)
            clause = self.negated(Clause(subject, verb, self.tense(verb, subject, tenses)), 0.1)
            return said(self.with_adverbials(clause))
        return said(self.with_adverbials(self.negated(self.any_clause(), 0.1)))

    def _request(self) -> Draft:
        """Please close the door."""
        verb = self.rng.choice(TRANS)
        while "unasked" in verb.flags:
            verb = self.rng.choice(TRANS)
        clause = Clause(YOU, verb, "present", accusative=self.object(verb, YOU))
        clause = self.negated(clause, 0.25)
        lead = "do not" if clause.negated else "please"
        return draft(
            f"{lead} {clauses.english_infinitive(clause)}",
            clauses.german(clause, "first", "" if clause.negated else "bitte"),
            clauses.phenomena(clause, "first"),
            clauses.combinations(clause),
        )

    def _belonging(self) -> Draft:
        subject = self.phrase(self.rng.choice(_GOODS), definite=True, subject=True)
        near = self.chance(0.3)
        determiner = ("these" if subject.plural else "this") if near else "the"
        owner = self.phrase(self.rng.choice(PEOPLE), definite=True)
        tense = self.rng.choice(("present", "past"))
        subject = replace(subject, determiner=determiner)
        return said(self.negated(Clause(subject, _BELONG, tense, dative=owner), 0.3))

    # Relative clauses

    def _relative(self) -> Draft:
        """A relative clause on the subject, or on an object at the end."""
        verb = self.verb()
        if self.chance(0.6):
            antecedent = self._antecedent(self.rng.choice(PEOPLE))
            tense = self.tense(verb, antecedent)
            subject = self._with_relative(antecedent, tense, verb)
            return said(self.negated(self.clause(verb, subject, tense), 0.1))
        verb = self.rng.choice([verb for verb in _ONE if not verb.prefix and not verb.particle])
        agent = self.subject(verb)
        tense = self.tense(verb, agent, "present past")
        if tense == "perfect":
            tense = "present"
        antecedent = self._antecedent(self.object_noun(verb, head(agent)))
        phrase = self._with_relative(antecedent, tense, verb, head(agent))
        return said(Clause(agent, verb, tense, accusative=phrase))

    def _antecedent(self, noun: Noun) -> NounPhrase:
        plural = self.plural(noun, 0.22)
        determiner = "these" if plural and self.chance(0.2) else "the"
        return NounPhrase(noun, determiner, self.adjective(noun, 0.2), plural)

    def _with_relative(
        self,
        phrase: NounPhrase,
        main_tense: str,
        main: Verb | None = None,
        agent: Noun | None = None,
    ) -> NounPhrase:
        """The phrase with a clause in which it is the subject, an object or a possessor.

        The main clause has the tense, perhaps the verb and an agent, both better not said again.
        """
        kind = self.rng.random()
        if "person" not in phrase.noun.classes or kind > 0.6:
            return self._object_relative(phrase, main_tense, main, agent)
        if kind < 0.08:
            return self._whose(phrase, main_tense)
        pronoun, verb = relative_pronoun(phrase), self.verb()
        while verb is main:
            verb = self.verb()
        tense = self.relative_tense(verb, pronoun, main_tense, "present past future")
        clause = self.clause(verb, pronoun, tense, avoided=phrase.noun)
        words = clauses.english(clause), clauses.german(clause, "final")
        return attached(phrase, clause, words, pronoun.phenomena, set())

    def _object_relative(
        self, phrase: NounPhrase, main_tense: str, main: Verb | None, agent: Noun | None
    ) -> NounPhrase:
        verbs = [verb for verb in TAKING[phrase.noun] if verb is not main]
        pronoun, verb = relative_pronoun(phrase), self.rng.choice(verbs or TAKING[phrase.noun])
        subject = self.subject()
        while head(subject) and head(subject) in (phrase.noun, agent):
            subject = self.subject()
        tenses = "present past" if "state" in verb.flags else "present past perfect"
        clause = Clause(subject, verb, self.relative_tense(verb, subject, main_tense, tenses))
        gap = pronoun.german(verb.case)
        shown = set(pronoun.phenomena) | ({"case"} if gap != pronoun.nominative else set())
        words = (
            f"{pronoun.object} {clauses.english(clause)}",
            f"{verb.german_preposition} {gap} {clauses.german(clause, 'final')}".strip(),
        )
        return attached(phrase, clause, words, shown, {(verb.lemma, phrase.noun.english)})

    def _whose(self, phrase: NounPhrase, main_tense: str) -> NounPhrase:
        feminine = phrase.plural or phrase.noun.gender == "f"
        relative = self.rng.choice([noun for noun in KIN if noun is not phrase.noun])
        kin = NounPhrase(relative, "whose " if feminine else "whose")
        verb = self.rng.choice(REST)
        tense = self.relative_tense(verb, kin, main_tense, "present past")
        clause = self.clause(verb, kin, tense)
        words = clauses.english(clause), clauses.german(clause, "final")
        shown = relative_pronoun(phrase).phenomena | {"case"}
        return attached(phrase, clause, words, shown, set())

    # Subordinate clauses

    def _subordinate(self) -> Draft:
        """because, although, when, ...: after the main clause or before it."""
        tense = self.rng.choice(("past", "past", "present"))
        main, sub = self._two_clauses(tense)
        lasting = "state" in main.verb.flags | sub.verb.flags
        links = _CONJUNCTIONS[tense][:2] if lasting else _CONJUNCTIONS[tense]
        english, german = self.rng.choice(links)
        if english in ("while", "before", "when"):
            main, sub = replace(main, negated=False), replace(sub, negated=False)
        if english in ("because", "although") and self.chance(0.7):
            main, sub = self._with_reason(main, sub.subject)
        if self.chance(0.5):
            return joined(main, sub, (english, f", {german}"))
        words = Words(
            f"{english} {clauses.english(sub)}",
            f"{german} {clauses.german(sub, 'final')},",
            frozenset(clauses.phenomena(sub, "final") | {"subordinate clause"}),
            comma=True,
            combinations=frozenset(clauses.combinations(sub)),
        )
        return said(replace(main, time=words, front="time"))

    def _with_reason(self, main: Clause, other: Phrase) -> tuple[Clause, Clause]:
        """The clause and how its subject is (the king ... because he is tired), or another's."""
        subject = main.subject
        pronoun = resumed(subject)
        if pronoun and self.chance(0.8):
            main = replace(main, subject=plain(subject))
            return main, self.perhaps_not(self.state(pronoun, main.tense, head(subject)))
        return main, self.state(plain(other), main.tense)

    def _two_clauses(self, tense: str) -> tuple[Clause, Clause]:
        """Two clauses of the tense about different people."""
        while True:
            main, sub = self.any_clause(tense), self.any_clause(tense)
            different = not same_subject(main, sub)
            if different and main.tense == sub.tense == tense:
                return main, sub

    def _that(self) -> Draft:
        verb, tense = self.rng.choice(_THAT), self.rng.choice(("present", "present", "past"))
        main = Clause(self.subject(), verb, "present" if verb.english == "hope" else tense)
        if verb.english != "hope":
            main = self.negated(main, 0.15)
        sub = self._content(main, "present past perfect future")
        return joined(main, sub, ("that", ", dass"))

    def _whether(self) -> Draft:
        tense = self.rng.choice(("present", "past"))
        verb = self.rng.choice(_WHETHER)
        main = Clause(self.certain_subject(), verb, tense, negated=verb.english == "know")
        sub = self._content(main, "present future perfect")
        return joined(main, replace(sub, negated=False), ("whether", ", ob"))

    def _content(self, main: Clause, tenses: str) -> Clause:
        """What is known or asked: about somebody else, and in the past after a past."""
        sub = self.any_clause("past" if main.tense == "past" else tenses)
        while same_subject(main, sub) or sub.subject is NOBODY:
            sub = self.any_clause("past" if main.tense == "past" else tenses)
        return replace(sub, tense="past") if main.tense == "past" else sub

    # A thing, and it again

    def _handled(self, tense: str, adjective_chance: float) -> tuple[Clause, NounPhrase]:
        """Somebody does something to a thing that it can stand for."""
        verb = self.rng.choice(_FIRST)
        noun = self.object_noun(verb)
        while not noun.classes & _IT_CLASSES or not FITTING[noun]:
            verb = self.rng.choice(_FIRST)
            noun = self.object_noun(verb)
        plural = self.plural(noun, 0.12)
        determiners = ("the", "these", "two") if plural else ("the", "the", "a", "this")
        if noun.mass:
            determiners = ("the", "the", "this")
        adjective = self.adjective(noun, adjective_chance)
        phrase = NounPhrase(noun, self.rng.choice(determiners), adjective, plural)
        subject = self.certain_subject()
        return Clause(subject, verb, tense, accusative=phrase), phrase

    def _and_it(self) -> Draft:
        """The boy found the key and put it on the table."""
        tense = self.rng.choice(("past", "past", "past", "present"))
        main, phrase = self._handled(tense, 0.25)
        while not (seconds := self._seconds(main.verb, phrase.noun)):
            main, phrase = self._handled(tense, 0.25)
        verb, noun, it = self.rng.choice(seconds), phrase.noun, pronoun_for(phrase)
        subject = main.subject
        silent = Pronoun("", "", "", "", "", person=subject.person, plural=subject.plural)
        sub = Clause(silent, verb, main.tense, accusative=it)
        if verb is _PUT:
            sub = replace(sub, place=adverbials.surface(self.rng, "acc"))
        draft = joined(main, sub, ("and", " und"), "second")
        pair = (verb.lemma, noun.english)
        return replace(draft, combinations=draft.combinations | {pair})

    def _seconds(self, first: Verb, noun: Noun) -> list[Verb]:
        """What may happen to a thing after the first verb."""
        layable = noun in OBJECTS[_PUT]
        verbs = [verb for verb in TAKING[noun] if "second" in verb.flags and verb is not first]
        return [_PUT] if layable and (not verbs or self.chance(0.4)) else verbs

    def _because_it(self) -> Draft:
        """The man bought the lamp because it was cheap."""
        tense = self.rng.choice(("past", "past", "present"))
        main, phrase = self._handled(tense, 0)
        sub = self.state(pronoun_for(phrase), tense, phrase.noun)
        link = self.rng.choice((("because", ", weil"), ("although", ", obwohl")))
        return joined(main, self.perhaps_not(sub), link)

    # Infinitives

    def _infinitive(self) -> Draft:
        """The boy tries to open the door."""
        verb, subject = self.rng.choice(_INFINITIVE), self.certain_subject()
        tenses = "present past" if verb.english == "hope" else "present past past perfect"
        main = Clause(subject, verb, self.tense(verb, subject, tenses))
        return with_infinitive(main, self._task(subject), "")

    def _purpose(self) -> Draft:
        """The woman goes to the market to buy bread."""
        verb, subject = self.rng.choice(MOTION), self.certain_subject()
        main = self.clause(verb, subject, self.tense(verb, subject))
        return with_infinitive(main, self._task(subject), "um ")

    def _task(self, subject: Phrase) -> Clause:
        """What somebody tries or goes to do."""
        verb = self.rng.choice(self.rng.choices((TRANS, DAT, PREP, GIVE), (6, 1, 1, 1))[0])
        while verb.flags & {"state", "static"}:
            verb = self.rng.choice(TRANS)
        return replace(self.clause(verb, subject, "present"), place=None)

    # Questions

    def _question_clause(self, tenses: str) -> Clause:
        verb = self.verb()
        subject = self.certain_subject(verb)
        tenses = "present past" if "state" in verb.flags else tenses
        while True:
            clause = self.clause(verb, subject, self.tense(verb, subject, tenses))
            if not has_some((clause.accusative, clause.dative, clause.prepositional)):
                return clause

    def _yes_no(self) -> Draft:
        clause = self._question_clause("present past past perfect future can should must may")
        timely = "state" not in clause.verb.flags and clause.tense in ("present", "past", "future")
        if timely and self.chance(0.4):
            clause = replace(clause, time=adverbials.time(self.rng, clause.tense))
        return asked(clause)

    def _wh(self) -> Draft:
        """who, what, when, where, why, how often."""
        if self.chance(0.35):
            return self._who()
        if self.chance(0.15):
            return self._what()
        clause = self._question_clause("present past past future can should must")
        clause = replace(clause, tense="present") if clause.tense == "perfect" else clause
        words = [("why", "warum"), ("when", "wann"), ("how often", "wie oft")]
        if clause.place is None and clause.verb.frame in ("trans", "rest"):
            words.append(("where", "wo"))
        if "state" in clause.verb.flags:
            words = [("why", "warum")]
        return asked(clause, self.rng.choice(words))

    def _who(self) -> Draft:
        verb = self.verb()
        who = Pronoun("who", "", "", "", "")
        tenses = "present past past perfect future can"
        tense = self.tense(verb, who, "present" if "state" in verb.flags else tenses)
        clause = self.clause(verb, who, tense)
        return draft(
            clauses.english(clause),
            clauses.german(clause, "first", "wer"),
            clauses.phenomena(clause, "first") | {"question"},
            clauses.combinations(clause),
            "?",
        )

    def _what(self) -> Draft:
        verb, subject = self.rng.choice(_WITH_THINGS), self.certain_subject()
        tenses = "present" if "state" in verb.flags else "present past past future can should"
        return asked(Clause(subject, verb, self.tense(verb, subject, tenses)), ("what", "was"))

    def _which(self) -> Draft:
        """Which book (how many books) does the man buy?"""
        verb, subject = self.rng.choice(_ONE), self.certain_subject()
        noun = self.object_noun(verb, head(subject))
        plural = self.plural(noun, 0.3)
        phrase = NounPhrase(noun, "which", self.adjective(noun, 0.2), plural)
        tenses = "present past" if "state" in verb.flags else "present past past future should"
        clause = Clause(subject, verb, self.tense(verb, subject, tenses))
        words = phrase.english(), phrase.german("acc")
        if plural and self.chance(0.5):
            bare = replace(phrase, determiner="")
            words = f"how many {bare.english()}", f"wie viele {bare.german('acc')}"
        whole = replace(clause, accusative=phrase)
        draft = asked(clause, words)
        return replace(
            draft,
            phenomena=draft.phenomena | clauses.phenomena(whole, "first"),
            combinations=frozenset(clauses.combinations(whole)),
        )
