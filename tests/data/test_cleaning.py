"""Properties of normalization; for each cleaning rule, pairs that it must and must not drop."""

import tracemalloc
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data import cleaning
from nmt.data.cleaning import (
    COPY,
    EMPTY,
    LEAKED,
    RATIO,
    TOO_LONG,
    HeldOut,
    fault,
    normalize,
)

ODD = "\0\t\n\v\f\r\x1c\x1d\x1e\x1f\x7f\x85\u2028\u2029\ufeff\u0308u \u00a0\u00ad\u200b\u200d\u3000"
ANY_TEXT = st.text(
    st.one_of(st.characters(exclude_categories=[]), st.sampled_from(ODD)), max_size=40
)


@given(ANY_TEXT)
def test_normalized_text_is_one_line_for_every_reader(text: str) -> None:
    normal = normalize(text)
    assert normalize(normal) == normal == unicodedata.normalize("NFC", normal)
    assert len(normal.splitlines()) <= 1
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in normal)
    normal.encode()
    if not cleaning.needs_repair(text) and not cleaning.has_odd_spacing(text):
        assert normal == unicodedata.normalize("NFC", text)


@given(ANY_TEXT)
def test_words_are_single_spaced_and_nothing_else_of_them_changes(text: str) -> None:
    words = normalize(text).split(" ") if normalize(text) else []
    assert words == normalize(text).split()
    letters = [c for c in unicodedata.normalize("NFC", text) if unicodedata.category(c) == "Lu"]
    assert [c for c in normalize(text) if unicodedata.category(c) == "Lu"] == letters


def test_every_blank_of_unicode_is_known_and_joiners_stay() -> None:
    blanks = [chr(c) for c in range(0x110000) if chr(c).isspace() and chr(c) != "\x1f"]
    assert len(blanks) > 20
    for blank in blanks:
        assert normalize(f"a{blank}b") == normalize(f" a {blank}b{blank}") == "a b"
    for invisible in "\u00ad\u200b\u2060\ufeff":
        assert normalize(f"a{invisible}b") == "ab"
        assert normalize(f"a {invisible} b{invisible}") == "a b"
    for kept in ("\u0646\u200c\u0647", "\U0001f468\u200d\U0001f469", "\u05d0\u200f.", "\u2011"):
        assert normalize(kept) == kept


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\r\nc", "a b c"),
        ("a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i", "a b c d e f g h i"),
        ("\ufeffso\x00 \x07far\x7f", "so far"),
        ("u\x00\u0308", "\u00fc"),  # composed after what stood between is gone
        ("x\ud800y", "x\ufffdy"),
        (
            " A  \u00a0\u2009\u200b\u00ad\ufb01 \u2581 ",
            "A \ufb01 \u2581",
        ),
        ("u\u00ad\u0308", "\u00fc"),
    ],
)
def test_normalize_examples(text: str, expected: str) -> None:
    assert normalize(text) == expected


NONE = HeldOut.of([])


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [
        ("A dog runs.", "Ein Hund rennt.", None),
        ("", "Ein Hund.", EMPTY),
        ("A dog.", " \u00a0 ", EMPTY),
        ("a " * 1000 + "a", "b " * 999 + "b", TOO_LONG),
        ("a " * 999 + "a", "b " * 1000 + "b", TOO_LONG),
        ("a " * 999 + "a", "b " * 999 + "b", None),
        ("v" * 5001, "w" * 5000, TOO_LONG),
        ("v" * 5000, "w" * 5001, TOO_LONG),
        ("v" * 5000, "w" * 5000, None),
        ("Yes.", "Ja, das sehe ich ebenfalls so.", None),
        ("Yes.", "Ja, das sehe ich ebenfalls so, und zwar schon lange.", RATIO),
        ("Two young girls weave corn stalks into elaborate designs.", "@@", RATIO),
        ("Nothing was translated here. ", "nothing was translated here.", COPY),
        ("19:30 - 21:00", "19:30 - 21:00", None),
    ],
)
def test_each_rule(source: str, target: str, rule: str | None) -> None:
    assert fault(source, target, NONE) == rule


def test_what_gives_an_evaluation_pair_away() -> None:
    held_out = HeldOut.of(
        [("A man rides a bike.", "Ein Mann fährt Rad."), ("Thank you!", "Danke!")]
    )
    assert fault("a man rides a bike", "Jemand fährt mit dem Fahrrad.", held_out) == LEAKED
    assert fault("Thank you.", "Danke.", held_out) == LEAKED
    in_capitals = HeldOut.of([("DIE STRASSE IST LANG", "x")])
    assert fault("Die Straße ist lang.", "The road is long.", in_capitals) == LEAKED
    four, three = (
        HeldOut.of([("A man rides bikes.", "x")]),
        HeldOut.of([("A man rides.", "x")]),
    )
    assert fault("A man rides bikes!", "Jemand fährt Rad.", four) == LEAKED
    assert fault("A man rides!", "Jemand fährt Rad.", three) is None
    # a short source is common property, and so is a target
    assert fault("Thank you!", "Vielen Dank!", held_out) is None
    assert fault("Somebody is cycling there.", "Ein Mann fährt Rad.", held_out) is None


@pytest.mark.parametrize(
    ("held_out", "training", "rule"),
    [
        ("मैं घर जा रहा हूँ।", "मैं घर जा रही हूँ।", None),  # Hindi, spoken by a man and a woman
        ("मैं घर जा रहा हूँ।", "मैं घर जा रहा हूँ", LEAKED),
        ("كَتَبَ الرجل كتابا جديدا", "كُتِبَ الرجل كتابا جديدا", None),
        ("We love you all.", "We love you all \u2764\ufe0f", LEAKED),
    ],
)
def test_marks_are_parts_of_words(held_out: str, training: str, rule: str | None) -> None:
    assert fault(training, "Something else.", HeldOut.of([(held_out, "x")])) == rule


@given(
    st.lists(
        st.one_of(st.integers(0, 3), st.integers(2**60 - 2, 2**60 + 2), st.integers(0, 2**64 - 1))
    )
)
def test_first_occurrences(hashes: list[int]) -> None:
    expected = [hashes.index(value) == i for i, value in enumerate(hashes)]
    assert cleaning.first_occurrences(np.array(hashes, dtype=np.uint64)).tolist() == expected


def test_first_occurrences_needs_a_few_bytes_an_entry() -> None:
    hashes = np.random.default_rng(0).integers(2**64, size=1 << 20, dtype=np.uint64)
    tracemalloc.start()
    cleaning.first_occurrences(hashes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - len(hashes) <= 6 * len(hashes)  # beside the result


def test_pair_hash_knows_the_sides_apart() -> None:
    hashes = {
        cleaning.pair_hash(*pair) for pair in [("a", "bc"), ("ab", "c"), ("bc", "a"), ("", "abc")]
    }
    assert len(hashes) == 4
    assert all(0 <= value < 2**64 for value in hashes)
