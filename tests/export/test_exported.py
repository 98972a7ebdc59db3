"""A model exported to CTranslate2 in the Translator and in the commands, without torch."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from nmt.cli import main
from nmt.data.tokenizer import Tokenizer, train_tokenizer
from nmt.decoding import ctranslate2_search
from nmt.decoding.options import SearchOptions
from nmt.demo_language import demo_pairs
from nmt.errors import ArgumentError, InputError, NoModelError
from nmt.model.special_ids import PAD_ID, UNK_ID
from nmt.runs.model_directory import load_model, new_transformer, save_model
from nmt.storage import manifest
from nmt.storage.names import TOKENIZER
from nmt.translator import Translator
from tests.conftest import make_settings
from tests.export.test_export import EQUAL_HEADS, LEARNED, PRE, export, saved
from tests.fixtures.make import TRAINED, copied
from tests.manual import ROOT
from tests.serving.served import ask, served

ctranslate2 = pytest.importorskip("ctranslate2")
TEXTS = ["the old man reads", "", "a dog and a cat. " * 20, "\u2581 odd \U0001f600", "the man"]
LIMITS = {"decoding__max_extra_length": 8}

WITHOUT_TORCH = """\
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "safetensors", "pyarrow"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import threading
import nmt.cli.serve, nmt.serving.server
from multiprocessing import Pipe
from nmt import SearchOptions, Translator
from nmt.cli import main
from nmt.serving.model_process import _n_best, _work_off
ours, theirs = Pipe()
load = lambda: Translator.load(sys.argv[1])
threading.Thread(target=_work_off, args=(theirs, load), daemon=True).start()
assert ours.poll(60) and ours.recv()[1] is None
ours.send((_n_best, (["the old man"], SearchOptions(), [""]), 1, True))
result, error, _ = ours.poll(60) and ours.recv()
assert error is None and len(result) == 1, error
print(Translator.load(sys.argv[1]).translate("the old man", align=True).text, flush=True)
sys.exit(main(["translate", *sys.argv[1:]]))
"""


@pytest.fixture(scope="module", params=[EQUAL_HEADS, LEARNED], ids=str)
def exported(request, tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a random model and its export."""
    folder = tmp_path_factory.mktemp("exported")
    config = make_settings(tiny_data, folder, **request.param, **LIMITS)
    assert export(saved(config, folder / "model"), "ctranslate2", folder / "out") == 0
    return folder


@pytest.fixture
def both(exported: Path) -> tuple[Translator, Translator]:
    ours, theirs = (Translator.load(exported / name, device="cpu") for name in ("model", "out"))
    return ours, theirs


def test_greedy_translations_are_the_models_own(both):
    ours, theirs = both
    greedy = SearchOptions(beam=1)
    for expected, found in zip(
        ours.translate(TEXTS, greedy), theirs.n_best(TEXTS, greedy), strict=True
    ):
        assert [(each.text, each.parts, each.tokens, each.pieces) for each in found] == [
            (expected.text, expected.parts, expected.tokens, expected.pieces)
        ]
        # the random model gives some probability to tokens that CTranslate2 suppresses
        assert found[0].log_probability == pytest.approx(expected.log_probability, rel=0.02)
        assert found[0].score == pytest.approx(expected.score, rel=0.02)


def test_limits_and_prefixes_are_the_models_own(both, monkeypatch):
    """Covers long texts in parts, and prefixes as long as the maximum length, in small batches."""
    ours, theirs = both
    monkeypatch.setattr(ctranslate2_search, "_BATCH", 2)
    assert theirs.max_part == ours.max_part
    texts = ["the man", "dog " * 90, "The man reads. " * 20, "a book", "the"]
    prefixes = ["the old man reads a book", "dog", "the dog", "", "a"]
    for extra in (8, 0):
        decoding = theirs.config.decoding.model_copy(update={"max_extra_length": extra})
        theirs.engine.defaults = ours.engine.defaults = decoding  # type: ignore[attr-defined]
        expected = ours.translate(texts, SearchOptions(beam=1), prefix=prefixes)
        counted: list[int] = []
        found = theirs.n_best(
            texts, SearchOptions(beam=1), prefix=prefixes, progress=counted.append
        )
        assert [best[0].tokens for best in found] == [each.tokens for each in expected]
        assert sum(counted) == sum(each.parts for each in expected) > len(texts) + 2


