"""Calls of a Translator: details, alternatives, scores and streams."""

import copy
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from nmt.data.pair import Pair
from nmt.decoding.options import SearchSettings
from nmt.decoding.score import log_probabilities
from nmt.documents.markup import translate_markup
from nmt.errors import ArgumentError
from nmt.evaluation.attention_maps import attention_of
from nmt.model.special_ids import EOS_ID
from nmt.translator import SearchOptions, Translator
from tests.fixtures.make import TRAINED
from tests.patience import PATIENCE_S

TEXTS = ["The dog sees a cat.", "", "A child reads.", "Dogs."]
LONG = "The cat is big. " * 12
RUN = TRAINED / "run"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(RUN, device="cpu")


@pytest.fixture(scope="module")
def ensemble() -> Translator:
    """An ensemble of the model and a variant with another embedding."""
    loaded = Translator.load(RUN, ensemble=[RUN], device="cpu")
    with torch.no_grad():
        embedding = loaded.transformers[1].embedding
        embedding += 0.1 * torch.randn(embedding.shape, generator=torch.Generator().manual_seed(1))
    return loaded


@pytest.mark.parametrize("which", ["translator", "ensemble"])
@pytest.mark.parametrize(
    "settings",
    [
        {"beam": 1},
        {"n_best": 3, "beam": 4, "length_penalty": 0.0},
        {"sample": True, "n_best": 3},
        {"mbr": 8, "n_best": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("prefix", ["", "Der"])
def test_each_token_has_the_models_log_probability(
    request: pytest.FixtureRequest, which: str, settings: dict, prefix: str
):
    model: Translator = request.getfixturevalue(which)
    translations = model.translate(TEXTS, prefix=prefix, **settings)
    assert any(best.alternatives for best in translations) == ("n_best" in settings)
    for text, best in zip(TEXTS, translations, strict=True):
        for found in [best, *best.alternatives]:
            assert found.pieces == model.tokenizer.pieces(found.tokens)
            assert sum(found.token_log_probabilities) == pytest.approx(found.log_probability)
            if not text:
                continue
            pair = Pair(
                np.array([*model.tokenizer.encode(model.tokenizer.normalize(text)), EOS_ID]),
                np.array(found.tokens),
            )
            of_models = [log_probabilities(each, [pair])[0] for each in model.transformers]
            expected = np.log(np.exp(of_models).mean(0))
            assert found.token_log_probabilities == pytest.approx(expected, abs=1e-4)


def test_an_ensemble_scores_as_it_translates(ensemble: Translator):
    found = ensemble.translate(TEXTS[0], prefix="Der Hund")
    scored = ensemble.score([TEXTS[0]], [found.text])[0]
    assert scored.pieces == found.pieces  # the tokenizer splits the text in the same way
    assert scored.log_probabilities == pytest.approx(found.token_log_probabilities, abs=1e-4)


def test_parts_are_joined_with_all_their_details(translator: Translator):
    found = translator.translate(LONG, attention=True, align=True)
    assert found.parts > 1 and found.attention is not None and found.alignment
    assert len(found.attention) == found.parts
    assert [piece for part in found.attention for piece in part.target_pieces] == found.pieces
    assert len(found.token_log_probabilities) == len(found.tokens) == len(found.pieces)
    assert translator.translate(LONG).attention is None
    assert translator.translate(" ", attention=True).attention is None


def test_attention_is_that_of_the_last_layer(translator: Translator):
    for text in TEXTS[2:]:
        found = translator.translate(text, attention=True)
        [attention] = found.attention or []
        maps = attention_of(translator, text)
        assert attention.source_pieces == maps.source_pieces
        assert attention.target_pieces == maps.target_pieces == found.pieces
        assert np.allclose(attention.weights, maps.cross[-1].mean(0), atol=1e-6)


def test_one_text_is_scored_like_several_texts(translator: Translator):
    one = translator.score("The dog sees a cat.", "Der Hund sieht eine Katze.")
    assert translator.score(["The dog sees a cat."], ["Der Hund sieht eine Katze."]) == [one]
    for wrong in (("a", ["b"]), (["a"], "b"), (["a"], ["b", "c"])):
        with pytest.raises(ArgumentError, match=r"source.*target"):
            translator.score(*wrong)  # type: ignore[call-overload]


def test_a_stream_is_translated_in_order_and_read_lazily(translator: Translator):
    texts = [f"{text}\n" for text in TEXTS * 4]
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            yield texts[taken % len(texts)]
            taken += 1

    found = translator.stream(endless(), window=5, n_best=2)
    assert taken == 0
    some = [next(found) for _ in range(12)]
    assert taken < 15
    expected = translator.translate([text[:-1] for text in texts[:12]], n_best=2)
    assert [each.text for each in some] == [each.text for each in expected]
    others = [[other.text for other in each.alternatives] for each in some]
    assert others == [[other.text for other in each.alternatives] for each in expected]
    assert list(map(len, others[:2])) == [1, 0]  # the second text is blank
    assert list(translator.stream(iter([]))) == []


def test_texts_before_an_error_of_a_stream_are_translated(translator: Translator):
    def failing() -> Iterator[str]:
        yield from TEXTS[:2]
        raise OSError("gone")

    found = translator.stream(failing())
    assert [next(found).text for _ in range(2)] == [
        each.text for each in translator.translate(TEXTS[:2])
    ]
    with pytest.raises(OSError, match="gone"):
        next(found)


def test_a_stream_buffers_few_characters(translator: Translator, monkeypatch: pytest.MonkeyPatch):
    sizes = []

    def n_best(texts, *_, **__):
        sizes.append(sum(map(len, texts)))
        return [[] for _ in texts]

    monkeypatch.setattr(translator, "n_best", n_best)
    monkeypatch.setattr(translator, "translate", n_best)
    list(translator.stream("x" * 1_000_000 for _ in range(10)))
    assert sizes == [4_000_000, 4_000_000, 2_000_000]


def test_numbers_of_any_kind(translator: Translator):
    half = Fraction(1, 2)
    found = translator.translate(TEXTS[0], sample=True, temperature=half, top_p=half)  # type: ignore[arg-type]
    assert found == translator.translate(TEXTS[0], sample=True, temperature=0.5, top_p=0.5)


def test_wrong_arguments_of_a_stream_are_reported_at_once(translator: Translator):
    for problem, call in {
        "texts must be an iterable": lambda: translator.stream("The dog sees a cat."),
        "window .*not 0": lambda: translator.stream([], window=0),
        "window .*not 1.5": lambda: translator.stream([], window=1.5),  # type: ignore[arg-type]
        "prefix must be a single string": lambda: translator.stream([], prefix=["Der"]),  # type: ignore[arg-type]
        "n_best 9 exceeds beam 3": lambda: translator.stream([], n_best=9),
    }.items():
        with pytest.raises(ArgumentError, match=problem):
            call()
    assert list(translator.stream([], window=np.int64(1))) == []  # type: ignore[arg-type]


TEXT = "The dog sees a cat."


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda t: t.translate(None), "^text must be .*, not NoneType"),
        (lambda t: t.translate(b"ab"), "^text must be .*, not bytes"),
        (
            lambda t: t.translate([TEXT, None]),
            "Item 2 of text must be .*, not NoneType",
        ),
        (lambda t: t.translate([[TEXT]]), "Item 1 of text must be .*, not list"),
        (lambda t: t.translate({TEXT: 1}), "^text must be .*, not dict"),
        (lambda t: t.translate({TEXT}, document=True), "^text must be .*, not set"),
        (lambda t: t.score([TEXT], frozenset([TEXT])), "^targets must be .*, not frozenset"),
        (lambda t: t.n_best(TEXT), "sentences must be .*, not str"),
        (lambda t: t.n_best([TEXT], {"beam": 2}), "must be a SearchOptions object, not dict"),
        (lambda t: t.translate(TEXT, {"beam": 2}), "must be a SearchOptions object, not dict"),
        (lambda t: translate_markup(t, TEXT), "texts must be a list of strings, not str"),
        (lambda t: t.translate(TEXT, prefix=None), "prefix must be .*, not NoneType"),
        (lambda t: t.translate(TEXT, prefix=None, document=True), "prefix must .*, not NoneType"),
        (lambda t: t.translate([TEXT], prefix=[b"x"]), "Item 1 of prefix must be .*, not bytes"),
        (lambda t: next(t.stream([b"ab"])), "texts must be .*, not bytes"),
        (lambda t: t.score(None, None), "sources must be .*, not NoneType"),
        (lambda t: t.score(["a"], [1]), "Item 1 of targets must be .*, not int"),
        (lambda t: t.next_tokens([TEXT]), "text must be .*, not list"),
        (lambda t: t.next_tokens(TEXT, ["a"]), "prefix must be .*, not list"),
        (lambda t: t.next_tokens(TEXT, k=1.5), r"k must be .*, not 1\.5"),
        (lambda t: t.next_tokens(TEXT, k=True), r"k must be .*, not True"),
        (lambda t: t.load(RUN, precision="fp64"), "Unknown precision fp64. Choose one of: fp32"),
        (lambda t: t.load(RUN, ensemble=str(RUN)), "ensemble must be a list"),
        (lambda t: t.load(RUN, device=1.5), r"device 1\.5 is not available"),
    ],
)
def test_an_error_about_a_value_that_is_not_text_names_the_parameter(
    translator: Translator, call, problem: str
):
    with pytest.raises(ArgumentError, match=problem):
        call(translator)
    assert [each.text for each in translator.translate(each for each in [""])] == [""]


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        *((name, value, "a whole number") for name in ("beam", "mbr", "top_k", "seed", "n_best")
          for value in ("3", 2.5, True, [2])),
        ("n_best", None, "a whole number"),
        ("no_repeat_ngram", 2.0, "a whole number"), ("batch_tokens", float("nan"), "a whole"),
        ("length_penalty", "0.6", "a number"), ("temperature", False, "a number"),
        ("top_p", [1], "a number"),
        ("sample", "no", "true or false"), ("align", None, "true or false"),
    ],
)  # fmt: skip
def test_an_option_of_a_wrong_type_is_reported(name: str, value: object, wanted: str):
    with pytest.raises(ArgumentError, match=rf"^{name} must be {wanted}.*, not "):
        SearchOptions(**{name: value})  # type: ignore[arg-type]


