"""Splitting and joining texts: sentences stay separate, and all parts fit the model."""

from types import SimpleNamespace

from nmt.serving.texts import joined, parts, spans


def test_sentences_without_a_space_between_them_get_one():
    text = "他读书。她睡觉！\nC."
    found = spans(text, "zh")
    assert [text[begin:end] for begin, end in found] == ["他读书。", "她睡觉！", "C."]
    whole, places = joined(text, found, ["He reads.", "She sleeps!", "C."])
    assert whole == "He reads. She sleeps!\nC."
    assert [whole[begin:end] for begin, end in places] == ["He reads.", "She sleeps!", "C."]


def test_an_empty_translation_leaves_no_blank():
    text = " Yes. No. So.\n\n Good. "
    found = spans(text, "en")
    assert joined(text, found, ["a", "", "", "d"])[0] == " a\n\n d "
    assert joined(text, found, ["", "b", "", "d"])[0] == " b\n\n d "
    whole, places = joined(text, found, ["a", "", "c", ""])
    assert whole == " a c\n\n  "
    assert [whole[begin:end] for begin, end in places] == ["a", "", "c", ""]


def test_what_has_no_space_is_cut_between_characters_but_never_for_ever():
    tokenizer = SimpleNamespace(split_tag=lambda text: ("", text), normalize=str, encode=list)
    found = parts("x" * 100, tokenizer, 5)
    assert "".join(found) == "x" * 100 and max(map(len, found)) <= 8
    assert parts("x" * 8, tokenizer, 5) == ["x" * 8]