def test_options_are_obeyed(both):
    _, theirs = both
    [[unpaid]] = theirs.n_best(["the man"], SearchOptions(length_penalty=0.0))
    assert unpaid.score == unpaid.log_probability
    [[free]], [[found]] = (
        theirs.n_best(["the man reads a book"], SearchOptions(beam=1, no_repeat_ngram=n))
        for n in (None, 1)
    )
    assert len(set(free.tokens)) < len(free.tokens)
    assert len(set(found.tokens)) == len(found.tokens)


def test_symbols_of_no_target_and_the_unknown_piece_are_never_generated(settings, tmp_path):
    """This holds for the export and its script; a translation ends where learned positions end.

    The special pieces of an existing SentencePiece model may have other names than ours.
    """
    config = settings(
        **PRE, **LEARNED, **EQUAL_HEADS, tokenizer__symbols=["<2de>", "<note>"],
        decoding__max_extra_length=70, decoding__beam=1,
    )  # fmt: skip
    pairs = demo_pairs(200, 1, "train")
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    train_tokenizer(texts, 400, tmp_path / "tokenizer.model", config.tokenizer.symbols)
    proto = ModelProto.FromString((tmp_path / "tokenizer.model").read_bytes())
    proto.pieces[PAD_ID].piece = proto.trainer_spec.pad_piece = "[PAD]"
    tokenizer = Tokenizer(proto.SerializeToString())
    never, note = tokenizer.symbol_ids["<2de>"], tokenizer.symbol_ids["<note>"]
    transformer = new_transformer(config)
    transformer.initialize(1)
    with torch.no_grad():
        wanted = [(never, 16.0), (UNK_ID, 14.0), (note, 10.0)]
        transformer.decoder_norm.bias.copy_(sum(transformer.embedding[i] * n for i, n in wanted))
    facts = {
        "step": 1,
        "tokenizer_sha256": tokenizer.sha256,
        "data_sha256": "",
        "target_symbols": [],
    }
    facts["target_symbols"] = ["<note>"]
    model, out = tmp_path / "model", tmp_path / "out"
    save_model(model, config, {TOKENIZER: tokenizer.model}, transformer.state_dict(), facts)
    assert export(str(model), "ctranslate2", out) == 0
    ours, theirs = Translator.load(model, device="cpu"), Translator.load(out, device="cpu")
    [[found]] = theirs.n_best(["the man"])
    assert found.tokens == ours.translate("the man").tokens == [note] * config.data.max_length
    script = runpy.run_path(str(out / "translate.py"))
    assert script["translate"](["the man"]) == [found.text]
    assert ["[PAD]"] in script["NEVER_TRANSLATED_INTO"]
    tokens = [[t.token for t in each.next_tokens("the man", k=20)] for each in (ours, theirs)]
    assert tokens[0] == tokens[1] and tokens[0][0] == note


def test_several_translations_are_in_order_and_different(both):
    _, theirs = both
    for best in theirs.n_best(TEXTS, SearchOptions(beam=4, n_best=3, length_penalty=1.0)):
        texts = [each.text for each in best]
        assert len(set(texts)) == len(texts)
        assert [each.score for each in best] == sorted((b.score for b in best), reverse=True)


def test_what_may_come_next_is_what_the_model_says(both):
    ours, theirs = both
    for text, prefix in (("the man", ""), ("the man", "the dog"), (" ", "")):
        expected = ours.next_tokens(text, prefix, k=20)
        found = theirs.next_tokens(text, prefix, k=20)
        assert [(t.token, t.piece, t.text) for t in found] == [
            (t.token, t.piece, t.text) for t in expected
        ]
        assert [t.probability for t in found] == pytest.approx(
            [t.probability for t in expected], rel=0.01
        )
    everything = ours.tokenizer.vocabulary_size
    ends = [
        [
            t.probability
            for t in each.next_tokens("the man", "the dog", k=everything)
            if t.token == 2
        ]
        for each in both
    ]
    assert ends[0] == pytest.approx(ends[1], rel=0.01) and len(ends[0]) == 1
    [[prefixed]] = theirs.n_best(["the man"], prefix="the dog")
    assert prefixed.text.startswith("the dog")


