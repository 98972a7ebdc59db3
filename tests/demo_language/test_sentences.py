"""Splits, held-out combinations and phenomena of the demo corpus, and hand-checked grammar."""

import re
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from random import Random

import pytest

from nmt.demo_language import (
    PHENOMENA,
    SPLITS,
    DemoPair,
    OutOfSentences,
    corpus,
    demo_pairs,
    english,
    german,
    word_for_word,
)
from nmt.demo_language.clauses import Clause, Words
from nmt.demo_language.grammar import sentence
from nmt.demo_language.lexicon import ADJECTIVES, NOUNS, VERBS, Noun, Verb
from nmt.demo_language.phrases import HE, ME, SHE, THEY, YOU, NounPhrase, prepositional, pronoun_for
from nmt.demo_language.sentences import Draft

HELD_OUT = ("validation", "test")


def noun(word: str) -> Noun:
    return next(noun for noun in NOUNS if noun.english == word)


def verb(lemma: str, frame: str = "trans") -> Verb:
    return next(verb for verb in VERBS if (verb.lemma, verb.frame) == (lemma, frame))


def adjective(word: str):
    return next(adjective for adjective in ADJECTIVES if adjective.english == word)


@pytest.fixture(scope="module")
def splits() -> dict[str, list[DemoPair]]:
    sizes = {"train": 12_000, "validation": 500, "test": 500}
    return {split: list(demo_pairs(size, 1, split)) for split, size in sizes.items()}


@pytest.fixture(scope="module")
def drafts() -> list[Draft]:
    rng = Random("drafts")
    return [sentence(rng) for _ in range(10_000)]


def test_same_seed_same_pairs_and_other_seed_others():
    first = list(demo_pairs(200, 7, "test"))
    assert first == list(demo_pairs(200, 7, "test"))
    assert first[:50] == list(demo_pairs(50, 7, "test"))
    assert {pair.source for pair in first} != {pair.source for pair in demo_pairs(200, 8, "test")}


def test_a_seed_gives_the_same_sentences_for_ever():
    """The hash must never change, so that later versions can repeat a run."""
    pairs = [*demo_pairs(1_000, 1, "train"), *demo_pairs(500, 1, "test")]
    pairs += demo_pairs(5_000_500, 1, "train", first=5_000_000)
    text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    assert sha256(text.encode()).hexdigest().startswith("99526db56ad6c272")


def test_blocks_are_written_each_by_itself(monkeypatch):
    whole = list(demo_pairs(90, 7, "train"))
    monkeypatch.setattr(corpus, "BLOCK_PAIRS", 40)
    blocks = list(demo_pairs(90, 7, "train"))
    assert blocks[:40] == whole[:40]
    assert not set(blocks[40:80]) & set(blocks[:40])
    for first in (1, 39, 40, 85, 90):
        assert list(demo_pairs(90, 7, "train", first)) == blocks[first:]


def test_sources_differ_and_splits_do_not_share_any(splits):
    other_seed = {pair.source for pair in demo_pairs(5_000, 2, "train")}
    sources = {split: {pair.source for pair in pairs} for split, pairs in splits.items()}
    assert all(len(sources[split]) == len(splits[split]) for split in splits)
    for split in HELD_OUT:
        assert not sources[split] & (sources["train"] | other_seed)
    assert not sources["test"] & sources["validation"]


def test_held_out_combinations_are_never_in_training(drafts):
    """With any seed, a training sentence contains only training combinations."""
    accepted = Counter()
    for draft in drafts:
        splits = {corpus.combination_split(*pair) for pair in draft.combinations}
        for split in SPLITS:
            if corpus.belongs(draft.combinations, split):
                accepted[split] += 1
                assert splits <= {"train", split}
                assert split == "train" or split in splits
    assert all(accepted[split] > 400 for split in SPLITS)


def test_combinations_are_in_the_sentence(drafts):
    """Both lemmas of a combination occur in the source; without this, splits would mean nothing."""
    forms = {lemma: {lemma} for lemma in (adjective.english for adjective in ADJECTIVES)}
    for word in NOUNS:
        forms.setdefault(word.english, set()).update({word.english, word.english_plural})
    for word in ADJECTIVES:
        forms[word.english].add(word.english_comparative.removeprefix("more "))
    for draft in drafts[:3_000]:
        text = draft.source.lower()
        for first, second in draft.combinations:
            assert any(form and form in text for form in forms[second]), (draft, second)
            assert first not in forms or any(form in text for form in forms[first])


