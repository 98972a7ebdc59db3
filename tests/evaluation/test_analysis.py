"""The analysis agrees with sacreBLEU, compare-mt and formulas that are computed separately."""

import math
from collections import Counter
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
import torch

from nmt.config import validate
from nmt.data.prepared_data import PreparedData
from nmt.data.tokenizer import Tokenizer
from nmt.demo_language import demo_pairs
from nmt.errors import InputError
from nmt.evaluation.analysis import (
    Faults,
    analyze,
    by_source_length,
    by_word_frequency,
    training_counts,
    training_data,
    words_of,
)
from nmt.evaluation.analysis_tables import analysis_tables
from nmt.evaluation.bleu import bleu_interval, bleu_metric
from nmt.evaluation.calibration import BINS, binned, calibration, expected_calibration_error
from nmt.evaluation.test_sets import TestSet
from nmt.model.special_ids import BOS_ID, EOS_ID
from nmt.model.tokens import Tokens
from nmt.runs.model_directory import find_model
from nmt.translator import Translator
from tests.fixtures.make import TRAINED
from tests.tiny import tiny_settings


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(TRAINED / "run", precision="fp32")


def noisy(seed: str) -> tuple[list[list[str]], list[list[str]], Counter[str]]:
    """Returns references and translations of random words, and a frequency for each word."""
    rng, words = Random(seed), [f"w{i}" for i in range(40)]
    weights = [1 / (i + 1) for i in range(40)]
    references = [rng.choices(words, weights, k=rng.randint(1, 12)) for _ in range(60)]
    translations = [
        [
            word if rng.random() < 0.7 else rng.choices(words, weights)[0]
            for word in reference
            if rng.random() < 0.9
        ]
        for reference in references
    ]
    return references, translations, Counter({f"w{i}": int(2000 * 0.75**i) for i in range(40)})


def test_a_bucket_with_all_sentences_has_the_scores_of_the_corpus():
    references, translations, _ = noisy("length")
    texts = [[" ".join(words) for words in side] for side in (translations, references)]
    sources = [["x"] * 9 for _ in references]
    first, *others = by_source_length(texts[0], [texts[1]], sources, {})
    assert first.sentences == 60
    assert first.bleu == sacrebleu.corpus_bleu(texts[0], [texts[1]]).score
    assert first.chrf == sacrebleu.corpus_chrf(texts[0], [texts[1]]).score
    assert first.bleu_interval == bleu_interval(*texts)
    assert all((each.sentences, each.bleu, each.chrf) == (0, None, None) for each in others)


def test_each_length_has_its_bucket():
    """The bounds are compare-mt's: fewer than 10, 10 to 19, ..., 60 or more."""
    lengths = [0, 9, 10, 19, 20, 59, 60, 1000]
    texts = [f"Satz {length}." for length in lengths]
    found = by_source_length(texts, [texts], [["x"] * length for length in lengths], {})
    assert [(each.words, each.sentences) for each in found] == [
        ("0-9", 2), ("10-19", 2), ("20-29", 1), ("30-39", 0), ("40-49", 0), ("50-59", 1),
        ("60 or more", 2),
    ]  # fmt: skip
    by_hand = sacrebleu.corpus_bleu(texts[:2], [texts[:2]])
    assert found[0].bleu == by_hand.score


# What compare-mt 0.2.10's FreqWordBucketer returns for `noisy("frequency")`: words in the
# references, words in the translations, matches, F-measure
COMPARE_MT = {
    "0": (32, 34, 25, 0.757576),
    "1": (1, 4, 1, 0.4),
    "2": (7, 5, 5, 0.833333),
    "3": (3, 3, 3, 1.0),
    "4": (2, 2, 1, 0.5),
    "5-9": (4, 3, 3, 0.857143),
    "10-99": (44, 37, 30, 0.740741),
    "100-999": (108, 103, 80, 0.758294),
    "1,000 or more": (159, 132, 109, 0.749141),
}


def test_accuracy_by_word_frequency_is_compare_mts():
    references, translations, counts = noisy("frequency")
    found = by_word_frequency(translations, references, counts)
    assert {
        each.occurrences: (
            each.reference_words, each.translation_words, each.matches, round(each.f_measure, 6)
        )
        for each in found
    } == COMPARE_MT  # fmt: skip
    for each in found:
        assert each.precision == each.matches / each.translation_words
        assert each.recall == each.matches / each.reference_words


def test_a_bucket_without_words_has_no_accuracy():
    unseen, once, *_ = by_word_frequency([["a"]], [["b"]], Counter({"b": 1}))
    assert (unseen.precision, unseen.recall, unseen.f_measure) == (0, None, 0)
    assert (once.precision, once.recall, once.f_measure) == (None, 0, 0)
    assert by_word_frequency([[]], [[]], Counter())[0].f_measure is None


def test_length_ratio_and_faults_by_hand():
    sources = ["the man", "Berlin", "one two three four", "a b c d a b c d", " ", "hello"]
    references = ["der Mann", "Berlin", "x x x x x", "a b c d a b c d", "", "hallo"]
    translations = ["", "Berlin ", "x " * 6, "a b c d " * 4, "", "hallo hallo"]
    found = analyze(translations, TestSet(sources, [references], "by hand"), {})
    # "x x x x" occurs three times, no 4-gram of its source more than once; "a b c d" occurs four
    # times and twice. In the reference, "x x x x" occurs twice, which is not enough.
    assert found.translations == Faults(empty=1, copies=1, repetitive=2)
    assert found.references == Faults(empty=0, copies=2, repetitive=0)
    by_character = analyze(translations, TestSet(sources, [references], ""), {"tokenize": "char"})
    assert by_character.translations == found.translations
    assert found.length_ratio == (0 + 1 + 6 + 16 + 0 + 2) / (2 + 1 + 5 + 8 + 0 + 1)
    assert found.missing == ["word frequencies and calibration: no model was given"]
    assert "Not computed: word frequencies" in analysis_tables(found)[-1].as_text()


