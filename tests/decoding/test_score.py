"""Scores of given translations, compared with the search and with direct computation."""

import math
import re

import numpy as np
import pytest
import torch

from nmt.data.layout import one_per_row
from nmt.data.pair import Pair
from nmt.data.tokenizer import Tokenizer
from nmt.decoding import score
from nmt.decoding.beam_search import search
from nmt.decoding.score import log_probabilities, score_translations
from nmt.demo_language import demo_pairs
from nmt.errors import InputError, NoModelError
from nmt.lines.score import run_score
from nmt.model.special_ids import EOS_ID
from nmt.model.stepper import Stepper
from nmt.runs.model_directory import new_transformer
from nmt.translator import Translator


@pytest.fixture
def translator(settings, tiny_data) -> Translator:
    config = settings()
    transformer = new_transformer(config).eval()
    transformer.initialize(1)
    return Translator.of(transformer, Tokenizer.load(tiny_data / "data/tokenizer.model"), config)


def test_equals_what_the_search_reports_for_the_same_tokens(translator: Translator, monkeypatch):
    monkeypatch.setattr(score, "_BATCH_TOKENS", 30)
    rng = np.random.default_rng(1)
    sources = [np.append(rng.integers(4, 400, n), EOS_ID) for n in (3, 9, 6)]
    src = one_per_row([Pair(source, source) for source in sources]).src.tokens
    with torch.inference_mode():
        steps = Stepper(translator.transformer, src, 4, 12)
    found = search(steps, [12, 12, 12], beam=4, alpha=0.6, n_best=4)
    pairs = [
        Pair(source, np.array(hypothesis.tokens))
        for source, hypotheses in zip(sources, found, strict=True)
        for hypothesis in hypotheses
    ]
    reported = [h.log_probability for hypotheses in found for h in hypotheses]
    for values, expected in zip(
        log_probabilities(translator.transformer, pairs), reported, strict=True
    ):
        assert math.fsum(values) == pytest.approx(expected, abs=1e-4)


def test_order_batches_and_empty_lines_do_not_matter(translator: Translator, monkeypatch):
    monkeypatch.setattr(score, "_WINDOW_LINES", 3)
    sources = ["The dog sees a cat.", "", "Why?", "The old man reads."]
    targets = ["Der Hund sieht eine Katze.", "", "Warum?", ""]
    together = list(score_translations(translator, sources, targets))
    assert [line.pieces[-1] for line in together] == ["</s>"] * 4
    for source, target, line in zip(sources, targets, together, strict=True):
        (alone,) = score_translations(translator, [source], [target])
        assert alone.log_probabilities == pytest.approx(line.log_probabilities, abs=1e-5)
        assert line.log_probability < 0


def test_probabilities_of_all_next_tokens_sum_to_one(translator: Translator):
    source = np.array([7, 8, EOS_ID])
    pairs = [Pair(source, np.array([50, token])) for token in range(1, 400)]
    total = sum(math.exp(values[1]) for values in log_probabilities(translator.transformer, pairs))
    with torch.inference_mode():  # adds the probability of padding, which is no target
        batch = one_per_row([Pair(source, np.array([50, 5]))])
        logits = translator.transformer.logits(translator.transformer(batch.src, batch.tgt_in))
    assert total + logits[0, 1].softmax(-1)[0].item() == pytest.approx(1, abs=1e-4)


def test_logits_of_bf16_weights_are_fp32(translator: Translator):
    """Logits rounded to bf16 would have relative errors of up to 2^-9, and ties."""
    transformer = translator.transformer.to(torch.bfloat16)
    with torch.no_grad():
        transformer.embedding.mul_(8)  # logits far from 0
    source = np.array([7, 8, EOS_ID])
    pairs = [Pair(source, np.array([50, token])) for token in range(4, 400)]
    found = [values[1] for values in log_probabilities(transformer, pairs)]
    batch = one_per_row([Pair(source, np.array([50, 5]))])
    with torch.inference_mode():
        hidden = transformer(batch.src, batch.tgt_in)[0, 1]
    expected = (transformer.embedding.double() @ hidden.double()).log_softmax(0)[4:400]
    assert found == pytest.approx(expected.tolist(), abs=1e-4)