def test_german_is_a_function_of_english(splits, drafts):
    pairs = [(pair.source, pair.target) for pairs in splits.values() for pair in pairs]
    pairs += [(draft.source, draft.target) for draft in drafts]
    assert len(set(pairs)) == len({source for source, _ in pairs})


def test_every_phenomenon_in_every_split(splits):
    for pairs in splits.values():
        counts = Counter(name for pair in pairs for name in pair.phenomena)
        assert set(counts) == set(PHENOMENA)
        assert all(count >= 0.05 * len(pairs) for count in counts.values()), counts


def test_lengths_and_spelling(splits):
    pairs = [pair for some in splits.values() for pair in some]
    lengths = [len(pair.source.split()) for pair in pairs]
    assert 7 <= sum(lengths) / len(lengths) <= 11
    assert max(lengths) <= 22
    for pair in pairs:
        for text in (pair.source, pair.target):
            assert re.fullmatch(r"[A-ZÄÖÜ0-9][^.?]*([.:]\d\d|\d\.)?[^.?]*[.?]", text), text
            assert not re.search(r"  | [,.?]|,[.?,]|\ba [aeio]|None", text), text
        assert pair.source[-1] == pair.target[-1]


def test_words_of_the_held_out_splits_are_in_training(splits):
    def words(pairs: list[DemoPair]) -> set[str]:
        text = " ".join(pair.source.lower() for pair in pairs)
        return set(re.findall(r"[a-z']+", text))

    lemmas = {word_for_word(word) for word in words(splits["train"])}
    for split in HELD_OUT:
        assert {word_for_word(word) for word in words(splits[split])} <= lemmas


def test_too_many_pairs_and_wrong_arguments_are_errors(monkeypatch):
    one = sentence(Random("one"))
    monkeypatch.setattr(corpus, "sentence", lambda rng: one)
    with pytest.raises(OutOfSentences, match="after 1 of 2 pairs"):
        list(demo_pairs(2, 1, "train"))
    with pytest.raises(ValueError, match="split"):
        demo_pairs(2, 1, "dev")
    with pytest.raises(ValueError, match="-1"):
        demo_pairs(-1, 1, "train")


@pytest.mark.parametrize(
    ("determiner", "word", "plural", "expected"),
    [
        ("the", "boy", False, "der gute Junge, den guten Jungen, dem guten Jungen"),
        ("a", "child", False, "ein gutes Kind, ein gutes Kind, einem guten Kind"),
        ("my", "woman", False, "meine gute Frau, meine gute Frau, meiner guten Frau"),
        ("two", "man", True, "zwei gute Männer, zwei gute Männer, zwei guten Männern"),
        ("his", "guest", True, "seine guten Gäste, seine guten Gäste, seinen guten Gästen"),
        ("", "water", False, "gutes Wasser, gutes Wasser, gutem Wasser"),
        ("this", "house", False, "dieses neue Haus, dieses neue Haus, diesem neuen Haus"),
        ("the", "lake", False, "der tiefe See, den tiefen See, dem tiefen See"),
        ("every", "tower", False, "jeder hohe Turm, jeden hohen Turm, jedem hohen Turm"),
    ],
)
def test_noun_phrases(determiner, word, plural, expected):
    quality = {"house": "new", "lake": "deep", "tower": "high"}.get(word, "good")
    phrase = NounPhrase(noun(word), determiner, adjective(quality), plural)
    assert ", ".join(phrase.german(case) for case in ("nom", "acc", "dat")) == expected


@pytest.mark.parametrize(
    ("determiner", "word", "plural", "expected"),
    [
        ("the", "house", False, "des Hauses"),
        ("my", "son", False, "meines Sohnes"),
        ("this", "student", False, "dieses Studenten"),
        ("the", "car", False, "des Autos"),
        ("some", "city", True, "einiger Städte"),
    ],
)
def test_genitives(determiner, word, plural, expected):
    assert NounPhrase(noun(word), determiner, plural=plural).german("gen") == expected


