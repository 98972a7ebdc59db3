"""The output and the workloads of `nmt benchmark translate`, and wrong arguments."""

import json
from pathlib import Path

import pytest

from nmt.benchmark import translating
from nmt.benchmark.flops import translation_flops
from nmt.benchmark.translating import forced, random_transformer
from nmt.cli import main
from nmt.translator import SearchOptions
from tests.fixtures.make import TRAINED

RUN = TRAINED / "run"
KEYS = {
    "sentences_per_second", "target_tokens_per_second", "flops_per_second", "sentence_seconds",
    "sentences", "source_tokens", "target_tokens", "passes", "peak_memory_bytes", "load_seconds",
    "first_translation_seconds", "ceiling_share", "ceilings", "beam", "precision", "lengths",
    "device", "torch",
}  # fmt: skip


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(translating, "_CPU_SENTENCES", 6)
    monkeypatch.setattr(translating, "_TOGETHER", 2)


@pytest.fixture
def config(settings, tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(settings(data__max_length=12).to_yaml())
    return str(path)


def found(capsys, *words: str) -> dict:
    assert main(["benchmark", "translate", *words, "--json", "--device", "cpu"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_what_json_holds_of_random_weights(precision: str, config: str, settings, capsys):
    speed = found(capsys, config, "--precision", precision)
    assert speed.keys() == KEYS | {"milliseconds_per_step"}
    assert (speed["sentences"], speed["lengths"], speed["beam"]) == (6, "forced", 2)
    assert speed["target_tokens"] == speed["source_tokens"] > 6 * 3
    assert (speed["load_seconds"], speed["precision"]) == (None, precision)
    assert speed["passes"]["timed"] == 3 == len(speed["passes"]["seconds"])
    assert list(speed["milliseconds_per_step"]) == ["1", "2"]
    ratio = speed["target_tokens_per_second"] / speed["sentences_per_second"]
    assert ratio == pytest.approx(speed["target_tokens"] / 6)
    best = speed["ceilings"]["best_flops_per_second"]
    assert speed["ceiling_share"] == pytest.approx(speed["flops_per_second"] / best)


def test_forced_translations_are_as_long_as_their_sources(settings):
    translator = forced(random_transformer(settings(), "cpu", None), settings())
    options = SearchOptions(beam=3)
    texts = ["7 8 9", "11", "5 " * 20]
    for text, best in zip(texts, translator.translate(texts, options), strict=True):
        assert len(best.tokens) == len(text.split()) + 1
        assert best.text == " ".join(map(str, best.tokens))
        assert max(best.tokens) < 400


def test_work_is_counted_of_each_sentence(config: str, settings, capsys, monkeypatch):
    counted = []

    def counting(model, size, source, target, beam):
        counted.append((sum(source), sum(target), beam))
        return translation_flops(model, size, source, target, beam)

    monkeypatch.setattr(translating, "translation_flops", counting)
    speed = found(capsys, config, "--beam", "4", "--sentences", "3")
    assert counted == [(speed["source_tokens"], speed["target_tokens"], 4)]


def test_a_model_with_drawn_sentences_and_with_a_text(tmp_path: Path, capsys):
    forced = found(capsys, str(RUN))
    assert forced["lengths"] == "forced" and forced["load_seconds"] > 0
    assert forced["target_tokens"] == forced["source_tokens"]
    text = tmp_path / "text"
    text.write_text("The dog sees a cat.\n\nThe man reads.\nThe dog reads.\n")
    natural = found(capsys, str(RUN), "--input", str(text), "--sentences", "2")
    assert natural.keys() == KEYS
    assert (natural["lengths"], natural["sentences"]) == ("natural", 2)  # the blank line is skipped


def test_the_table(config: str, capsys):
    assert main(["benchmark", "translate", config]) == 0
    said = capsys.readouterr().out
    for words in ("sentences per second", "decoding step, sentences: 1", "forced lengths", "GiB"):
        assert words in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("CONFIG --input CONFIG", " needs a trained model"),
        ("CONFIG --device tpu", "--device tpu is not available on this machine. Choose one of: "),
        ("CONFIG --device cuda", "--device cuda is not available"),
        ("CONFIG --beam 2000", "--beam: must be a whole number from 1 to 1,000, not 2000"),
        ("RUN model.heads=3", "Remove model.heads=3"),
        ("RUN --input nowhere", "nowhere does not exist"),
        ("RUN --input EMPTY", "contains no text to translate"),
        ("nowhere", "nowhere"),
    ],
)
def test_nonsense_is_refused_in_one_line(
    words: str, message: str, config: str, tmp_path: Path, capsys
):
    (tmp_path / "empty").write_text("\n \n\u200b\n")
    places = {"CONFIG": config, "RUN": str(RUN), "EMPTY": str(tmp_path / "empty")}
    assert main(["benchmark", "translate", *(places.get(w, w) for w in words.split())]) == 2
    said = capsys.readouterr().err
    assert message in said and said.startswith("nmt: error: ") and said.count("\n") == 1
