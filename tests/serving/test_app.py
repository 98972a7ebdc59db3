"""HTTP answers: results, refused requests with reasons, and what the server stores."""

import gzip
import json
import re
import threading
from http.client import HTTPConnection

import pytest

from nmt.decoding.translation import Translation
from nmt.serving.app import create_app
from nmt.serving.batcher import Batcher
from nmt.serving.model_process import _n_best
from nmt.serving.translating import _whole
from nmt.translator import SearchOptions, Translator
from tests.fixtures.make import TRAINED
from tests.patience import wait_until
from tests.serving.served import Here, Shouting, ask, served


@pytest.fixture(scope="module")
def shouting():
    """The port of a server without a model."""
    with served(Shouting()) as port:
        yield port


@pytest.fixture(scope="module")
def real():
    """A translator and the port of its server."""
    translator = Translator.load(TRAINED / "run", device="cpu", precision="fp32")
    with served(translator) as port:
        yield translator, port


def test_probes_and_figures(shouting: int):
    assert ask(shouting, "/health") == (200, {"status": "ok"})
    assert ask(shouting, "/ready") == (200, {"status": "ready"})
    assert ask(shouting, "/api/translate", {"text": "a secret"})[0] == 200
    assert ask(shouting, "/secret/path")[0] == 404
    status, figures = ask(shouting, "/metrics")
    assert status == 200 and "secret" not in figures
    found = dict(re.findall(r"^([^#\s]+) (\S+)$", figures, re.MULTILINE))
    assert float(found["nmt_ready"]) == 1 and float(found["nmt_waiting_requests"]) == 0
    assert float(found["nmt_texts_total"]) >= 1
    assert float(found['nmt_requests_total{path="/api/translate",status="200"}']) >= 1
    assert float(found['nmt_requests_total{path="other",status="404"}']) >= 1


def test_a_server_without_its_model_lives_but_is_not_ready():
    loads = threading.Event()

    class Late(Here):
        def start(self):
            loads.wait(60)
            return super().start()

    app = create_app([lambda: Late(Shouting())])
    from starlette.testclient import TestClient

    with TestClient(app) as client:
        assert client.get("/health").status_code == 200
        for path in ("/ready", "/languages"):
            answer = client.get(path)
            assert answer.status_code == 503 and "loading" in answer.json()["error"]
            assert answer.headers["retry-after"]
        assert client.post("/api/translate", json={"text": "a"}).status_code == 503
        loads.set()
        wait_until(lambda: client.get("/ready").status_code == 200)
    assert client.get("/ready").status_code == 503  # the model process has ended


def test_a_dead_thread_is_no_life(monkeypatch):
    monkeypatch.setattr(Batcher, "has_died", True)
    with served(Shouting()) as port:
        assert ask(port, "/health")[0] == 503


def test_texts_are_translated_as_the_library_does(real):
    translator, port = real
    texts = ["The dog sees a cat.", "", "A man\tsleeps.", "The old woman reads."]
    status, answer = ask(port, "/api/translate", {"texts": texts, "n_best": 2, "beam": 3})
    assert status == 200
    expected = translator.n_best(texts, SearchOptions(beam=3, n_best=2))
    for found, best in zip(answer["translations"], expected, strict=True):
        assert found["text"] == best[0].text and found["score"] == pytest.approx(best[0].score)
        assert [each["text"] for each in found["alternatives"]] == [each.text for each in best[1:]]
    status, answer = ask(port, "/api/translate", {"text": texts[0], "prefix": "Eine"})
    assert answer["translations"][0]["text"] == translator.translate(texts[0], prefix="Eine").text


def test_a_glossary_is_kept_or_told(real):
    translator, port = real
    terms = {"dog": "Dackel", "cat": " ".join(["Katze"] * 60)}
    asked = {"text": "The dog sleeps. A cat sees the dog.", "document": True, "glossary": terms}
    status, answer = ask(port, "/api/translate", asked)
    assert status == 200
    found = answer["translations"][0]
    options = SearchOptions(glossary=terms)
    [first], [second] = translator.n_best(["The dog sleeps.", "A cat sees the dog."], options)
    assert found["text"] == f"{first.text} {second.text}" and found["text"].count("Dackel") == 2
    unmet = [sentence["unmet_terms"] for sentence in found["sentences"]]
    assert unmet == [[], [["cat", terms["cat"]]]]
    for wrong in ({"a": ""}, {"a": 1}, "terms.tsv", ["a"]):
        assert ask(port, "/api/translate", {"text": "a", "glossary": wrong})[0] == 400


