"""Required terms are found as whole words, kept by any search, and reported if they are unmet."""

import io
import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.beam_search import search_step_by_step
from nmt.decoding.constraints import ForcedPrefix
from nmt.decoding.glossary import Glossary, unmet
from nmt.decoding.term_banks import TermBanks, Terms, TokenKinds
from nmt.errors import InputError
from nmt.lines.translate import LineOptions, translate_stream
from nmt.translator import SearchOptions, Translator
from tests.decoding.toy import ALLOWED, ToySteps, V, assert_same, exhaustive
from tests.fixtures.make import TRAINED

CONTENT = st.sampled_from(ALLOWED[1:])
SUFFIX = 7  # continues the word of the token before
KINDS = TokenKinds(np.arange(V) == SUFFIX, np.arange(V) > 3, np.arange(V) < 0)

TEXTS = [
    "The man reads a book.", "Where is the ship?", "", "The old man and the dog sleep.",
    "The baker reads a letter. The teacher draws a map.", "The dog sees the dog.",
]  # fmt: skip
TERMS = {"man": "Zwerg", "book": "dicke Zeitung", "dog": "C++", "map": "Plan", "ship": "xyz"}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(TRAINED / "run", device="cpu")


def has(content, phrases) -> bool:
    """Returns whether all phrases occur, none inside another one and none followed by a suffix."""
    return not phrases or any(_has_in_order(content, order) for order in permutations(phrases))


def _has_in_order(content, phrases) -> bool:
    at = 0
    for phrase in phrases:
        n = len(phrase)
        ends = [
            i + n
            for i in range(at, len(content) - n + 1)
            if tuple(content[i : i + n]) == phrase and content[i + n : i + n + 1] != (SUFFIX,)
        ]
        if not ends:
            return False
        at = ends[0]
    return True


def searched(steps, limits, banks, width, n_best):
    found = search_step_by_step(
        steps, limits, beam=width, alpha=0.6, n_best=n_best, reads_as=None, device="cpu",
        banks=banks,
    )  # fmt: skip
    while True:
        try:
            next(found)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("phrases", [[(4,)], [(5, 6)], [(4, 4), (5,)], [(6,), (6,)], [(4, 5, 6)]])
def test_a_wide_beam_finds_the_best_of_all_that_have_the_terms(phrases):
    for sentence in range(4):
        banks = TermBanks([Terms(phrases, KINDS, 0)], [4], 170)
        [found] = searched(ToySteps([sentence], 170), [4], banks, 170, 1)
        best = exhaustive(sentence, 4, 0.6, 1, lambda content: has(content, phrases))
        assert_same(found, best)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 999),
            st.lists(st.lists(CONTENT.filter(lambda t: t != SUFFIX), min_size=1, max_size=3),
                     min_size=1, max_size=3),
            st.lists(CONTENT, max_size=2), st.integers(1, 4),
        ),
        min_size=1, max_size=5,
    ),
    st.integers(1, 4),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_terms_are_kept_in_any_beam_or_batch(sentences, beam):
    """Tests several, overlapping and repeated terms, also after a prefix, if the length allows
    them.
    """
    sizes = [sum(map(len, phrases)) for _, phrases, _, _ in sentences]
    width = max(beam * 2, max(sizes) + 1)

    def found_for(some):
        numbers = [number for number, *_ in some]
        limits = [sum(map(len, phrases)) + len(prefix) + more for _, phrases, prefix, more in some]
        banks = TermBanks([Terms(p, KINDS, 0) for _, p, _, _ in some], limits, width)
        steps = ForcedPrefix(ToySteps(numbers, width), [prefix for *_, prefix, _ in some])
        return searched(steps, limits, banks, width, beam)

    together = found_for(sentences)
    for sentence, hypotheses in zip(sentences, together, strict=True):
        assert len({tuple(each.tokens) for each in hypotheses}) == len(hypotheses)
        _, phrases, prefix, _ = sentence
        for each in hypotheses:
            assert each.finished and has(tuple(each.tokens[:-1]), [tuple(p) for p in phrases])
            assert each.tokens[: len(prefix)] == prefix
        assert_same(hypotheses, found_for([sentence])[0])


