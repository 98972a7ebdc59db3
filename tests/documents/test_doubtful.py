"""Suspicious translations are detected, and normal ones are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.demo_language import demo_pairs
from nmt.documents.doubtful import is_doubtful, repetitions


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("The man.", "Der der der der Mann."),
        ("He said no.", "Er sagte nein, nein, nein, nein."),
        ("A man and a dog.", "Ein Mann und ein Hund und ein Hund und ein Hund."),
        ("Read on!", "Lies weiter und weiter und weiter und weiter!"),
        ("HELLO WORLD", "Näääääääääche."),
        ("3 3 3 3 3 3", "3 3 3 3 3 3 3 3 3 3 37 3."),
        ("x", "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster."),
        ("He laughs.", "哈哈哈哈哈"),
        ("", "Ein Mann in einem blauen Hemd steht da."),
    ],
)
def test_loops_and_inventions_are_named(source: str, translation: str):
    assert is_doubtful(source, translation)


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("No, no, no, no!", "Nein, nein, nein, nein!"),
        ("Never.", "Nein, nein, nein."),
        ("Yes.", "Ja, natürlich, gerne."),
        ("again and again and again", "immer und immer und immer"),
        ("Sooooo good!", "Sooooo gut!"),
        ("1 1 1 1 1 1 1 1", "1 1 1 1 1 1 1 1 1"),
        ("...", "............"),
        (
            "他读了一本关于历史的书。",
            "He has read a book about the history of this part of the country.",
        ),
        ("", ""),
        ("The men who see that man see that the man sees.", "Die, die die sehen, sehen die."),
    ],
)
def test_what_only_looks_like_it_is_not(source: str, translation: str):
    assert not is_doubtful(source, translation)


def test_no_pair_of_the_demo_is_doubtful():
    for pair in demo_pairs(500, 1, "train"):
        assert not is_doubtful(pair.source, pair.target)
        assert not is_doubtful(pair.target, pair.source)


@given(st.integers(1, 16), st.integers(3, 6), st.text("xyz ", max_size=20))
def test_every_loop_is_counted(period: int, times: int, before: str):
    unit = [f"w{n}" for n in range(period)]
    text = " ".join([before, *unit * times])
    assert repetitions(text) == times - (period == 1)
    source = " ".join(f"s{n}" for n in range(100))
    assert is_doubtful(source, text) == (times - (period == 1) >= 3)