def test_a_document_keeps_its_lines_and_says_where_sentences_stand(real):
    translator, port = real
    text = "\n  The dog sees a cat. A man sleeps.\r\n\r\nThe old woman reads.\n"
    sentences = ["The dog sees a cat.", "A man sleeps.", "The old woman reads."]
    asked = {"text": text, "document": True}
    found = ask(port, "/api/translate", asked)[1]["translations"][0]
    first, second, third = (each.text for each in translator.translate(sentences))
    assert found["text"] == f"\n  {first} {second}\r\n\r\n{third}\n"
    for sentence, source, target in zip(
        found["sentences"], sentences, (first, second, third), strict=True
    ):
        assert text[slice(*sentence["source"])] == source
        assert found["text"][slice(*sentence["target"])] == target
    lines = ask(port, "/api/translate", {"text": text})[1]["translations"][0]["sentences"]
    assert len(lines) == 2


def test_probabilities_and_attention_belong_to_the_pieces(real):
    translator, port = real
    asked = {"text": "The dog sees a cat.", "token_probabilities": True, "attention": True}
    [sentence] = ask(port, "/api/translate", asked)[1]["translations"][0]["sentences"]
    best = translator.translate("The dog sees a cat.")
    values = [each["log_probability"] for each in sentence["tokens"]]
    assert sum(values) == pytest.approx(best.log_probability, abs=1e-4)
    assert [each["piece"] for each in sentence["tokens"]] == translator.tokenizer.pieces(
        best.tokens
    )
    attention = sentence["attention"]
    assert attention["target"] == [each["piece"] for each in sentence["tokens"]]
    assert attention["source"][-1] == "</s>"
    for row in attention["weights"]:
        assert len(row) == len(attention["source"]) and sum(row) == pytest.approx(1, abs=1e-2)


def test_a_sentence_in_parts_has_token_probabilities_but_no_attention(real):
    translator, port = real
    text = "A dog sleeps. " * 16
    asked = {"text": text, "token_probabilities": True, "attention": True}
    [sentence] = ask(port, "/api/translate", asked)[1]["translations"][0]["sentences"]
    best = translator.translate(text.strip())
    assert best.parts > 1 and [each["piece"] for each in sentence["tokens"]] == best.pieces
    assert sentence["attention"] == {"source": [], "target": [], "weights": []}


def test_a_model_process_sends_the_attention_of_the_best_translation_alone(real):
    translator, _ = real
    options = SearchOptions(n_best=3, attention=True)
    [[best, *others]] = _n_best(translator, ["The dog sees a cat."], options, [""], lambda n: None)
    assert best == translator.translate("The dog sees a cat.", attention=True)
    assert [each.attention for each in others] == [None, None]


def test_next_tokens(real):
    translator, port = real
    question = {"text": "The dog sees a cat.", "prefix": "Der", "k": 3}
    status, answer = ask(port, "/api/next_tokens", question)
    expected = translator.next_tokens("The dog sees a cat.", "Der", 3)
    assert status == 200
    assert [each["text"] for each in answer["tokens"]] == [each.text for each in expected]


WRONG = [
    (b"", "The request body is empty"), (b"{", "not valid JSON at line 1, column 2: Expecting"),
    (b"\xff\xfe\xfa", "not UTF-8: byte 0 is invalid"), (b"[" * 100_000, "is not valid JSON."),
    (gzip.compress(b"{}"), "The request body is not UTF-8: byte 1 is invalid."),
    (b"1" * 10_000, "is not valid JSON."), (b'{"text": "\xe4"}', "byte 10 is invalid"),
    ([], "The request body must be a JSON object."),
    ({"text": 1}, "text must be a string"), ({"text": "a", "texts": ["a"]}, "either"),
    ({}, "Specify either text or texts"), ({"q": "a"}, "Unknown field 'q'. Supported fields: "),
    ({"q": "a"}, "fields: text, texts, document, beam, n_best,"),
    ({"text": "a", "nbest": 3}, "Unknown field 'nbest'. Did you mean n_best?"),
    ({"text": "a", "beam": 0}, "beam must be at least 1."),
    ({"text": "a", "glossary": "library=x"}, "glossary must be an object."),
    ({"text": "a", "glossary": {"library": 1}}, "glossary.library must be a string."),
    ({"text": "a", "beam": 17}, "beam must be at most 16"),
    ({"text": "a", "beam": True}, "beam must be"),
    ({"text": "a", "n_best": 17}, "n_best must be at most 16"),
    (b'{"text": "a", "length_penalty": NaN}', "length_penalty must be a finite number."),
    ({"text": "a", "length_penalty": -1}, "length_penalty must be at least 0."),
    ({"text": "a", "length_penalty": 101}, "length_penalty must be at most 100."),
    ({"text": "a" * 20_001}, "at most 20,000 characters"),
    ({"text": "a", "prefix": "a" * 20_000}, "at most 20,000 characters"),
    ({"texts": [""] * 257}, "at most 256 texts"), ({"texts": ["a"] * 300_000}, "exceeds"),
    ({"texts": ["good", "wrong"]}, "too long, prefix, shorten it"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "reason"), WRONG, ids=range(len(WRONG)))