def test_numbers_may_be_numpy_scalars(translator: Translator):
    numpy = SearchOptions(beam=np.int64(2), length_penalty=np.float64(0.5), n_best=np.int32(2))
    same = SearchOptions(beam=2, length_penalty=0.5, n_best=2)
    assert translator.translate(TEXT, numpy) == translator.translate(TEXT, same)


def test_single_settings_override_options(translator: Translator):
    options = SearchOptions(beam=1, length_penalty=2.0)
    expected = translator.translate(TEXTS, replace(options, beam=3))
    assert translator.translate(TEXTS, options, beam=3) == expected
    assert translator.translate(TEXTS, options) != expected


def test_settings_are_the_options_by_name():
    given = {each.name: each.type for each in fields(SearchOptions)}
    assert given == SearchSettings.__annotations__


def test_threads_get_the_same_results_as_one_thread(translator: Translator):
    texts = [f"{text} {more}" for text in TEXTS[2:] for more in TEXTS]
    expected = [translator.translate(text, n_best=2, align=True) for text in texts]
    scores = [translator.score(text, "Ein Kind.") for text in texts]
    following = [translator.next_tokens(text, "Ein") for text in texts]
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda text: translator.translate(text, n_best=2, align=True), texts)
        scored = threads.map(lambda text: translator.score(text, "Ein Kind."), texts)
        followed = threads.map(lambda text: translator.next_tokens(text, "Ein"), texts)
        assert (list(found), list(scored), list(followed)) == (expected, scores, following)


