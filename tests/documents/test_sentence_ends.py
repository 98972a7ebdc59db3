"""Sentence splitting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.documents.sentences import split_sentences


@pytest.mark.parametrize(
    ("marked", "language"),
    [
        ("The man reads. |He sleeps.", "en"),
        ("“Who is it?” |She asked: “Why?” |Nobody knew!", "en"),
        ("Dr. J. S. Smith, e.g. of the U.S. Army, met Mr. Hill. |So did I. |Then he left.", "en"),
        ("It costs 3.50 euros. |12 of them came in 1999. |All left.", "en"),
        ("He left... |Then it rained… and it snowed.", "en"),
        ("yahoo! answers is a site, and so is ask.com. |See?", "en"),
        ("Am 3. Mai kam Hr. Müller, z. B. mit dem Zug. |Er blieb.", "de"),
        ("Er kam 1999. |Sie ging.", "de"),
        ("Chapter 3. |May is warm.", "en"),
        ("他读书。|她睡觉！|为什么？", "zh"),
        ("「行く。」|と言った。", "ja"),
        ("One.   |Two.  ", "en"),  # white space belongs to the preceding sentence
        ("\n One.\n\n|Two.", "en"),
        ("no end", "en"),
        ("What? or not! and so. |On.", "en"),  # a lowercase letter never begins a sentence
        ("Here am I. |You are e.g. Bo.", "en"),
        ("A sentence (in brackets.) |Another.", "en"),
        ("Er sagt: „Komm.“ |Sie geht. |»Komm.« |Sie geht.", "de"),
        ("« Viens. » |Il part. |« Viens\u00a0!\u00a0» |Elle reste.", "fr"),
        ("It is old.[1][23] |The man reads. |He met Dr.[1] Smith of the U.S.[2] Army.", "en"),
        ('He said "I live in the U.S." |Then he left. |(See fig. 3 in vol.) |The man reads.', "en"),
        ("„Er kam am 3.“ |Dann ging er.", "de"),
        ('Smith, J. (ed.) Advances. |The "U.S." Army weighs 5 kg (approx.) Always.', "en"),
        ("Der „Dr.“ Müller kam. |Am „3.“ Mai.", "de"),
        ("Is it in the U.S.? |I ate a fig! |The man reads.", "en"),
    ],
)
def test_sentences_end_where_a_reader_says(marked: str, language: str):
    text = marked.replace("|", "")
    assert split_sentences(text, language) == marked.split("|")


def test_sentences_may_begin_with_lowercase_letters():
    text = "j. r. r. tolkien wrote. dr. smith read it! the end."
    assert split_sentences(text) == [text]
    assert split_sentences(text, ignore_case=True) == [
        "j. r. r. tolkien wrote. ", "dr. smith read it! ", "the end."
    ]  # fmt: skip


@given(st.one_of(st.text(), st.text(alphabet="aB1 .!?…。'\"()\n-")))
def test_nothing_is_lost(text: str):
    found = split_sentences(text, "de")
    assert "".join(found) == text
    assert all(found)


@pytest.mark.parametrize("sign", [".", "。", ")", " ", ". ", ".)", "a.", "。」"])
def test_a_long_run_of_signs_takes_no_time(sign: str):
    """A regular expression that backtracks would take days."""
    assert "".join(split_sentences(sign * 300_000)) == sign * 300_000