def test_wrong_questions_are_refused_with_the_reason(shouting: int, question, reason: str):
    status, answer = ask(shouting, "/api/translate", question)
    size = len(question if isinstance(question, bytes) else json.dumps(question))
    assert status == (413 if size > 1_000_000 else 400)
    assert reason in answer["error"] and answer.keys() == {"error"}


def test_pages_and_probes_have_heads(shouting: int):
    for path in ("/", "/inside.js", "/health", "/ready", "/metrics"):
        connection = HTTPConnection("127.0.0.1", shouting)
        connection.request("HEAD", path)
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read() == b""
        assert int(answer.headers["content-length"]) > 0
        connection.close()
    assert ask(shouting, "/health/")[0] == 404  # no redirect


def test_other_refusals(shouting: int):
    form = {"content_type": "application/x-www-form-urlencoded"}  # curl's default
    for path, headers, expected, reason in (
        ("/api/translate", {"content_type": "text/plain"}, 415, "Content-Type must be"),
        ("/api/translate", {"content_type": ""}, 415, "-H 'Content-Type: application/json'"),
        ("/api/translate", form, 415, "Content-Type must be application/json."),
        ("/translate", form, 415, "The request body is JSON, but Content-Type"),
        ("/translate", {"content_type": "multipart/form-data; boundary=x"}, 415, "must be"),
        ("/nothing", {}, 404, "GET /openapi.json"),
        ("/translate/", {}, 404, "Remove the slash at the end."),
        ("/health", {}, 405, "does not support POST. Use GET"),
    ):
        status, answer = ask(shouting, path, {"text": "a"}, **headers)
        assert status == expected and answer.keys() == {"error"}
        assert reason in answer["error"]
    assert ask(shouting, "/translate") == (
        405,
        {"error": "/translate does not support GET. Use POST."},
    )
    for path in ("/docs", "/redoc", "/../../etc/passwd", "/%2e%2e/server.py", "/page/", "/app.py"):
        assert ask(shouting, path)[0] == 404


def test_a_long_line_is_queued_in_parts_and_lets_others_pass():
    """Another test, with a real model, compares the translation with the library's."""
    translator, answers = Shouting(), {}

    def client(text: str):
        answers[text] = ask(port, "/api/translate", {"text": text, "document": True})

    with served(translator) as port:
        translator.free.clear()
        long = "a " * 9990
        threads = [threading.Thread(target=client, args=(text,)) for text in (long, "short")]
        threads[0].start()
        wait_until(lambda: translator.batches)
        threads[1].start()
        wait_until(lambda: "nmt_waiting_requests 2.0" in ask(port, "/metrics")[1])
        translator.free.set()
        for thread in threads:
            thread.join()
    assert answers[long][1]["translations"][0]["text"].split() == ["A"] * 9990
    place = [number for number, batch in enumerate(translator.batches) if "short" in batch]
    assert place[0] < len(translator.batches) - 1 > 1  # before the end of the long line
    assert max(len(text.split()) for batch in translator.batches for text in batch) <= 100


@pytest.mark.parametrize("piece", ["A dog sleeps. ", "dog ", "x"])
def test_a_long_line_is_translated_as_the_library_does(real, piece: str):
    translator, port = real
    text = (piece * 60)[:240].strip()
    assert len(translator.tokenizer.encode(text)) > translator.max_part
    status, answer = ask(port, "/api/translate", {"text": text, "n_best": 2, "prefix": "Der"})
    [best, *_] = translator.n_best([text], SearchOptions(n_best=2), prefix="Der")[0]
    found = answer["translations"][0]
    assert status == 200 and found["text"].startswith("Der")
    if piece != "x":  # "x" is split between characters, not between tokens
        assert found["text"] == best.text and found["score"] == pytest.approx(best.score)


def test_a_prefix_begins_the_first_sentence_alone():
    translator = Shouting()
    prefixes = []
    translator.n_best = lambda texts, *_, prefix, **__: (
        prefixes.extend(zip(texts, prefix, strict=True)) or Shouting().n_best(texts)
    )
    with served(translator) as port:
        ask(port, "/api/translate", {"text": "Yes. No.", "document": True, "prefix": "Ja"})
    assert dict(prefixes) == {"Yes.": "Ja", "No.": ""}


