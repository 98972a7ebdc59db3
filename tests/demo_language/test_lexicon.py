"""The tables of the lexicon: allowed values in each column, and regular forms."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from nmt.demo_language import inflection, lexicon
from nmt.demo_language.lexicon import ADJECTIVES, ADVERBIALS, NOUNS, VERBS, Noun, rows

TABLES = ("nouns", "verbs", "adjectives", "adverbials", "other_words")
FRAMES = {
    *("trans", "dat", "prep", "give", "rest", "motion", "ride", "event", "belong", "cost", "put"),
    *("be", "that", "whether", "infinitive"),
}
FLAGS = {
    *("static", "state", "animal", "located", "nowhere", "placed", "getting", "familiar"),
    *("first", "second", "unasked"),
}
TIMES = {"past", "future", "present", "progressive"}
HABITS = {"frequency", "habit", "still", "perfect"}
ALLOWED = {
    ("nouns", "gender"): {"m", "f", "n"},
    ("nouns", "declension"): {"weak", ""},
    ("nouns", "german_direction"): {"in", "an", "auf", "zu", ""},
    ("verbs", "auxiliary"): {"haben", "sein"},
    ("verbs", "case"): {"acc", "dat"},
    ("verbs", "frame"): FRAMES,
    ("adjectives", "kind"): {"colour", "absolute", ""},
    ("adverbials", "kind"): TIMES | HABITS | {"manner", "comment", "narrative", "here", "degree"},
    ("adverbials", "front"): {"comma", ""},
    ("other_words", "kind"): {"number", "ordinal", "month", "weekday", "dictionary"},
}


@pytest.mark.parametrize("table", TABLES)
def test_cells_hold_what_their_column_says(table: str):
    documented = lexicon.__doc__.split(f"{table}.tsv, has")[1].split("\n\n")[0]
    for row in rows(table):
        assert row["english"] and row["german"]
        for column, cell in row.items():
            assert re.search(rf"\b{column}\b", documented), f"{column} is not explained"
            assert cell == " ".join(cell.split()), (row, column)
            assert cell in ALLOWED.get((table, column), {cell}), (row, column)


def test_each_english_word_has_one_german_word():
    for words in (NOUNS, ADJECTIVES, ADVERBIALS):
        assert max(Counter(word.english for word in words).values()) == 1
    assert max(Counter((verb.lemma, verb.frame) for verb in VERBS).values()) == 1
    for kind in ("number", "ordinal", "month", "weekday", "dictionary"):
        english = [row["english"] for row in rows("other_words") if row["kind"] == kind]
        assert len(set(english)) == len(english) > 0


def test_lexicon_is_large():
    assert (
        len({word.english for word in (*NOUNS, *ADJECTIVES)} | {verb.lemma for verb in VERBS}) > 500
    )
    assert len({word.german for word in (*NOUNS, *ADJECTIVES, *ADVERBIALS)}) > 400


def test_verbs_and_adjectives_ask_for_nouns_there_are():
    classes = set().union(*(noun.classes for noun in NOUNS))
    assert set().union(*(verb.objects for verb in VERBS)) <= classes
    assert set().union(*(adjective.suits for adjective in ADJECTIVES)) <= classes


def test_verbs_have_what_their_frame_needs():
    for verb in VERBS:
        assert verb.flags <= FLAGS, verb.lemma
        assert not (verb.particle and verb.preposition), verb.lemma
        assert bool(verb.german_preposition) == (verb.frame == "prep"), verb.lemma
        assert bool(verb.objects) == (verb.frame in ("trans", "dat", "prep", "give", "put"))


def test_places_have_all_three_prepositions():
    for noun in NOUNS:
        words = (noun.english_location, noun.german_location, noun.german_direction)
        assert all(words) if "place" in noun.classes else not any(words), noun.english


def test_weak_nouns_are_masculine_and_their_plural_is_the_weak_form():
    for noun in NOUNS:
        if noun.weak:
            assert noun.gender == "m"
            assert noun.german_plural == inflection.weak_form(noun.german) == noun.genitive


def test_every_class_is_asked_for_somewhere():
    """A verb, an adjective or the grammar must use each class: a misspelled one has no effect."""
    asked = {name for verb in VERBS for name in verb.objects}
    asked |= {name for adjective in ADJECTIVES for name in adjective.suits}
    for path in Path(lexicon.__file__).parent.glob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        asked |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    for noun in NOUNS:
        assert noun.classes - {noun.english} <= asked, noun.english


@pytest.mark.parametrize(
    ("english", "plural", "german", "genitive"),
    [
        ("bus", "buses", "Bus", "Busses"),
        ("lady", "ladies", "Dame", "Dame"),
        ("boy", "boys", "Junge", "Jungen"),
        ("student", "students", "Student", "Studenten"),
        ("secret", "secrets", "Geheimnis", "Geheimnisses"),
        ("child", "children", "Kind", "Kindes"),
        ("fish", "", "Fisch", "Fisches"),
        ("cup", "cups", "Tasse", "Tasse"),
        ("key", "keys", "Schlüssel", "Schlüssels"),
    ],
)
def test_nouns(english: str, plural: str, german: str, genitive: str):
    noun: Noun = next(noun for noun in NOUNS if noun.english == english)
    assert (noun.english_plural, noun.german, noun.genitive) == (plural, german, genitive)


@pytest.mark.parametrize(
    "forms",
    [
        "buy buys buying bought bought kaufen kauft kaufte gekauft",
        "carry carries carrying carried carried tragen trägt trug getragen",
        "cut cuts cutting cut cut schneiden schneidet schnitt geschnitten",
        "have has having had had haben hat hatte gehabt",
        "open opens opening opened opened öffnen öffnet öffnete geöffnet",
        "photograph photographs photographing photographed photographed "
        "fotografieren fotografiert fotografierte fotografiert",
        "hug hugs hugging hugged hugged umarmen umarmt umarmte umarmt",
        "call calls calling called called rufen ruft rief angerufen",
        "end ends ending ended ended enden endet endete geendet",
        "smile smiles smiling smiled smiled lächeln lächelt lächelte gelächelt",
    ],
)
def test_verbs(forms: str):
    verb = next(verb for verb in VERBS if verb.english == forms.split()[0])
    english = (verb.english, verb.english_third, verb.english_gerund)
    german = (verb.german, verb.german_third, verb.german_preterite, verb.german_participle)
    assert " ".join((*english, verb.english_past, verb.english_participle, *german)) == forms