def test_scores_are_computed_in_fp32_on_every_device(translator, tmp_path, monkeypatch):
    asked = []

    def load(*_, precision, **__):
        asked.append(precision)
        return translator

    monkeypatch.setattr(Translator, "load", load)
    (tmp_path / "text").write_text("Why?\n")
    for given in (None, "bf16"):
        options = {"each_token": False, "device": "cuda", "note": print, "precision": given}
        list(run_score("m", tmp_path / "text", tmp_path / "text", **options))
    assert asked == ["fp32", "bf16"]


def test_a_line_beyond_the_learned_positions_is_named(settings, tiny_data, monkeypatch):
    config = settings(model__positions="learned", data__max_length=8)
    tokenizer = Tokenizer.load(tiny_data / "data/tokenizer.model")
    transformer = new_transformer(config).eval()
    transformer.initialize(1)
    learned = Translator.of(transformer, tokenizer, config)
    monkeypatch.setattr(score, "_WINDOW_LINES", 2)
    lines = ["The dog.", "Why?", "The cat.", "The old man sees the old dog and reads a long book."]
    with pytest.raises(InputError, match=r"^Line 4 "):
        list(score_translations(learned, lines, lines))


def test_line_counts_must_match(translator: Translator):
    with pytest.raises(InputError, match=r"^source has 2 lines, but target has 1 line"):
        list(score_translations(translator, ["a", "b"], ["c"]))


def test_a_line_that_would_fill_the_memory_is_named(translator: Translator, monkeypatch):
    """The maximum length of a line is that of training or of a batch, whichever is larger."""
    monkeypatch.setattr(score, "_BATCH_TOKENS", 8)
    monkeypatch.setattr(translator.transformer, "logits", None)  # must not be called
    for long, sides in (("target", ("Why?", "ä" * 99)), ("source", ("ä" * 99, "Why?"))):
        with pytest.raises(InputError, match=f"^Line 1 of {long} has more than 60 tokens"):
            list(score_translations(translator, *([side] for side in sides)))


def test_weights_that_are_not_numbers_are_no_model(translator: Translator):
    with torch.no_grad():
        translator.transformer.embedding.fill_(math.nan)
    with pytest.raises(NoModelError, match="scores are NaN"):
        list(score_translations(translator, ["Why?"], ["Warum?"]))


def test_perplexities_are_a_token_and_a_word(translator: Translator, tmp_path, monkeypatch):
    monkeypatch.setattr(Translator, "load", lambda *_, **__: translator)
    (tmp_path / "en").write_text("The dog sees a cat.\n\nWhy?\n")
    (tmp_path / "de").write_text("Der Hund sieht eine Katze.\n\nWarum denn?\n")
    notes: list[str] = []
    options = {"each_token": True, "device": None, "precision": None, "note": notes.append}
    rows = list(run_score("m", tmp_path / "en", tmp_path / "de", **options))  # type: ignore[arg-type]
    values = [float(cell.rsplit(" ", 1)[1]) for row in rows for cell in row.split("\t")]
    tokens, words = len(values), 7
    assert tokens > 3 * words  # EOS counts, on the empty line too
    [found] = re.findall(
        r"Perplexity: (.*) per token \((.*) tokens, including EOS\), "
        r"(.*) per word \((.*) words\)",
        notes[0],
    )
    assert [int(found[1]), int(found[3])] == [tokens, words]
    list(run_score("m", tmp_path / "en", tmp_path / "de", **options))  # too little to tell
    pairs = list(demo_pairs(10, 1, "validation"))
    for name, lines in (("en", [p.source for p in pairs]), ("de", [p.target for p in pairs])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    list(run_score("m", tmp_path / "de", tmp_path / "en", **options))
    assert [note for note in notes if "warning" in note] == [
        f"nmt: warning: {tmp_path}/de looks like de, not en, and {tmp_path}/en looks like en, not "
        "de. Exchange the two files."
    ]
    assert float(found[0]) == pytest.approx(math.exp(-sum(values) / tokens), rel=1e-3)
    assert float(found[2]) == pytest.approx(math.exp(-sum(values) / words), rel=1e-3)