def test_a_failure_of_ours_is_told_without_text_and_harms_nobody_else():
    translator, notes = Shouting(), []
    with served(translator, notes) as port:
        translator.free.clear()
        answers: dict[str, tuple] = {}
        threads = [
            threading.Thread(
                target=lambda text=text: answers.update(
                    {text: ask(port, "/api/translate", {"text": text})}
                )
            )
            for text in ("good", "poison", "huge", "fine")
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: translator.batches)
        translator.free.set()
        for thread in threads:
            thread.join()
    assert {text: answer[0] for text, answer in answers.items()} == {
        "good": 200, "fine": 200, "poison": 500, "huge": 503,
    }  # fmt: skip
    assert answers["poison"][1] == {"error": "Internal error."}
    told = "\n".join(notes)
    assert "RuntimeError in _of" in told and "poison" not in told and "good" not in told


def test_a_full_queue_says_when_to_come_again():
    translator = Shouting()
    with served(translator, queue=2) as port:
        translator.free.clear()
        statuses: list[int] = []

        def client():
            statuses.append(ask(port, "/api/translate", {"text": "a"})[0])

        first = threading.Thread(target=client)
        first.start()
        wait_until(lambda: translator.batches)
        others = [threading.Thread(target=client) for _ in range(5)]
        for each in others:
            each.start()
        wait_until(lambda: len(statuses) == 3)
        assert statuses == [429] * 3
        connection = HTTPConnection("127.0.0.1", port)
        connection.request(
            "POST", "/translate", '{"q": "a", "source": "en", "target": "de"}',
            {"Content-Type": "application/json"},
        )  # fmt: skip
        answer = connection.getresponse()
        assert answer.status == 429 and 1 <= int(answer.headers["Retry-After"]) <= 60
        connection.close()
        assert ask(port, "/health")[0] == 200
        translator.free.set()
        for each in (first, *others):
            each.join()
    assert sorted(statuses) == [200] * 3 + [429] * 3


def test_who_waits_too_long_or_leaves_is_not_translated_for():
    translator = Shouting()
    with served(translator, answer_s=0.6) as port:
        translator.free.clear()
        first = threading.Thread(target=ask, args=(port, "/api/translate", {"text": "first"}))
        first.start()
        wait_until(lambda: translator.batches)
        gone = HTTPConnection("127.0.0.1", port)
        gone.request(
            "POST", "/api/translate", '{"text": "gone"}', {"Content-Type": "application/json"}
        )
        wait_until(lambda: "nmt_waiting_requests 1.0" in ask(port, "/metrics")[1])
        gone.close()
        wait_until(lambda: "nmt_waiting_requests 0.0" in ask(port, "/metrics")[1])
        status, answer = ask(port, "/api/translate", {"text": "late"})
        assert status == 503 and "No result within 0.6 s" in answer["error"]
        translator.free.set()
        first.join()
        assert ask(port, "/api/translate", {"text": "then"})[0] == 200
    assert translator.batches == [["first"], ["then"]]


def test_openapi_describes_every_call_and_nothing_comes_from_elsewhere(shouting: int):
    status, found = ask(shouting, "/openapi.json")
    assert status == 200
    calls = {"/translate", "/languages", "/detect", "/health", "/ready", "/metrics",
             "/frontend/settings", "/api/translate", "/api/next_tokens"}  # fmt: skip
    assert found["paths"].keys() >= calls
    body = found["paths"]["/api/translate"]["post"]["requestBody"]["content"]
    assert "prefix" in body["application/json"]["schema"]["properties"]
    connection = HTTPConnection("127.0.0.1", shouting)
    connection.request("GET", "/health")
    headers = connection.getresponse().headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff" and "server" not in headers
    connection.close()


def test_a_tag_that_each_part_repeats_is_no_word_too_many():
    found = [[Translation(each, -1.0, -1.0, [5, 2], 1)] for each in ("A", "B", "C")]
    [whole] = _whole("<2de> a b c", ["<2de> a", "<2de> b", "<2de> c"], found)
    assert whole.text == "A B C"


def test_alignments_of_parts_count_from_the_texts_first_word():
    found = [
        [Translation(each, -1.0, -1.0, [5, 2], 1, alignment=[(0, 1), (1, 0)])]
        for each in ("B A", "D C")
    ]
    [whole] = _whole("a b c d", ["a b", "c d"], found)
    assert whole.alignment == [(0, 1), (1, 0), (2, 3), (3, 2)]
