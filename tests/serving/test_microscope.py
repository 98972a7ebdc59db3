"""The page's microscope shows the same values as the commands."""

from itertools import pairwise

import numpy as np
import pytest

from nmt.data.pair import Pair
from nmt.decoding.beam_search import length_penalty
from nmt.decoding.options import SearchOptions
from nmt.decoding.score import log_probabilities, score_translations
from nmt.errors import ArgumentError
from nmt.evaluation.attention_maps import attention_of
from nmt.model.special_ids import EOS_ID
from nmt.serving import microscope
from nmt.serving.microscope import inspect, search_tree
from nmt.translator import Translator
from tests.serving.models import ending_translator
from tests.serving.served import ask, served

SOURCE = "The  old man\treads 😀 e\u0301 ▁ <0x41>."
TARGET = "Der alte Mann liest 日本."


@pytest.fixture
def translator(settings, tiny_data) -> Translator:
    return ending_translator(settings(model__encoder_layers=3, decoding__beam=3), tiny_data)


def test_attention_is_that_of_the_attention_command(translator):
    seen = inspect(translator, SOURCE, TARGET)
    maps = attention_of(translator, SOURCE, TARGET)
    cross = inspect(translator, SOURCE, TARGET, "cross")
    assert cross == seen | {"attention": {"cross": seen["attention"]["cross"]}}
    assert [token["piece"] for token in seen["source"]["tokens"]] == maps.source_pieces
    assert [token["piece"] for token in seen["target"]["tokens"]] == maps.target_pieces
    assert seen["read"] == maps.read_pieces
    assert seen["attention"].keys() == {"encoder", "decoder", "cross"}
    for kind, weights in seen["attention"].items():
        rows = np.array(weights)  # (layers, heads, queries, keys)
        np.testing.assert_allclose(rows, getattr(maps, kind), atol=6e-4)
        assert max(map(len, map(str, rows.flat))) <= len("0.123")


def test_log_probabilities_are_those_of_the_score_command(translator):
    tokens = inspect(translator, SOURCE, TARGET)["target"]["tokens"]
    [scored] = score_translations(translator, [SOURCE], [TARGET])
    assert [token["log_probability"] for token in tokens] == scored.log_probabilities


def test_the_likeliest_tokens_are_the_next_tokens(translator):
    tokens = inspect(translator, SOURCE, TARGET)["target"]["tokens"]
    for place, prefix in ((0, ""), (len(translator.tokenizer.encode("Der alte")), "Der alte")):
        expected = translator.next_tokens(SOURCE, prefix, k=5)
        found = tokens[place]["likeliest"]
        assert [each["piece"] for each in found] == [each.piece for each in expected]
        probabilities = [each.probability for each in expected]
        assert [each["probability"] for each in found] == pytest.approx(probabilities, rel=1e-4)


def test_without_a_target_it_is_the_translation(translator):
    assert inspect(translator, "The man.") == inspect(
        translator, "The man.", translator.translate("The man.").text
    )


@pytest.mark.parametrize(
    "text", [SOURCE, TARGET, "▁▁a ▁", "\U000f2581 x", "a \u200d😀\u200d b", "\ufffd\ufffd\ufffd 😀"]
)
def test_tokens_spell_the_text(translator, text):
    side = inspect(translator, text, text)["source"]
    assert side["text"] == translator.tokenizer.normalize(text)
    assert "".join(token["text"] for token in side["tokens"]) == side["text"]
    *content, end = side["tokens"]
    assert (end["piece"], end["bytes"], end["text"]) == ("</s>", [], "")
    spelt = b"".join(bytes(token["bytes"]) for token in content).decode()
    pieces = translator.tokenizer.encode(side["text"])
    if "▁" not in text and "\U000f2581" not in text:  # the tokenizer escapes these characters
        assert spelt == f" {side['text']}"
    assert len(content) == len(pieces)


@pytest.mark.parametrize("text", ["😀", "\ufffd", "\ufffd\ufffdé\ufffd"])
def test_a_character_of_several_bytes_belongs_to_the_last(translator, text):
    """This also holds for U+FFFD, the replacement character for invalid bytes."""
    tokens = inspect(translator, text, "x")["source"]["tokens"]
    assert [token["bytes"] for token in tokens if token["piece"].startswith("<0x")] == [
        [byte] for byte in text.encode()
    ]
    shares = [share for each in text for share in [""] * (len(each.encode()) - 1) + [each]]
    assert [token["text"] for token in tokens][-len(shares) - 1 :] == [*shares, ""]