def test_what_an_export_cannot_do_is_refused(both):
    _, theirs = both
    for options in ({"sample": True}, {"mbr": 3}, {"glossary": {"the": "der"}}):
        with pytest.raises(ArgumentError, match="exported model does not support"):
            theirs.n_best(["the man"], SearchOptions(**options))
    with pytest.raises(ArgumentError, match="n_best 9"):
        theirs.beam(SearchOptions(n_best=9))
    with pytest.raises(ArgumentError, match="k must be a positive integer, not 0"):
        theirs.next_tokens("the man", k=0)
    with pytest.raises(ArgumentError, match="Shorten it"):
        theirs.next_tokens("the man " * 100)
    with pytest.raises(ArgumentError, match="cannot score"):
        theirs.score("the man", "der Mann")
    with pytest.raises(ArgumentError, match="can only translate"):
        theirs.transformer  # noqa: B018


def test_an_exported_directory_is_checked_and_told_from_a_model(settings, tmp_path, capsys):
    out = tmp_path / "out"
    assert export(saved(settings(**EQUAL_HEADS), tmp_path / "model"), "ctranslate2", out) == 0
    capsys.readouterr()
    for command in (
        ["score", str(out), "--source", "a", "--target", "b"],
        ["attention", str(out), "--source", "a", "--output", str(tmp_path / "a.html")],
        ["benchmark", "translate", str(out)],
        ["info", str(out)],
    ):
        assert main(command) == 3
        assert "a model for CTranslate2" in capsys.readouterr().err
    for device in ("nowhere", 3):
        with pytest.raises(InputError, match="CTranslate2 cannot load"):
            Translator.load(out, device=device)
    weights = (out / "model.bin").read_bytes()
    (out / "model.bin").write_bytes(weights[:-1] + b"!")
    with pytest.raises(NoModelError, match="but the manifest lists"):
        Translator.load(out)
    described = manifest.read(out, "ctranslate2")
    assert described["data_sha256"] == manifest.read(tmp_path / "model", "model")["data_sha256"]
    (out / "model.bin").write_bytes(b"damaged")
    manifest.rewrite(out, described | {"files": manifest.sizes_and_hashes(out)})
    with pytest.raises(NoModelError, match=r"CTranslate2 cannot load .* Export the model again"):
        Translator.load(out)
    (out / "model.bin").unlink()
    with pytest.raises(NoModelError, match=r"model\.bin is missing\. Restore it from a copy"):
        Translator.load(out)
    (out / "model.bin").mkdir()
    with pytest.raises(NoModelError, match=r"model\.bin is damaged \(not a regular file\)"):
        Translator.load(out)


def test_a_gpu_is_named_as_for_a_model(trained, monkeypatch):
    asked: list[dict[str, object]] = []
    loaded = ctranslate2.Translator
    monkeypatch.setattr(
        "ctranslate2.Translator", lambda path, **named: asked.append(named) or loaded(path)
    )
    for device in (None, "cpu", "cuda", "cuda:1"):
        Translator.load(trained[1], device=device)
    names = [(each["device"], each["device_index"]) for each in asked]
    assert names == [("auto", 0), ("cpu", 0), ("cuda", 0), ("cuda", 1)]


