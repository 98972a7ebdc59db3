"""Scores, compared with the `sacrebleu` command; `nmt evaluate` with a fake model."""

import gzip
import json
import logging
import random
import re
import subprocess
import sys
import types
import urllib.error
from pathlib import Path

import pytest

from nmt.config import Config, validate
from nmt.data import kept_test_set
from nmt.demo_language import demo_pairs
from nmt.errors import ArgumentError, InputError, Status
from nmt.evaluation.bleu import bleu_interval, compare, score, ter
from nmt.evaluation.evaluate import evaluate
from nmt.evaluation.paper_bleu import CONVENTIONS, paper_bleu
from nmt.runs import model_directory
from nmt.runs.found_model import FoundModel
from nmt.storage import manifest
from nmt.translator import EMPTY, Translation, Translator

REFERENCES = [
    "The quick brown fox (a male) jumps over the lazy dog.",
    "Es regnet; ich bleib' heute zu Haus, also.",
    "„Guten Tag“, sagte er – und ging.",
    "Two\u2028lines in one",
] * 5


def perturbed(lines: list[str], seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(w for w in line.split(" ") if rng.random() < 0.8) for line in lines]


HYPOTHESES = perturbed(REFERENCES, 1)


def write(name: str, lines: list[str]) -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return name


def test_equals_the_sacrebleu_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hypothesis, reference = write("hyp", HYPOTHESES), write("ref", REFERENCES)
    done = subprocess.run(
        [sys.executable, "-m", "sacrebleu", reference, "-i", hypothesis, "-m", "bleu", "chrf",
         "ter", "--confidence", "-w", "6"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    bleu, chrf, edits = json.loads(done.stdout)
    scores = score(HYPOTHESES, REFERENCES)
    low, high = bleu_interval(HYPOTHESES, REFERENCES)
    assert scores.bleu == pytest.approx(bleu["score"], abs=1e-6)
    assert scores.chrf == pytest.approx(chrf["score"], abs=1e-6)
    assert (high - low) / 2 == pytest.approx(bleu["confidence_var"], abs=1e-6)
    assert scores.bleu_signature == bleu["signature"].replace("|bs:1000|seed:12345", "")
    assert scores.chrf_signature == chrf["signature"].replace("|bs:1000|seed:12345", "")
    assert 20 < scores.bleu < 90 and scores.sentences == 20
    value, signature = ter(HYPOTHESES, REFERENCES)
    assert value == pytest.approx(edits["score"], abs=1e-6)
    assert signature == edits["signature"].replace("|bs:1000|seed:12345", "")


def test_comparison_equals_the_sacrebleu_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = perturbed(REFERENCES, 2)
    files = [write(*file) for file in (("ref", REFERENCES), ("base", other), ("hyp", HYPOTHESES))]
    done = subprocess.run(
        [sys.executable, "-m", "sacrebleu", files[0], "-i", *files[1:], "-m", "bleu", "chrf",
         "--paired-bs", "-f", "text", "-w", "6"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    base, _, hypothesis, p_values = done.stdout.splitlines()[3:7]
    found = compare(HYPOTHESES, other, REFERENCES)
    assert numbers(base)[0::3] == pytest.approx([found.bleu, found.chrf], abs=1e-6)
    scores = score(HYPOTHESES, REFERENCES)
    assert numbers(hypothesis)[0::3] == pytest.approx([scores.bleu, scores.chrf], abs=1e-6)
    assert numbers(p_values) == pytest.approx([found.bleu_p_value, found.chrf_p_value], abs=1e-4)
    assert 0 < found.bleu_p_value < 1


def test_an_interval_ends_at_100(model):
    """Even for a nearly perfect translation, the upper bound of an interval is at most 100."""
    nearly = [*REFERENCES * 3, "all but one word"]
    write("hyp", [*REFERENCES * 3, "all but one letter"])
    write("nearly", nearly)
    found = evaluate("m", hypothesis="hyp", reference="nearly").as_json()
    for metric in ("bleu", "paper_bleu"):
        low, high = found[f"{metric}_interval"]
        assert 90 < low < found[metric] < high <= 100
    write("straight", [line.translate({0x201E: '"', 0x201C: '"'}) for line in REFERENCES])
    perfect = evaluate("m", hypothesis="straight", reference="straight").as_json()
    assert (perfect["bleu"], perfect["chrf"]) == (100, 100)
    assert perfect["bleu_interval"] == perfect["paper_bleu_interval"] == [100, 100]


def test_equal_translations_do_not_differ():
    found = compare(HYPOTHESES, HYPOTHESES, REFERENCES)
    assert (found.bleu_p_value, found.chrf_p_value) == (1.0, 1.0)


def numbers(row: str) -> list[float]:
    """Returns the numbers in a row of sacreBLEU's table: score, mean, interval per metric."""
    return [float(number) for number in re.findall(r"\d+\.\d+", row)]


def test_language_chooses_the_tokenization():
    assert "tok:zh" in score(["我爱你"], ["我爱你"], target_language="zh").bleu_signature
    assert "tok:13a" in score(["a"], ["a"], target_language="de").bleu_signature


def test_every_figure_is_of_the_target_language(model):
    """The tokenizer for Chinese splits characters; the default one would find a token per line."""
    write("zh.ref", ["他在看书。", "我爱你们大家。"] * 10)
    write("zh", ["他在读书。", "我爱你们大家。"] * 10)
    write("zh.base", ["她在读书。", "我爱你们大家。"] * 10)
    lines = {name: Path(name).read_text().splitlines() for name in ("zh", "zh.ref", "zh.base")}
    of_zh = {"target_language": "zh"}
    found = evaluate("m", hypothesis="zh", reference="zh.ref", baseline="zh.base", **of_zh)
    assert "tok:zh" in found.scores.bleu_signature
    assert found.scores == score(lines["zh"], lines["zh.ref"], **of_zh)
    assert found.bleu_interval == bleu_interval(lines["zh"], lines["zh.ref"], **of_zh)
    assert found.comparison == compare(lines["zh"], lines["zh.base"], lines["zh.ref"], **of_zh)
    default = evaluate("m", hypothesis="zh", reference="zh.ref", baseline="zh.base")  # for German
    assert default.scores.bleu != found.scores.bleu
    assert default.bleu_interval != found.bleu_interval
    assert default.comparison.bleu != found.comparison.bleu


def test_several_references_case_and_tokens_are_the_sacrebleu_commands(model):
    """Scores lowercased text with another tokenizer and two reference files, one compressed."""
    second = perturbed([line.upper() for line in REFERENCES], 3)
    files = ["ref", write("second", second)]
    write("hyp", HYPOTHESES)
    done = subprocess.run(
        [sys.executable, "-m", "sacrebleu", *files, "-i", "hyp", "-m", "bleu", "chrf", "ter",
         "-lc", "--tokenize", "intl", "-w", "6"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    bleu, chrf, edits = json.loads(done.stdout)
    Path("second.gz").write_bytes(gzip.compress(Path("second").read_bytes()))
    options = {"reference": ["ref", "second.gz"], "lowercase": True, "tokenize": "intl"}
    evaluation = evaluate("m", hypothesis="hyp", baseline="ref", **options)
    found = evaluation.as_json()
    for name, theirs in (("bleu", bleu), ("chrf", chrf), ("ter", edits)):
        assert found[name] == pytest.approx(theirs["score"], abs=1e-6)
        assert found[f"{name}_signature"] == theirs["signature"]
    assert "nrefs:2|case:lc|eff:no|tok:intl|" in found["bleu_signature"]
    low, high = found["bleu_interval"]
    assert low < found["bleu"] < high
    lowered = score(REFERENCES, REFERENCES, second, lowercase=True, tokenize="intl").bleu
    assert found["baseline"]["bleu"] == pytest.approx(lowered, abs=1e-6)
    assert found["paper_bleu"] == pytest.approx(paper_bleu(HYPOTHESES, REFERENCES, second)[0])
    with pytest.raises(InputError, match=r"^src has 20 source lines, but short has 19 references"):
        evaluate("m", source="src", reference=["ref", write("short", REFERENCES[:-1])])
    with pytest.raises(InputError, match=r"^hyp has 20 translations, but short has 19 references"):
        evaluate("m", hypothesis="hyp", reference=["short", write("short2", REFERENCES[:-1])])


def test_tokens_that_sacrebleu_does_not_know_are_told_before_anything_is_translated(model):
    with pytest.raises(ArgumentError, match=r"Unknown tokenizer moses. Choose one of: none"):
        evaluate("m", tokenize="moses", output="out")
    assert not Path("out").exists()


def test_a_tokenization_that_cannot_be_had_is_one_line(model, monkeypatch):
    for error, status, message in (
        (urllib.error.URLError("no route"), Status.STORAGE, "flores200 cannot be downloaded"),
        (RuntimeError("no MeCab"), Status.INPUT, r"flores200 is not installed.*pip install"),
    ):

        def refuse(name, error=error):
            raise error

        monkeypatch.setattr("sacrebleu.metrics.bleu._get_tokenizer", refuse)
        with pytest.raises(InputError, match=message) as caught:
            evaluate("m", tokenize="flores200")
        assert caught.value.status == status


def test_tokenized_text_is_scored_as_it_is_without_a_warning(model):
    notes: list[str] = []
    tokenized = [line.replace(",", " ,").replace(".", " .") for line in REFERENCES]
    files = {"hypothesis": write("tok", tokenized), "reference": "tok"}
    found = evaluate("m", **files, tokenize="none", note=notes.append)
    assert found.scores.bleu == pytest.approx(100) and not notes
    assert "|tok:none|" in found.scores.bleu_signature


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a"], ["a", "b"], "1 translation, but 2 references"),
        ([], [], "nothing to score"),
        (["a", "b"], ["a", "b " * 5001], "Line 2 of the references has 5,001 words"),
        (["b " * 5001], ["a"], "Line 1 of the translations has 5,001 words"),
    ],
)
def test_nothing_to_compare(hypotheses, references, message):
    with pytest.raises(InputError, match=message):
        score(hypotheses, references)


class LosesLastWord:
    def translate(self, sentences, options=None, *, progress=None):
        return [
            Translation(s.rsplit(" ", 1)[0], -1.0, -1.0, [2], 2) if s else EMPTY for s in sentences
        ]


@pytest.fixture
def model(tmp_path, monkeypatch) -> Config:
    """A model that drops the last word, with the files src and ref as its test set."""
    monkeypatch.chdir(tmp_path)
    text = {"text": {"source": write("src", REFERENCES), "target": write("ref", REFERENCES)}}
    content = {
        "data": {"directory": "d", "source_language": "en", "target_language": "de",
                 "train": [text], "test": [text, text]},
        "training": {"run_directory": "r"},
    }  # fmt: skip
    config = validate(content, {}, "test")
    kept = Path("test_set")
    kept_test_set.write(kept, config.data)
    manifest.write(kept, "test set", {"corpora": config.model_dump(mode="json")["data"]["test"]})
    found = FoundModel(Path("m"), {"data_sha256": ""}, config)
    monkeypatch.setattr(model_directory, "find_model", lambda path, note: found)
    monkeypatch.setattr(Translator, "load", lambda *_, **__: LosesLastWord())
    return config


TRANSLATIONS = [line.rsplit(" ", 1)[0] for line in REFERENCES]


def test_source_and_reference(model):
    notes: list[str] = []
    found = evaluate("m", source="src", reference="ref", output="out", note=notes.append)
    expected = score(TRANSLATIONS, REFERENCES)
    assert found.translations == TRANSLATIONS
    assert found.scores == expected
    assert Path("out").read_bytes().decode() == "".join(f"{line}\n" for line in TRANSLATIONS)
    assert found.as_text().startswith(f"BLEU = {expected.bleu:.2f}")
    low, high = found.bleu_interval
    content = json.loads(json.dumps(found.as_json()))
    assert content["bleu_interval"] == [round(low, 6), round(high, 6)]
    assert low < expected.bleu < high
    assert content["bleu"] == round(expected.bleu, 6)
    assert content["chrf"] == round(expected.chrf, 6)
    assert content["bleu_signature"].startswith("nrefs:1|") and content["sentences"] == 20
    [note] = notes
    assert note.startswith("nmt: warning: Translated 20 sentences ") and "in parts" in note


def test_the_models_own_test_set(model):
    assert evaluate("m").scores.sentences == 40


def test_given_translations(model):
    write("hyp", HYPOTHESES)
    Path("ref.gz").write_bytes(gzip.compress(Path("ref").read_bytes()))
    expected = score(HYPOTHESES, REFERENCES)
    for arguments in ({"model": "m"}, {"model": None, "target_language": "de"}):
        assert evaluate(**arguments, hypothesis="hyp", reference="ref.gz").scores == expected
    write("hyp", HYPOTHESES * 2)
    assert evaluate("m", hypothesis="hyp").scores.sentences == 40


def test_paper_bleu_is_for_german_and_french(model):
    write("hyp", HYPOTHESES)
    found = {
        language: evaluate(None, hypothesis="hyp", reference="ref", target_language=language)
        for language in ("de", "de-AT", "fr", "fr_CA", "nl")
    }
    for language, alike in (("de", "de-AT"), ("fr", "fr_CA")):
        expected, _ = paper_bleu(HYPOTHESES, REFERENCES, target_language=language)
        assert found[language].paper_bleu == found[alike].paper_bleu == expected
        content = found[language].as_json()
        assert content["paper_bleu"] == round(expected, 6)
        assert content["paper_bleu_convention"] == CONVENTIONS[language]
        assert f"paper BLEU = {expected:.2f}  (95%: " in found[language].as_text()
        assert "compare it with the paper's BLEU, not with sacreBLEU's" in found[language].as_text()
    assert found["de"].paper_bleu != found["fr"].paper_bleu
    assert found["nl"].paper_bleu is None and "paper" not in found["nl"].as_text()
    assert "paper_bleu" not in found["nl"].as_json()


def test_figures_are_computed_in_fp32_on_every_device(model, monkeypatch):
    asked = []

    def load(*_, precision, **__):
        asked.append(precision)
        return LosesLastWord()

    monkeypatch.setattr(Translator, "load", load)
    evaluate("m", device="cuda")
    evaluate("m", precision="bf16")
    assert asked == ["fp32", "bf16"]


def test_baseline(model):
    write("base", HYPOTHESES)
    found = evaluate("m", source="src", reference="ref", baseline="base")
    baseline = json.loads(json.dumps(found.as_json()))["baseline"]
    scores = score(HYPOTHESES, REFERENCES)
    assert baseline["bleu"] == round(scores.bleu, 6) and baseline["chrf"] == round(scores.chrf, 6)
    assert baseline["bleu_difference"] == round(found.scores.bleu - scores.bleu, 6) > 0
    assert 0 < baseline["bleu_p_value"] < 0.2
    for name, theirs, ours in (
        ("BLEU", scores.bleu, found.scores.bleu), ("chrF", scores.chrf, found.scores.chrf),
    ):  # fmt: skip
        assert f"{name} = {theirs:.2f}, difference {ours - theirs:+.2f}" in found.as_text()


def test_text_that_is_not_plain(model):
    notes: list[str] = []
    write("tokenized", [line.replace(",", " ,").replace(".", " .") for line in REFERENCES])
    write("pieces", [*HYPOTHESES[:-1], "ein Ha@@ us"])
    evaluate("m", hypothesis="tokenized", reference="ref", note=notes.append)
    assert [note[:34] for note in notes] == ["nmt: warning: tokenized looks toke"]
    for arguments in (
        {"hypothesis": "pieces", "reference": "ref"},
        {"hypothesis": "ref", "reference": "pieces"},
        {"hypothesis": "ref", "reference": "ref", "baseline": "pieces"},
    ):
        with pytest.raises(
            InputError, match=r"^Line 20 of pieces is split into subword pieces \('Ha@@'\)"
        ):
            evaluate("m", **arguments)


def test_a_bleu_near_0_says_what_to_look_at(model):
    notes: list[str] = []
    write("shifted", [*REFERENCES[1:], REFERENCES[0]])
    evaluate("m", hypothesis="shifted", reference="ref", note=notes.append)
    assert [note[:36] for note in notes] == ["nmt: warning: BLEU on ref is near 0."]
    evaluate("m", hypothesis=write("hyp", HYPOTHESES), reference="ref", note=notes.append)
    assert len(notes) == 1


def test_swapped_files_are_told_before_they_are_translated(model, monkeypatch):
    pairs = list(demo_pairs(20, 1, "validation"))
    files = {"source": write("de", [pair.target for pair in pairs]),
             "reference": write("en", [pair.source for pair in pairs])}  # fmt: skip
    notes: list[str] = []
    evaluate("m", **files, note=notes.append)
    assert notes[0].endswith("de looks like de, not en, and en looks like en, not de. "
                             "Exchange the two files.")  # fmt: skip
    assert not [note for note in notes[1:] if "BLEU" in note or "seem" in note]
    notes.clear()  # a model of two directions, whose configuration names only one of them
    evaluate("m", **files, target_language="en", note=notes.append)
    assert not [note for note in notes if "looks like" in note]


class FakeComet(types.ModuleType):
    """Replaces the package `comet`; scores the share of rows with three different texts."""

    def download_model(self, name):
        if name == "unknown":
            raise KeyError(f"Model '{name}' not supported by COMET.")
        return name

    def load_from_checkpoint(self, path):
        if path == "other":  # as when the encoder's vocabulary is missing
            raise OSError("We couldn't connect to the hub.\nCheck your connection.")
        return self

    def predict(self, rows, **_):
        assert len(rows) == 20
        score = sum(len(set(row.values())) == 3 for row in rows) / len(rows)
        return types.SimpleNamespace(system_score=score)


def test_comet(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", FakeComet("comet"))
    files = {"hypothesis": write("hyp", TRANSLATIONS), "reference": "ref"}
    write("src", [f"{line}!" for line in REFERENCES])
    found = evaluate("m", **files, source="src", comet="known")
    assert found.as_json()["comet"] == 1 and "COMET = 1.0000  known" in found.as_text()
    with pytest.raises(ArgumentError, match="comet requires source"):
        evaluate("m", **files, comet="known")
    for name, reason in (("unknown", "not supported by COMET."), ("other", "to the hub.")):
        with pytest.raises(InputError, match=rf"COMET model {name} .*{reason}\)") as caught:
            evaluate("m", **files, source="src", comet=name)
        assert caught.value.status == Status.STORAGE


def test_comet_is_missing(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", None)
    monkeypatch.setattr(Translator, "load", None)  # must not be called
    with pytest.raises(InputError, match=r"pip install 'nmt\[comet\]'") as caught:
        evaluate("m", comet="known")
    assert caught.value.status == Status.INPUT


def test_sacrebleu_test_set(model, monkeypatch):
    from sacrebleu.dataset import DATASETS

    dataset = DATASETS["wmt14/full"]
    monkeypatch.setattr(dataset, "get_source_file", lambda pair: {"en-de": "src"}[pair])
    monkeypatch.setattr(dataset, "get_reference_files", lambda pair: {"en-de": ["ref"]}[pair])
    assert evaluate("m", test_set="wmt14/full").translations == TRANSLATIONS
    write("hyp", HYPOTHESES)
    found = evaluate(None, test_set="wmt14/full", hypothesis="hyp", target_language="de")
    assert found.scores == score(HYPOTHESES, REFERENCES)
    pieces = [*REFERENCES[:-1], "ein Ha@@ us"]
    files = ["ref", write("pieces", pieces)]
    monkeypatch.setattr(dataset, "get_reference_files", lambda pair: files)
    with pytest.raises(
        InputError, match=r"^Line 20 of wmt14/full en-de is split into subword pieces"
    ):
        evaluate("m", test_set="wmt14/full")


def test_sacrebleu_test_set_of_the_models_source_language(model, monkeypatch):
    """For translation into English, wmt14/full has five source languages."""
    from sacrebleu.dataset import DATASETS

    languages = {"source_language": "hi", "target_language": "en"}
    swapped = model.model_copy(update={"data": model.data.model_copy(update=languages)})
    found = FoundModel(Path("m"), {}, swapped)
    monkeypatch.setattr(model_directory, "find_model", lambda path, note: found)
    dataset, asked = DATASETS["wmt14/full"], []
    monkeypatch.setattr(dataset, "get_source_file", lambda pair: asked.append(pair) or "src")
    monkeypatch.setattr(dataset, "get_reference_files", lambda pair: ["ref"])
    evaluate("m", test_set="wmt14/full")
    assert asked == ["hi-en"]


@pytest.mark.parametrize(
    "failure", [urllib.error.URLError("no route to host"), SystemExit(1), EOFError()]
)
def test_download_that_fails(model, monkeypatch, caplog, failure):
    from sacrebleu.dataset import DATASETS

    def fail(pair):
        logging.getLogger("sacrebleu").error("a line of sacreBLEU's own")
        raise failure

    monkeypatch.setattr(DATASETS["wmt14/full"], "get_source_file", fail)
    with pytest.raises(InputError, match=r"wmt14/full cannot be downloaded .*network") as caught:
        evaluate("m", test_set="wmt14/full")
    assert caught.value.status == Status.STORAGE
    assert not caplog.records


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "m", "test_set": "wmt99"}, "Unknown test set wmt99"),
        ({"model": "m", "test_set": "wmt14/full", "target_language": "fi"},
         "no language pair en-fi"),
        ({"model": "m", "source": "short", "reference": "ref"},
         "short has 1 source line, but ref has 20 references"),
        ({"model": "m", "baseline": "short"}, "1 translation, but data.test has 40 references"),
        ({"model": "m", "hypothesis": "short", "reference": "ref"},
         "short has 1 translation, but ref has 20 references"),
        ({"model": "m", "source": "src", "reference": "latin1"}, "latin1:2"),
        ({"model": "m", "source": "none", "reference": "ref"}, "none"),
        ({"model": "m", "output": "none/out"}, "/none for output "),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(model, monkeypatch, arguments, message):
    monkeypatch.setattr(Translator, "load", None)  # must not be called
    write("short", ["one"])
    Path("latin1").write_bytes(b"good\nM\xfcller\n")
    with pytest.raises(InputError, match=message) as caught:
        evaluate(**arguments)
    assert caught.value.status == Status.INPUT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "m", "source": "src"}, "source requires reference"),
        ({"model": "m", "reference": "ref"}, "reference requires source"),
        ({"model": "m", "reference": "ref", "test_set": "x"}, "reference conflicts with test_set"),
        ({"model": None, "source": "src", "reference": "ref", "target_language": "de"},
         "nothing to score"),
        ({"model": None, "hypothesis": "src", "target_language": "de"}, "no references"),
        ({"model": None, "hypothesis": "src", "reference": "ref"}, "Add target_language"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_go_together(model, monkeypatch, arguments, message):
    monkeypatch.setattr(Translator, "load", None)
    with pytest.raises(ArgumentError, match=message):
        evaluate(**arguments)


@pytest.mark.parametrize("name", ["source", "reference", "baseline"])
def test_no_text_that_is_read_is_replaced_by_the_translations(model, name):
    """If translations replaced a reference, the next BLEU would be 100."""
    files = {"source": "src", "reference": [write("other", REFERENCES), "ref"]}
    files["baseline"] = write("base", REFERENCES)
    output = {"source": "src", "reference": "ref", "baseline": "base"}[name]
    before = Path(output).read_bytes()
    with pytest.raises(ArgumentError, match=f"output and {name} are both {output}"):
        evaluate("m", **files, output=output)
    assert Path(output).read_bytes() == before


@pytest.mark.parametrize("tag", ["zh", "zh-CN", "zh_Hant", "ZH"])
def test_a_region_does_not_change_how_a_language_is_tokenized(tag: str):
    found = score(["他在看书。"], ["他在读书。"], target_language=tag)
    assert "tok:zh" in found.bleu_signature
    assert found == score(["他在看书。"], ["他在读书。"], tokenize="zh")
    assert found.bleu > 2 * score(["他在看书。"], ["他在读书。"], target_language="de").bleu