@pytest.mark.parametrize(("beam", "alpha"), [(1, 0.6), (2, 0.0), (3, 0.6), (4, 1.5)])
@pytest.mark.parametrize("prefix", ["", "Der Mann"])
def test_the_best_of_the_tree_is_the_translation(translator, beam, alpha, prefix):
    for text in ("The old man reads.", "Two dogs sleep here, and the cat sees them."):
        tree = search_tree(translator, text, beam=beam, length_penalty=alpha, prefix=prefix)
        options = SearchOptions(beam=beam, length_penalty=alpha)
        best = translator.translate(text, options, prefix=prefix)
        assert tree["best"]["text"] == best.text
        assert tree["best"]["score"] == best.score
        assert (tree["beam"], tree["length_penalty"]) == (beam, alpha)
        assert tree["best"]["finished"] or beam == 1
        if not tree["best"]["finished"]:
            continue
        assert tree["finished"][0]["score"] == best.score
        options = SearchOptions(beam=beam, length_penalty=alpha, n_best=beam)
        listed = translator.n_best([text], options, prefix=prefix)[0]
        scores = {each["score"] for each in tree["finished"]}
        assert {each.score for each in listed} <= scores


def test_every_hypothesis_of_a_step_goes_on_from_one_that_lived(translator):
    tree = search_tree(translator, "The old man reads a book.", beam=3)
    steps = tree["steps"]
    assert [node["parent"] for node in steps[0]] == [None] * len(steps[0])
    assert tree["finished"]
    for before, step in pairwise(steps):
        values = [node["log_probability"] for node in step]
        assert values == sorted(values, reverse=True)
        assert sum(node["state"] == "live" for node in step) == 3 and len(step) == 6
        for node in step:
            parent = before[node["parent"]]
            assert parent["state"] == "live"
            assert node["log_probability"] <= parent["log_probability"]
            assert (node["state"] == "finished") == (node["piece"] == "</s>")
    ids = {piece: i for i, piece in enumerate(translator.tokenizer.pieces(range(400)))}
    src = [*translator.tokenizer.encode("The old man reads a book."), EOS_ID]
    for one in tree["finished"]:
        tokens = [ids[piece] for piece in _pieces(steps, one)]
        assert translator.tokenizer.decode(tokens) == one["text"]
        pair = Pair(np.array(src), np.array(tokens))
        [scored] = log_probabilities(translator.transformer, [pair])
        assert sum(scored) == pytest.approx(one["log_probability"], abs=1e-4)
        end = steps[one["step"]][one["index"]]
        assert end["state"] == "finished" and one["length"] == one["step"] + 1
        assert end["log_probability"] == one["log_probability"]
        penalty = length_penalty(one["length"], tree["length_penalty"])
        assert one["score"] == pytest.approx(one["log_probability"] / penalty)


def _pieces(steps: list, one: dict) -> list[str]:
    """Returns the pieces of a finished hypothesis, including EOS."""
    pieces, index = [], one["index"]
    for step in reversed(steps[: one["step"] + 1]):
        pieces.append(step[index]["piece"])
        index = step[index]["parent"]
    assert index is None
    return pieces[::-1]


def test_what_is_too_long_or_empty_is_refused(translator, monkeypatch):
    for call in (inspect, search_tree):
        with pytest.raises(ArgumentError, match="text is empty"):
            call(translator, " \u200b")
        with pytest.raises(ArgumentError, match=r"text has more than \d+ tokens"):
            call(translator, "man " * 100)
    with pytest.raises(ArgumentError, match=r"prefix has more than \d+ tokens"):
        search_tree(translator, "The man.", prefix="Mann " * 100)
    monkeypatch.setattr(microscope, "_MAX_WEIGHTS", 1000)
    with pytest.raises(ArgumentError, match="text is too long"):
        inspect(translator, SOURCE, TARGET)


def test_the_calls_answer_with_the_same_and_have_bounds(translator):
    question = {"text": "The old man reads.", "target": "Der Mann."}
    with served(translator) as port:
        assert ask(port, "/api/inspect", question) == (200, inspect(translator, *question.values()))
        del question["target"]
        assert ask(port, "/api/inspect", question) == (200, inspect(translator, *question.values()))
        question |= {"beam": 2, "prefix": "Der"}
        assert ask(port, "/api/search", question) == (200, search_tree(translator, **question))
        for path, wrong, said in (
            ("inspect", {"text": " "}, "text is empty"),
            ("inspect", {"text": "man " * 100}, "more than 59 tokens"),
            ("inspect", {"text": "m" * 60_000}, "at most 20,000 characters"),
            ("inspect", {"text": "man", "kind": "self"}, "kind"),
            ("search", {"text": "man", "beam": 99}, "beam must be at most 16"),
            ("search", {"text": "man", "prefix": "Mann " * 100}, "prefix has more than 59 tokens"),
            ("search", {"text": "man", "steps": 1}, "steps"),
        ):
            status, answer = ask(port, f"/api/{path}", wrong)
            assert status == 400 and said in answer["error"], answer
