"""The server's description of a model, alternatives, doubts and examples."""

import gzip
import json
import shutil
from http.client import HTTPConnection
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from fastapi import HTTPException

from nmt.decoding.beam_search import length_penalty
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation
from nmt.reporting.info import info
from nmt.serving import routes
from nmt.serving.about import about
from nmt.serving.alternatives import alternatives
from nmt.serving.doubt import doubts
from nmt.serving.examples import examples
from nmt.serving.microscope import inspect, search_tree
from nmt.serving.model_process import EndedError
from nmt.storage import manifest
from nmt.translator import Translator
from recipes.page_examples import choose
from tests.conftest import make_settings
from tests.fixtures.make import TRAINED
from tests.serving.models import PAIRS, learnt_translator
from tests.serving.served import ask, served


@pytest.fixture(scope="module")
def translator(tiny_data, tmp_path_factory) -> Translator:
    config = make_settings(tiny_data, tmp_path_factory.mktemp("telling"), decoding__beam=4)
    return learnt_translator(config, tiny_data)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A writable copy of the small trained run."""
    shutil.copytree(TRAINED / "run", tmp_path / "run", copy_function=shutil.copyfile)
    return tmp_path / "run"


@pytest.mark.parametrize("text", ["A dog sleeps.", "The child buys two apples."])
def test_alternatives_are_whole_words_and_one_of_them_stands(translator, text):
    """At every word, one alternative leads to the given translation, and no word is truncated."""
    target = translator.translate(text).text
    places = [i for i in range(len(target)) if target[i - 1 : i] in ("", " ")]
    for place in [*places, len(target)]:
        prefix = target[:place].strip()
        rows = alternatives(translator, text, prefix, target)
        [standing] = [row for row in rows if row["stands"]]
        assert standing["text"] + standing["follows"] == target
        assert standing["ends"] == (place == len(target))
        probabilities = [row["probability"] for row in rows]
        assert probabilities == sorted(probabilities, reverse=True)
        assert len({(row["text"], row["ends"]) for row in rows}) == len(rows)
        for row in rows:
            assert row["text"].startswith(prefix) and "\ufffd" not in row["text"]
            new = row["text"][len(prefix) :]
            assert row["ends"] or not (prefix[-1:].isalnum() and new[:1].isalnum())  # "wohnt" + "t"
            if new[-1:].isalnum():  # shown as a whole word
                assert not row["follows"][:1].isalnum(), row


def test_alternatives_over_http(translator):
    text = next(iter(PAIRS))
    question = {"text": text, "prefix": "Der", "target": PAIRS[text], "k": 5}
    with served(translator) as port:
        status, answer = ask(port, "/api/alternatives", question)
        assert (status, answer["alternatives"]) == (
            200, alternatives(translator, text, "Der", PAIRS[text], 5),
        )  # fmt: skip
        assert ask(port, "/api/alternatives", question | {"k": 21})[0] == 400


def translation(text: str, pieces: list[str], probability: float = 0.9) -> Translation:
    logs = [float(np.log(probability))] * len(pieces)
    return Translation(text, 0.0, sum(logs), [5] * len(pieces), 1, None, pieces, logs)


@pytest.mark.parametrize(
    ("source", "found", "expected"),
    [
        ("The man reads.", translation("Der Mann liest.", ["▁Der", "▁Mann"]), []),
        ("The man reads.", translation("Der Mann liest.", ["▁Der", "▁Mann"], 0.49), ["unsure"]),
        ("The man reads.", translation("", ["</s>"]), ["empty"]),
        (" ", translation("", []), []),
        ("The man.", translation("der der der der Mann", ["▁der"]), ["repeats"]),
        ("no no no no", translation("nein nein nein nein", ["▁nein"]), []),
        ("漢字", translation("漢字", [f"<0x{b:02X}>" for b in "漢字".encode()]), ["bytes"]),
        ("é", translation("Das ist é.", ["▁Das", "▁ist", "<0xC3>", "<0xA9>", "."]), []),
    ],
)
def test_doubts(source, found, expected):
    assert doubts(source, found) == expected


def test_doubts_are_told_of_each_sentence(translator, monkeypatch):
    monkeypatch.setattr("nmt.serving.doubt._UNSURE", 2.0)  # any translation
    with served(translator) as port:
        question = {"text": "A dog sleeps. Where does he live?", "document": True}
        [found] = ask(port, "/api/translate", question)[1]["translations"]
        assert [each["doubts"] for each in found["sentences"]] == [["unsure"]] * 2


def test_what_a_model_is(run, translator):
    loaded = Translator.load(run)
    found = about(loaded)
    content = manifest.read(run / "model", "model")
    assert found["name"] == "run" and not found["demo"]
    assert found["bleu"]["score"] == content["validation"]["bleu"]
    assert found["bleu"]["on"] == "validation set" and found["bleu"]["signature"]
    assert found["parameters"] == info(loaded.config)["parameters"]["total"]
    assert found["model"]["encoder_layers"] and found["model"]["label_smoothing"] == 0.1
    often = "4 sentence pairs from text files (each 2 times per epoch)"
    assert found["trained_on"] == f"14 sentence pairs from text files and {often}"
    tuned = loaded.config.training.model_copy(update={"initialize_from": "runs/secret"})
    loaded.config = loaded.config.model_copy(update={"training": tuned})
    assert about(loaded)["trained_on"] == f"{found['trained_on']}, starting from another model"
    evaluation = run / "evaluation"
    evaluation.mkdir(exist_ok=True)
    scores = {"model_sha256": content["sha256"], "scores": {"bleu": 12.5, "bleu_signature": "x"}}
    (evaluation / "test.json").write_text(json.dumps(scores))
    expected = {"score": 12.5, "signature": "x", "on": "test set"}
    assert about(Translator.load(run))["bleu"] == expected
    (evaluation / "test.json").write_text(json.dumps(scores | {"model_sha256": "another's"}))
    assert about(Translator.load(run))["bleu"]["on"] == "validation set"
    with served(translator) as port:  # a model without a run
        told = ask(port, "/api/model")[1]
        assert told["source"] == {"code": "en", "name": "English"} and told["microscope"]
        assert told["bleu"] is None and told["examples"] == [] and told["characters"] == 20_000
        question = {"text": told["opening"]["text"], "document": True}
        assert [told["opening"]["translation"]] == ask(port, "/api/translate", question)[1][
            "translations"
        ]


def test_an_opening_that_was_not_translated_is_translated_later(translator, monkeypatch):
    translate, errors = routes._translations, [EndedError(), HTTPException(503, "busy")]

    async def at_the_third_request(*question):
        if errors:
            raise errors.pop()
        return await translate(*question)

    monkeypatch.setattr(routes, "_translations", at_the_third_request)
    with served(translator) as port:
        answers = [ask(port, "/api/model") for _ in range(4)]
    assert [status for status, _ in answers] == [503, 503, 200, 200]
    assert answers[2][1]["opening"] and answers[2] == answers[3]


def test_examples_show_what_they_promise(run, capsys):
    """Each example has the property of its kind, and the server finds the examples in the run."""
    choose.main([str(run)])
    translator = Translator.load(run)
    told = about(translator)
    assert told["examples"] and told["opening"]
    kinds = [each["kind"] for each in told["examples"]]
    assert len({*kinds}) == len(kinds) == len(capsys.readouterr().out.splitlines())
    more = examples(translator, (TRAINED / "train.en").read_text().splitlines()[:6])
    for each in told["examples"] + more["examples"]:
        assert SHOWS[each["kind"]](translator, each["text"]), each
    found = examples(translator, ["", "a b"])
    assert found == {"opening": None, "examples": []}


def first_by_alpha(translator: Translator, text: str, alpha: float) -> str:
    finished = search_tree(translator, text)["finished"]
    score = {each["text"]: each["log_probability"] / length_penalty(each["length"], alpha)
             for each in finished}  # fmt: skip
    return max(score, key=lambda one: score[one])


def has_close_words(token: dict) -> bool:
    [best, second] = token["likeliest"][:2]
    is_word = best["piece"][0] == second["piece"][0] == "▁"
    return is_word and 0.2 < second["probability"] > best["probability"] - 0.1


SHOWS = {
    "alpha": lambda t, text: first_by_alpha(t, text, 0) != first_by_alpha(t, text, 2),
    "beam": lambda t, text: (
        t.translate(text, SearchOptions(beam=1)).text
        != t.translate(text, SearchOptions(beam=4)).text
    ),
    "bytes": lambda t, text: any(
        token["piece"].startswith("<0x") for token in inspect(t, text)["target"]["tokens"]
    ),
    "order": lambda t, text: any(
        b - d >= 3
        for (a, b), (c, d) in permutations(t.translate(text, align=True).alignment, 2)
        if a < c
    ),
    "ambiguous": lambda t, text: has_close_words(
        min(inspect(t, text)["target"]["tokens"], key=lambda token: token["log_probability"])
    ),
}  # fmt: skip


def test_long_answers_are_compressed_for_those_who_read_it(translator):
    question = json.dumps({"text": "The man reads a book."}).encode()
    headers = {"content-type": "application/json"}
    with served(translator) as port:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/api/inspect", question, headers)
        plain = connection.getresponse()
        whole = plain.read()
        connection.request("POST", "/api/inspect", question, headers | {"accept-encoding": "gzip"})
        answer = connection.getresponse()
        packed = answer.read()
        connection.close()
    assert plain.headers["content-encoding"] is None and answer.headers["vary"]
    assert answer.headers["content-encoding"] == "gzip" and gzip.decompress(packed) == whole
    assert 3 * len(packed) < len(whole)