def test_sources_of_a_language_whose_tokenizer_is_missing_are_counted_in_characters(monkeypatch):
    def installed(target_language=None, **counting):
        if target_language == "ja":
            raise InputError("sacreBLEU's tokenizer is not installed.")
        return bleu_metric(**counting)

    monkeypatch.setattr("nmt.evaluation.analysis.bleu_metric", installed)
    model = SimpleNamespace(config=SimpleNamespace(data=SimpleNamespace(source_language="ja")))
    tests = TestSet(["私" * 12], [["I"]], "")
    found = analyze(["I"], tests, {}, model)
    assert [each.sentences for each in found.by_source_length][:3] == [0, 1, 0]  # 10 to 19
    assert found.missing[0].endswith("words of ja; they are given in characters")


def test_training_words_are_counted(tiny_data, settings):
    data = PreparedData.of(settings())
    words = words_of({"target_language": "de"})
    tokenizer = Tokenizer.load(tiny_data / "data/tokenizer.model")
    counts = training_counts(data, tokenizer, words)
    kept = {tuple(pair.source) for shard in data.shards("train") for pair in shard}
    expected = Counter(
        word
        for pair in demo_pairs(200, 1, "train")
        if (*tokenizer.encode(pair.source), EOS_ID) in kept  # cleaning drops a few pairs
        for word in words(pair.target)
    )
    assert len(kept) > 190
    assert counts == expected
    assert counts["."] > 100  # split from its word as BLEU does


def test_only_the_models_own_training_data_is_counted(tiny_data):
    model = find_model(TRAINED / "run", print)
    model = replace(model, config=validate(tiny_settings(tiny_data), {}, "tiny"))
    with pytest.raises(InputError, match="is not the data that the model was trained on"):
        training_data(model)


def test_ece_is_that_of_the_formula():
    """Guo et al. (2017): bin m holds the confidences in ((m - 1) / M, m / M]."""
    rng = np.random.default_rng(1)
    confidences = np.concatenate([rng.random(5000) ** 0.3, [1.0, 1 / BINS, 2 / BINS, 1e-9]])
    hits = rng.random(len(confidences)) < confidences**2
    expected = 0.0
    for m in range(1, BINS + 1):
        inside = (confidences > (m - 1) / BINS) & (confidences <= m / BINS)
        if inside.any():
            gap = abs(hits[inside].mean() - confidences[inside].mean())
            expected += inside.sum() / len(hits) * gap
    bins = binned(confidences, hits)
    assert sum(each.tokens for each in bins) == len(hits)
    assert expected_calibration_error(bins) == pytest.approx(expected, rel=1e-12)
    assert expected > 0.05
    edges = binned(np.array([1 / BINS, 1.0]), np.array([True, True]))
    assert [each.tokens for each in edges] == [1, *[0] * (BINS - 2), 1]
    assert edges[1].accuracy is None


def test_calibration_reads_the_references(translator: Translator):
    """Compared with each sentence by itself, without padding."""
    sources = (TRAINED / "test.en").read_text().splitlines()[:6]
    references = (TRAINED / "test.de").read_text().splitlines()[:6]
    confidences, hits = [], []
    with torch.inference_mode():
        for source, reference in zip(sources, references, strict=True):
            src, tgt = (
                [*translator.tokenizer.encode(text), EOS_ID] for text in (source, reference)
            )
            read = torch.tensor([[BOS_ID, *tgt[:-1]]])
            probabilities = next_token_probabilities(translator, torch.tensor([src]), read)
            confidences += probabilities.max(-1).values.tolist()
            hits += (probabilities.argmax(-1) == torch.tensor(tgt)).tolist()
    found = calibration(translator, sources, references)
    assert found.tokens == len(hits)
    assert found.confidence == pytest.approx(np.mean(confidences), abs=1e-5)
    assert found.accuracy == pytest.approx(np.mean(hits))
    expected = expected_calibration_error(binned(np.array(confidences), np.array(hits)))
    assert found.ece == pytest.approx(expected, abs=1e-5)
    assert found.label_smoothing == translator.config.training.label_smoothing
    assert math.isclose(sum(each.tokens for each in found.bins), found.tokens)


def next_token_probabilities(translator: Translator, src, read) -> torch.Tensor:
    """Returns the softmax of one sentence's logits: (T, V)."""
    model = translator.transformer
    hidden = model(Tokens.of_rows(src), Tokens.of_rows(read))
    return model.logits(hidden)[0].softmax(-1)


def test_sentences_that_are_too_long_are_left_out(translator: Translator, monkeypatch):
    monkeypatch.setattr("nmt.decoding.score.max_tokens", lambda model: 20)
    sources = ["The man reads.", "The man reads. " * 9]
    found = calibration(translator, sources, ["Der Mann liest."] * 2)
    assert (found.sentences, found.too_long) == (1, 1)
    with pytest.raises(
        InputError, match="Every sentence of the test set exceeds the model's maximum of 20 tokens"
    ):
        calibration(translator, sources[1:], ["Der Mann liest."])