@pytest.mark.parametrize(
    ("asked", "gpus", "device", "threads"),
    [
        ("", 0, None, 3), ("2", 0, None, 2), ("9", 0, None, 3), (" 02", 0, None, 2),
        ("2,1", 0, None, 2), ("+2", 0, None, 2), ("100000", 0, None, 3), ("", 1, None, 1),
        ("", 1, "cpu", 3),
    ],
)  # fmt: skip
def test_there_are_as_many_threads_as_cores_or_as_asked_for(
    trained, monkeypatch, asked, gpus, device, threads
):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr("nmt.runs.exported_model.cores", lambda: 3)
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: gpus)
    given: list[dict[str, object]] = []
    loaded = ctranslate2.Translator
    monkeypatch.setattr(
        "ctranslate2.Translator", lambda path, **named: given.append(named) or loaded(path)
    )
    Translator.load(trained[1], device=device)
    assert (given[0]["inter_threads"], given[0]["intra_threads"]) == (threads, 1)


@pytest.mark.parametrize("asked", ["many", "0", "-1", "2x", "x" * 5000], ids=lambda text: text[:4])
def test_threads_that_are_no_number_are_one_error(trained, asked, monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert main(["translate", str(trained[1]), "--device", "cpu"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("nmt: error: The environment variable OMP_NUM_THREADS is '")
    assert len(line) < 200


def test_loading_leaves_the_threads_of_torch_as_they_are(trained):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        Translator.load(trained[1], device="cpu").translate("the man")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_too_little_memory_for_its_threads_is_no_damage(trained, monkeypatch, capsys):
    def short(path: str, **named: object) -> None:
        raise RuntimeError("Resource temporarily unavailable")

    monkeypatch.setattr("ctranslate2.Translator", short)
    assert main(["translate", str(trained[1]), "--device", "cpu"]) == 2
    assert capsys.readouterr().err.startswith("nmt: error: Out of memory on this machine.")


def test_it_is_loaded_in_a_thread_that_outlives_the_main_thread(trained):
    script = (
        "import sys, threading, time\n"
        "from nmt.translator import Translator\n"
        "def work():\n"
        "    time.sleep(0.5)\n"
        "    print(Translator.load(sys.argv[1]).translate('the man').text)\n"
        "threading.Thread(target=work).start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(trained[1])], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout == f"{Translator.load(trained[1]).translate('the man').text}\n"


def test_batches_in_several_threads_give_what_one_sentence_gives(trained, monkeypatch):
    """Covers more batches than may wait at the same time, and their order and progress."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr("nmt.runs.exported_model.cores", lambda: 2)
    monkeypatch.setattr(ctranslate2_search, "_BATCH", 2)
    theirs = Translator.load(trained[1], device="cpu")
    nouns = ("man", "dog", "book", "cat")
    texts = [f"the {noun}" + " and the old man" * n for n in (3, 0, 2, 1) for noun in nouns]
    counted: list[int] = []
    options = SearchOptions(align=True)
    found = theirs.translate(texts, options, progress=counted.append)
    assert sum(counted) == sum(each.parts for each in found)
    assert len(counted) >= 8
    for text, each in zip(texts, found, strict=True):
        alone = theirs.translate(text, options)
        assert (each.text, each.alignment) == (alone.text, alone.alignment)
    assert len({each.text for each in found}) > 8


def test_it_is_loaded_and_served_without_torch(settings, tmp_path):
    out = tmp_path / "out"
    assert export(saved(settings(**EQUAL_HEADS), tmp_path / "model"), "ctranslate2", out) == 0
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(out)], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, input="the old man\n",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = Translator.load(out).translate("the old man")
    assert done.stdout == f"{expected.text}\n" * 2


def test_it_is_evaluated_without_torch(trained):
    texts = [f"--source={TRAINED / 'test.en'}", f"--reference={TRAINED / 'test.de'}"]
    script = "import sys; sys.modules['torch'] = None; from nmt.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", script, "evaluate", trained[1], *texts],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, "BLEU" in done.stdout) == (0, True), done.stderr


def test_attention_and_links_are_the_models_own(both):
    """Covers every token, including EOS and prefixes, in texts of one part and of several parts."""
    ours, theirs = both
    options = SearchOptions(beam=1, align=True, attention=True)
    texts = ["the old man reads", "a dog and a cat. " * 20, "", "the man"]
    prefixes = ["", "a dog", "", "the dog"]
    expected = ours.n_best(texts, options, prefix=prefixes)
    found = theirs.n_best(texts, options, prefix=prefixes)
    assert sum(each[0].parts for each in found) > len(texts)
    for [ours_], [theirs_] in zip(expected, found, strict=True):
        assert theirs_.tokens == ours_.tokens and theirs_.alignment == ours_.alignment
        assert (theirs_.attention is None) == (ours_.attention is None)
        for one, other in zip(theirs_.attention or [], ours_.attention or [], strict=True):
            assert one.source_pieces == other.source_pieces
            np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, Path]:
    """A trained model and its export; a beam search finds the same translations with both."""
    folder = tmp_path_factory.mktemp("trained")
    run, out = folder / "run", folder / "out"
    shutil.copytree(TRAINED / "run", run, ignore=shutil.ignore_patterns("model", "checkpoints"))
    model = run / "model"
    found = load_model(TRAINED / "run", device=torch.device("cpu"))
    without = found.config.model.model_copy(update={"attention_window": None})
    tokenizer, weights = {TOKENIZER: found.tokenizer.model}, found.transformer.state_dict()
    known = manifest.read(TRAINED / "run" / "model", "model")
    names = ("step", "tokenizer_sha256", "data_sha256", "target_symbols")
    facts = {name: known[name] for name in names}
    save_model(model, found.config.model_copy(update={"model": without}), tokenizer, weights, facts)
    scores = {"bleu": 12.5, "bleu_signature": "x"}
    stored = {"model_sha256": manifest.read(model, "model")["sha256"], "scores": scores}
    (run / "evaluation").mkdir(exist_ok=True)
    (run / "evaluation" / "test.json").write_text(json.dumps(stored))
    assert export(str(model), "ctranslate2", out) == 0
    return model, out


def test_a_server_describes_it_and_gives_its_attention(trained):
    """Only the probabilities of tokens and the examples for the microscope are missing."""
    question = {"text": "The sailor reads a map. Where is it?", "document": True, "beam": 1}
    told, answered = [], []
    for path in trained:
        with served(Translator.load(path, device="cpu")) as port:
            told.append(ask(port, "/api/model")[1])
            answered.append(ask(port, "/api/translate", question | {"attention": True})[1])
            status, answer = ask(port, "/api/translate", question | {"token_probabilities": True})
    assert status == 400 and "does not provide token_probabilities." in answer["error"]
    ours, theirs = told
    for key in ("name", "parameters", "trained_on", "demo", "model", "source", "target"):
        assert theirs[key] == ours[key] and ours[key] is not None, key
    assert ours["name"] == "run" and theirs["opening"]["text"] == ours["opening"]["text"]
    assert ours["bleu"] == {"score": 12.5, "signature": "x", "on": "test set"}
    assert theirs["bleu"] == ours["bleu"] | {"on": "test set, before the export"}
    assert theirs["examples"] == [] and theirs["microscope"] is False
    ours, theirs = (each["translations"][0] for each in answered)
    assert theirs["text"] == ours["text"] and len(theirs["sentences"]) == 2
    for one, other in zip(theirs["sentences"], ours["sentences"], strict=True):
        assert one["attention"]["source"] == other["attention"]["source"]
        assert one["attention"]["target"] == other["attention"]["target"]
        weights, expected = (each["attention"]["weights"] for each in (one, other))
        np.testing.assert_allclose(weights, expected, atol=2e-4)


LINES = "The baker opens his shop.\n\nWhere is the letter? The sailor reads a map.\n"
PAGE = "<h1>The <b>sailor</b> reads a map.</h1>\n<p>Where is <i>the shop</i>?</p>\n"


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ([], LINES),
        (["--document"], LINES),
        (["--shard", "2/2", "--prefix", "Der"], LINES),
        (["--alignment", "links"], LINES),
        (["--format", "html"], PAGE),
        (["--format", "xml"], PAGE),
    ],
    ids=str,
)
def test_the_command_writes_what_it_writes_with_the_model(
    trained: tuple[Path, Path], flags, text, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("in").write_text(text)
    capsys.readouterr()
    written = []
    for model in trained:
        command = ["translate", str(model), "--input", "in", "--output", "out", "--beam", "1"]
        assert main([*command, *flags]) == 0
        files = [path.read_text() for path in (Path("out"), Path("links")) if path.exists()]
        written.append([*files, capsys.readouterr().err])
    assert written[0] == written[1] and written[0][0].strip()


def test_lists_of_an_export_are_numbered_and_best_first(trained, tmp_path, capsys):
    (tmp_path / "in").write_text(LINES)
    command = ["translate", str(trained[1]), "--input", str(tmp_path / "in"), "--beam", "4"]
    assert main([*command, "--n-best", "3"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3 + ["3"] * 3
    assert rows[3:6] == [["2", "0.000000", ""]] * 3
    scores = [float(row[1]) for row in rows]
    assert scores[:3] == sorted(scores[:3], reverse=True)
    assert main([*command, "--n-best", "5"]) == 2
    assert "--n-best 5 exceeds --beam 4" in capsys.readouterr().err


def test_json_lines_of_an_export_lack_only_the_probabilities_of_tokens(trained, capsys, tmp_path):
    (tmp_path / "in").write_text(LINES)
    found = []
    for model in trained:
        command = ["translate", str(model), "--input", str(tmp_path / "in"), "--beam", "1"]
        assert main([*command, "--format", "jsonl", "--alignment", "-"]) == 0
        found.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    for ours, theirs in zip(*found, strict=True):
        assert theirs["token_log_probabilities"] == []
        assert theirs["score"] == pytest.approx(ours["score"], rel=0.02)
        same = {"line", "text", "pieces", "alignment"}
        assert {key: theirs[key] for key in same} == {key: ours[key] for key in same}


@pytest.mark.parametrize(
    "flags",
    [
        ["--sample"], ["--mbr", "3"], ["--glossary", "terms"], ["--precision", "int8"],
        ["--ensemble", "nowhere"], ["--shortlist"],
    ],
    ids=str,
)  # fmt: skip
def test_flags_that_an_export_lacks_are_refused_before_it_is_loaded(
    trained, flags, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("terms").write_text("dog\tHund\n")
    monkeypatch.setattr("nmt.translator.load_exported", None)
    Path("in").write_text(LINES)
    assert main(["translate", str(trained[1]), "--input", "in", "--output", "out", *flags]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        f"nmt: error: An exported model does not support {flags[0]}. Remove {flags[0]}, or use the "
        "original model."
    )
    assert not Path("out").exists()


def test_an_export_is_evaluated_as_the_model_is(trained, tmp_path, capsys):
    """Scores are equal for given files, and for the test set of the run that the export is in."""
    data = ["--source", str(TRAINED / "test.en"), "--reference", str(TRAINED / "test.de")]
    found = []
    for model in trained:
        command = ["evaluate", str(model), *data, "--json", "--output", str(tmp_path / "out")]
        assert main([*command, "--beam", "1"]) == 0
        found.append(json.loads(capsys.readouterr().out))
        found[-1]["translations"] = (tmp_path / "out").read_text()
    assert found[0] == found[1] and found[0]["bleu"] > 0
    run = copied(tmp_path / "place") / "run"
    shutil.rmtree(run / "model")
    shutil.copytree(trained[0], run / "model")
    shutil.copytree(trained[1], run / "exported")
    own = []
    for model in (run / "model", run / "exported"):
        assert main(["evaluate", str(model), "--json", "--beam", "1"]) == 0
        own.append(json.loads(capsys.readouterr().out))
    assert own[0] == own[1]
    assert main(["evaluate", str(trained[1]), *data, "--precision", "bf16"]) == 2
    assert "does not support --precision" in capsys.readouterr().err


def test_the_tokenizer_of_another_model_is_one_error(both: tuple[Translator, Translator]):
    theirs = both[1]
    theirs.engine._ids = {}
    with pytest.raises(NoModelError, match=r"token '.+', which its tokenizer does not have"):
        theirs.translate("the man")
