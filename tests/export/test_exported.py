"""An exported directory with the methods of Translator, for environments without torch."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmt.cli import main
from nmt.data.tokenizer import Tokenizer, train_tokenizer
from nmt.decoding.options import SearchOptions
from nmt.demo_language import demo_pairs
from nmt.errors import ArgumentError, InputError, NoModelError
from nmt.export import exported
from nmt.export.exported import ExportedTranslator
from nmt.model.special_ids import UNK_ID
from nmt.runs.model_directory import new_transformer, save_model
from nmt.storage.names import TOKENIZER
from nmt.translator import Translator
from tests.export.test_export import EQUAL_HEADS, LEARNED, PRE, export, saved
from tests.manual import ROOT

pytest.importorskip("ctranslate2")
TEXTS = ["the old man reads", "", "a dog and a cat. " * 20, "\u2581 odd \U0001f600", "the man"]
LIMITS = {"decoding__max_extra_length": 8}

WITHOUT_TORCH = """\
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "safetensors", "tqdm", "pyarrow"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from pathlib import Path
import nmt.cli.serve, nmt.serving.server
from nmt.cpu_memory import keep_freed_memory
from nmt.export.exported import ExportedTranslator
print(ExportedTranslator.load(Path(sys.argv[1])).n_best(["the old man"])[0][0].text)
"""


@pytest.fixture(params=[EQUAL_HEADS, LEARNED], ids=str)
def both(request, settings, tmp_path: Path) -> tuple[Translator, ExportedTranslator]:
    model = saved(settings(**request.param, **LIMITS), tmp_path / "model")
    assert export(model, "ctranslate2", tmp_path / "out") == 0
    assert ExportedTranslator.is_in(tmp_path / "out") and not ExportedTranslator.is_in(Path(model))
    theirs = ExportedTranslator.load(tmp_path / "out", device="cpu")
    return Translator.load(model, device="cpu"), theirs


def test_greedy_translations_are_the_models_own(both):
    ours, theirs = both
    greedy = SearchOptions(beam=1)
    for expected, found in zip(
        ours.translate(TEXTS, greedy), theirs.n_best(TEXTS, greedy), strict=True
    ):
        assert [(each.text, each.parts, each.tokens, each.pieces) for each in found] == [
            (expected.text, expected.parts, expected.tokens, expected.pieces)
        ]
        # this random model gives some probability to tokens that CTranslate2 suppresses
        assert found[0].log_probability == pytest.approx(expected.log_probability, rel=0.02)
        assert found[0].score == pytest.approx(expected.score, rel=0.02)


def test_limits_and_prefixes_are_the_models_own(both, monkeypatch):
    """Parts of the maximum length, and prefixes that fill the limit, in small batches."""
    ours, theirs = both
    monkeypatch.setattr(exported, "_BATCH", 2)
    assert theirs.max_part == ours.max_part
    texts = ["the man", "dog " * 90, "The man reads. " * 20, "a book", "the"]
    prefixes = ["the old man reads a book", "dog", "the dog", "", "a"]
    for extra in (8, 0):
        decoding = theirs.config.decoding.model_copy(update={"max_extra_length": extra})
        theirs.config = theirs.config.model_copy(update={"decoding": decoding})
        ours.search.defaults = decoding
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
    """Neither by the export nor by its script, and no longer text than it can read."""
    config = settings(
        **PRE, **LEARNED, **EQUAL_HEADS, tokenizer__symbols=["<2de>", "<note>"],
        decoding__max_extra_length=70, decoding__beam=1,
    )  # fmt: skip
    pairs = demo_pairs(200, 1, "train")
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    train_tokenizer(texts, 400, tmp_path / "tokenizer.model", config.tokenizer.symbols)
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.model")
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
    ours, theirs = Translator.load(model, device="cpu"), ExportedTranslator.load(out, device="cpu")
    [[found]] = theirs.n_best(["the man"])
    assert found.tokens == ours.translate("the man").tokens == [note] * config.data.max_length
    assert runpy.run_path(str(out / "translate.py"))["translate"](["the man"]) == [found.text]
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
    glossary = {"the": "der"}
    for options in (
        {"sample": True}, {"mbr": 3}, {"align": True}, {"attention": True}, {"glossary": glossary}
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="exported model does not support"):
            theirs.n_best(["the man"], SearchOptions(**options))
    with pytest.raises(ArgumentError, match="n_best 9"):
        theirs.beam(SearchOptions(n_best=9))
    with pytest.raises(ArgumentError, match="k must be at least 1, not 0"):
        theirs.next_tokens("the man", k=0)
    with pytest.raises(ArgumentError, match="Shorten it"):
        theirs.next_tokens("the man " * 100)


def test_an_exported_directory_is_checked_and_told_from_a_model(settings, tmp_path, capsys):
    out = tmp_path / "out"
    assert export(saved(settings(**EQUAL_HEADS), tmp_path / "model"), "ctranslate2", out) == 0
    capsys.readouterr()
    assert main(["score", str(out), "--source", "a", "--target", "b"]) in (2, 3)
    assert main(["info", str(out)]) == 3
    assert "a model for CTranslate2" in capsys.readouterr().err
    with pytest.raises(InputError, match="CTranslate2 cannot load"):
        ExportedTranslator.load(out, device="nowhere")
    weights = (out / "model.bin").read_bytes()
    (out / "model.bin").write_bytes(weights[:-1] + b"!")
    with pytest.raises(NoModelError, match="in the manifest"):
        ExportedTranslator.load(out)


def test_it_is_loaded_and_served_without_torch(settings, tmp_path):
    out = tmp_path / "out"
    assert export(saved(settings(**EQUAL_HEADS), tmp_path / "model"), "ctranslate2", out) == 0
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(out)], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [[expected]] = ExportedTranslator.load(out).n_best(["the old man"])
    assert done.stdout == f"{expected.text}\n"