def test_terms_among_the_tokens_of_a_shortlist():
    shortlist = np.array([0, 1, 2, 3, 4, 6, SUFFIX])
    terms = Terms([(4, 6), (6,)], KINDS, 2).among(shortlist)
    assert terms.phrases == [(4, 5), (5,)] and terms.max_stops == 2
    assert [of_all.tolist() for of_all in terms.kinds] == [
        of_all[shortlist].tolist() for of_all in KINDS
    ]
    assert terms.kinds.begins_inside.tolist() == [False] * 6 + [True]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A fire truck, a Fire-truck and FIRE", ["fire truck", "fire", "fire"]),
        ("firefighter trucks US us", ["US"]),
        ("us, U.S.", []),
        ("He likes C++ (C).", ["C++"]),
        ("吃苹果派", ["苹果派"]),
        ("吃苹果", ["苹果"]),
        ("Mu\u0308ller, fire  \u00a0truck", ["Müller", "fire truck"]),
    ],
)
def test_source_terms_are_whole_words_and_the_longest_counts(text, found):
    terms = ["fire", "fire truck", "truck driver", "US", "C++", "苹果", "苹果派", "Müller"]
    assert [source for source, _ in Glossary.of(dict.fromkeys(terms, "x")).required(text)] == found


@pytest.mark.parametrize(
    ("targets", "translation", "lacking"),
    [
        (["Hund"], "Ein Hund.", []),
        (["Hund"], "Ein Hunde, ein Schäferhund, ein hund.", ["Hund"]),
        (["Hund", "Hund"], "Hund und Katze", ["Hund"]),
        (["Hund", "Hund"], "(Hund) Hund-", []),
        (["dog", "a cat"], "Dog sees a Cat", ["a cat"]),
        (["dog"], "A Dog", ["dog"]),
        (["C++"], "in C++.", []),
    ],
)
def test_target_terms_are_counted_as_whole_words(targets, translation, lacking):
    required = [(f"s{number}", target) for number, target in enumerate(targets)]
    assert [target for _, target in unmet(required, translation)] == lacking


@pytest.mark.parametrize("document", [False, True])
@pytest.mark.parametrize("settings_", [{"beam": 1}, {"beam": 3, "n_best": 3}])
def test_every_translation_has_its_terms(translator, settings_, document):
    found = translator.translate(TEXTS, glossary=TERMS, document=document, **settings_)
    free = translator.translate(TEXTS, document=document, **settings_)
    glossary = Glossary.of(TERMS)
    for text, best, without in zip(TEXTS, found, free, strict=True):
        required = glossary.required(text)
        assert not best.unmet_terms
        for each in (best, *best.alternatives):
            assert not unmet(required, each.text)
        if not required:
            assert best == without
    assert sum(best != without for best, without in zip(found, free, strict=True)) >= 4


def test_a_term_that_is_there_changes_nothing(translator):
    free = translator.translate(TEXTS[:2])
    words = {"reads": free[0].text.split()[0], "is": free[1].text.split()[-1]}
    assert translator.translate(TEXTS[:2], glossary=words) == free


def test_neighbours_change_nothing(translator):
    options = SearchOptions(glossary=TERMS, beam=3, n_best=2)

    def tokens(found):
        return [[each.tokens for each in best] for best in found]

    together = tokens(translator.n_best(TEXTS, options))
    assert [tokens(translator.n_best([text], options))[0] for text in TEXTS] == together
    assert tokens(translator.n_best(TEXTS, replace(options, batch_tokens=1))) == together


def test_what_cannot_be_kept_is_told_by_line(translator):
    """The term is too long, or does not fit after a prefix."""
    long = " ".join(["Quatsch"] * 40)
    notes, target = [], io.BytesIO()
    options = LineOptions(
        search=SearchOptions(glossary={"ship": long, "man": "Zwerg"}), format="jsonl"
    )
    source = io.BytesIO("\n".join(TEXTS).encode())
    translate_stream(translator, source, target, options=options, note=notes.append)
    said = [note for note in notes if "Quatsch" in note or "Zwerg" in note]
    assert len(said) == 1 and "Line 2 of standard input" in said[0] and '"ship"' in said[0]
    written = [json.loads(line)["unmet_terms"] for line in target.getvalue().splitlines()]
    assert written == [[], [["ship", long]], [], [], [], []]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\tc\n", "Line 1"),
        ("\na b\n", "Line 2"),
        ("a\tb\na\tc\n", 'translations of "a": "b" and "c"'),
    ],
)
def test_files_that_are_no_glossaries(tmp_path, content, message):
    (tmp_path / "terms.tsv").write_text(content)
    with pytest.raises(InputError, match=message):
        SearchOptions(glossary=tmp_path / "terms.tsv")
    (tmp_path / "terms.tsv").write_text("a\tb\n\n c \t d\n")
    assert SearchOptions(glossary=tmp_path / "terms.tsv") == SearchOptions(
        glossary={"a": "b", "c": "d"}
    )


def test_a_glossary_is_for_a_search():
    with pytest.raises(InputError, match="sample"):
        SearchOptions(glossary={"a": "b"}, sample=True)
    with pytest.raises(InputError, match="int"):
        SearchOptions(glossary=3)
