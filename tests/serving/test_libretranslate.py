"""LibreTranslate's calls, as its clients make them."""

import threading
from urllib.parse import urlencode

import pytest

from nmt.documents.markup import Markup
from nmt.serving import libretranslate, routes
from tests.serving.served import Shouting, ask, served

FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def port():
    with served(Shouting()) as port:
        yield port


def question(q="Yes. No.", **more):
    return {"q": q, "source": "en", "target": "de"} | more


def test_one_text_and_several(port: int):
    assert ask(port, "/translate", question()) == (200, {"translatedText": "YES. NO."})
    assert ask(port, "/translate", question(["a", "", "b\n\nc"])) == (
        200,
        {"translatedText": ["A", "", "B\n\nC"]},
    )
    assert ask(port, "/translate", question([])) == (200, {"translatedText": []})
    assert ask(port, "/translate", question(source="EN", target="De"))[0] == 200


def test_a_form_is_as_good_as_json(port: int):
    form = urlencode(question("Grüße & more\nlines", api_key="x", format="text")).encode()
    found = ask(port, "/translate", form, content_type=f"{FORM}; charset=utf-8")
    assert found == (200, {"translatedText": "GRÜSSE & MORE\nLINES"})
    form = urlencode({"q": ["a", "b"], "source": "en", "target": "de"}, doseq=True).encode()
    assert ask(port, "/translate", form, content_type=FORM)[1] == {"translatedText": ["A", "B"]}
    there = "/translate?" + urlencode(question("Grüße & more"))
    assert ask(port, there, b"", content_type="")[1] == {"translatedText": "GRÜSSE & MORE"}
    assert ask(port, "/api/translate?text=a", b"", content_type="")[0] == 415
    for broken in (b"q=%FF&source=en&target=de", b"&".join([b"q=a"] * 400), b"\xff"):
        assert ask(port, "/translate", broken, content_type=FORM)[0] == 400


def test_tags_of_html_stay(port: int):
    asked = question(["<p>Yes &amp; <b>no</b>.</p>", "a"], format="html", alternatives=1)
    assert ask(port, "/translate", asked) == (
        200,
        {
            "translatedText": ["<p>YES &amp; <b>NO</b>.</p>", "A"],
            "alternatives": [["<p>YES &amp; <b>NO</b>.!</p>"], ["A!"]],
        },
    )


def test_alternatives_and_detection(port: int):
    asked = question("a", alternatives=2, source="auto")
    assert ask(port, "/translate", asked) == (
        200,
        {
            "translatedText": "A",
            "detectedLanguage": {"confidence": 0.0, "language": "en"},
            "alternatives": ["A!", "A!!"],
        },
    )
    several = ask(port, "/translate", asked | {"q": ["a", "b"]})[1]
    assert several["alternatives"] == [["A!", "A!!"], ["B!", "B!!"]]
    assert len(several["detectedLanguage"]) == 2
    assert ask(port, "/detect", {"q": "a"}) == (200, [{"confidence": 0.0, "language": "en"}])


def test_languages_and_settings(port: int):
    assert ask(port, "/languages") == (
        200,
        [{"code": "en", "name": "English", "targets": ["de"]}],
    )
    settings = ask(port, "/frontend/settings")[1]
    assert settings["charLimit"] == 20_000 and settings["keyRequired"] is False
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


def test_an_exported_model_has_html_but_no_microscope(monkeypatch):
    monkeypatch.setattr(Shouting, "is_exported", True)
    monkeypatch.setattr(routes, "about", lambda translator: {"opening": None})
    with served(Shouting()) as port:
        assert ask(port, "/translate", question("<b>a</b>", format="html"))[0] == 200
        assert ask(port, "/api/model")[1]["microscope"] is False


def test_html_is_read_and_written_outside_the_event_loop(port: int, monkeypatch):
    threads, loop = [], []

    class Watched(Markup):
        def __init__(self, *arguments):
            threads.append(threading.current_thread())
            super().__init__(*arguments)

        def written(self, *arguments):
            threads.append(threading.current_thread())
            return super().written(*arguments)

    def parsed(*arguments, **more):
        loop.append(threading.current_thread())
        return original(*arguments, **more)

    original = libretranslate.parsed
    monkeypatch.setattr(libretranslate, "parsed", parsed)
    monkeypatch.setattr(libretranslate, "Markup", Watched)
    assert ask(port, "/translate", question("<b>a</b>", format="html"))[0] == 200
    assert len(threads) == 2 and not {*threads} & {*loop}


def test_a_beam_is_asked_for_only_where_the_models_is_too_narrow(port: int, monkeypatch):
    asked = []
    original = Shouting.n_best

    def watched(self, sentences, options=None, **more):
        asked.append(options.beam)
        return original(self, sentences, options, **more)

    monkeypatch.setattr(Shouting, "n_best", watched)
    for alternatives in (0, 3, 4):
        ask(port, "/translate", question("a", alternatives=alternatives))
    assert asked == [None, None, 5]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"source": "en", "target": "de"}, "q is missing"),
        (question(source="fr"), "'fr' is not supported. Supported: en."),
        (
            question(target="en"),
            "from en to 'en' is not supported. Supported target languages: de.",
        ),
        (question(target="<script>" * 9), "is not supported"),
        (question(format="odt"), "format must be 'text' or 'html'."),
        (question([1]), "q must be a string or a list of strings"),
        (question(alternatives=16), "alternatives must be at most 15"),
        (question(alternatives=-1), "alternatives must be at least 0."),
        (question(alternatives="x"), "alternatives must be a whole number."),
    ],
)
def test_what_cannot_be_done_is_said(port: int, asked: dict, reason: str):
    status, answer = ask(port, "/translate", asked)
    assert status == 400 and reason in answer["error"]


def test_a_model_of_several_directions_is_asked_by_its_symbols():
    translator = Shouting(symbols=["<2de>", "<2en>", "<other>"])
    with served(translator) as port:
        found = ask(port, "/languages")[1]
        assert {each["code"]: each["targets"] for each in found} == {"de": ["en"], "en": ["de"]}
        there = question("Aha. So.", source="de", target="en")
        assert ask(port, "/translate", there)[1] == {"translatedText": "<2EN> AHA. <2EN> SO."}
        assert ask(port, "/translate", there | {"format": "html"})[0] == 400