def test_threads_compute_one_at_a_time(translator: Translator, monkeypatch: pytest.MonkeyPatch):
    inside, most = 0, 0
    counting = threading.Lock()
    kind = type(translator.transformer)
    embed = kind.embed  # all three methods call it

    def slow(*arguments):
        nonlocal inside, most
        with counting:
            inside += 1
            most = max(most, inside)
        time.sleep(0.002)
        with counting:
            inside -= 1
        return embed(*arguments)

    monkeypatch.setattr(kind, "embed", slow)
    with ThreadPoolExecutor(3) as threads:
        for _ in range(5):
            threads.submit(translator.translate, TEXTS[0])
            threads.submit(translator.score, TEXTS[0], TEXTS[2])
            threads.submit(translator.next_tokens, TEXTS[0])
    assert most == 1


def test_a_forked_process_is_refused_even_while_a_thread_translates(translator: Translator):
    held, done = threading.Event(), threading.Event()

    def translate() -> None:
        with translator._one_at_a_time:
            held.set()
            done.wait(PATIENCE_S)

    thread = threading.Thread(target=translate)
    thread.start()
    held.wait(PATIENCE_S)
    if not (child := os.fork()):
        signal.alarm(20)  # ends the child if it waits for the lock
        calls = (
            lambda: translator.translate("A child reads."),
            lambda: translator.translate(["A child reads."], document=True),
            lambda: next(translator.stream(["A child reads."])),
            lambda: translator.next_tokens("A child reads."),
            lambda: translator.score("A child reads.", "Ein Kind liest."),
        )
        refused = 0
        for call in calls:
            with suppress(ArgumentError):
                call()
                continue
            refused += 1
        os._exit(refused)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 5


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_translator_is_not_pickled_or_copied(translator: Translator, duplicate):
    with pytest.raises(ArgumentError, match="cannot be pickled or copied"):
        duplicate(translator)


def test_the_default_dtype_of_the_program_does_not_matter():
    expected = Translator.load(TRAINED / "run", precision="fp32").translate("the man").text
    torch.set_default_dtype(torch.float64)
    try:
        found = Translator.load(TRAINED / "run", precision="fp32").translate("the man").text
    finally:
        torch.set_default_dtype(torch.float32)
    assert found == expected