def test_articles_contract_and_pronouns_take_the_gender():
    kitchen, key = NounPhrase(noun("kitchen"), "the"), NounPhrase(noun("key"), "the")
    assert prepositional("in", "dat", NounPhrase(noun("house"), "the")) == "im Haus"
    assert prepositional("zu", "dat", kitchen) == "zur Küche"
    assert prepositional("in", "acc", kitchen) == "in die Küche"
    assert [pronoun_for(phrase).german("acc") for phrase in (key, kitchen)] == ["ihn", "sie"]


@pytest.mark.parametrize(
    ("tense", "expected"),
    [
        ("present", "He calls a man.|Er ruft einen Mann an.|er einen Mann anruft"),
        ("past", "He called a man.|Er rief einen Mann an.|er einen Mann anrief"),
        (
            "perfect",
            "He has called a man.|Er hat einen Mann angerufen.|er einen Mann angerufen hat",
        ),
        ("future", "He will call a man.|Er wird einen Mann anrufen.|er einen Mann anrufen wird"),
        ("must", "He must call a man.|Er muss einen Mann anrufen.|er einen Mann anrufen muss"),
    ],
)
def test_separable_verb_in_every_order(tense, expected):
    clause = Clause(HE, verb("call"), tense, accusative=NounPhrase(noun("man"), "a"))
    texts = (
        english.statement(clause),
        german.worded(clause, "second"),
        german.worded(clause, "final"),
    )
    source, target = (text[0].upper() + text[1:] + "." for text in texts[:2])
    assert f"{source}|{target}|{texts[2]}" == expected
    assert german.infinitive(clause) == "einen Mann anzurufen"


def test_negation_questions_and_inversion():
    book = NounPhrase(noun("book"), "the")
    yesterday = Words("yesterday", "gestern")
    clause = Clause(ME, verb("find"), "past", accusative=book, time=yesterday, front="time")
    assert german.worded(clause, "second") == "gestern fand ich das Buch"
    clause = Clause(THEY, verb("find"), "past", negated=True, accusative=book)
    assert english.statement(clause) == "they did not find the book"
    assert german.worded(clause, "second") == "sie fanden das Buch nicht"
    clause = Clause(YOU, verb("help", "dat"), "past", dative=NounPhrase(noun("pilot"), "the"))
    assert english.question(clause, "why") == "why did you help the pilot"
    assert german.worded(clause, "first", "warum") == "warum haben Sie dem Piloten geholfen"
    clause = Clause(HE, verb("buy"), "present", negated=True,
                    accusative=NounPhrase(noun("cake"), "a"))  # fmt: skip
    assert german.worded(clause, "second") == "er kauft keinen Kuchen"


def test_object_pronoun_stands_before_a_noun_unless_it_could_be_the_subject():
    driver, woman = NounPhrase(noun("driver"), "the"), NounPhrase(noun("woman"), "the")
    she = Clause(driver, verb("hug"), "present", accusative=SHE)
    assert german.worded(she, "first") == "umarmt sie der Fahrer"
    assert german.worded(replace(she, subject=woman), "final") == "die Frau sie umarmt"
    assert (
        german.worded(replace(she, subject=woman, accusative=HE), "final") == "ihn die Frau umarmt"
    )
    assert german.worded(replace(she, subject=HE), "first") == "umarmt er sie"
    assert german.worded(she, "second") == "der Fahrer umarmt sie"


def test_word_for_word_keeps_the_order():
    translated = word_for_word("The boys bought an old key and put it on the table at 7:30.")
    assert translated == "Der Junge kaufen ein alt Schlüssel und legen es auf der Tisch an 7:30."


def test_whose_takes_the_gender_of_the_owner():
    father = NounPhrase(noun("father"), "whose")
    owners = [
        NounPhrase(noun(word), "the", plural=word == "man") for word in ("boy", "aunt", "man")
    ]
    phrases = [replace(father, owner=owner.row).german("dat") for owner in owners]
    assert phrases == ["dessen Vater", "deren Vater", "deren Vater"]
    assert father.english() == "whose father"


def test_a_pronoun_stands_before_the_particle_and_a_noun_behind_it():
    wake, child = verb("wake up"), NounPhrase(noun("child"), "the")
    assert english.statement(Clause(SHE, wake, "past", accusative=HE)) == "she woke him up"
    assert english.statement(Clause(SHE, wake, "past", accusative=child)) == "she woke up the child"
