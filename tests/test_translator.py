"""The Translator with a small random Transformer and a trained tokenizer."""

import io
import itertools
import random

import numpy as np
import pytest
import sacrebleu
import torch

from nmt.config import Config, Decoding, Model, validate
from nmt.data.cleaning import normalize
from nmt.data.layout import one_per_row
from nmt.data.pair import Pair
from nmt.data.tokenizer import Tokenizer, train_tokenizer
from nmt.decoding import batched_search
from nmt.decoding.batched_search import BatchedSearch, SearchInput
from nmt.decoding.buffer_pool import DecodeBufferPool
from nmt.decoding.loading import choose_device
from nmt.errors import InputError
from nmt.lines.translate import LineOptions, translate_stream
from nmt.model.special_ids import BOS_ID, EOS_ID
from nmt.model.stepper import Stepper
from nmt.model.tokens import Tokens
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import new_transformer
from nmt.translator import (
    EMPTY,
    SearchOptions,
    Translation,
    Translator,
    combine,
)
from tests.hostile import fuzzed_lines

WORDS = ["the", "old", "man", "reads", "a", "good", "book", "and", "his", "dog", "sleeps"]
VOCABULARY = 300
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"
    rng = random.Random(1)
    text = [" ".join(rng.choices(WORDS, k=8)) for _ in range(200)]
    train_tokenizer(text, VOCABULARY, path)
    return Tokenizer.load(path)


def small_config(**decoding) -> Config:
    corpus = {"demo": {"pairs": 1}}
    content = {
        "data": {"directory": "d", "source_language": "en", "target_language": "de",
                 "max_length": 24, "train": [corpus]},
        "tokenizer": {"vocabulary_size": VOCABULARY},
        "model": {"encoder_layers": 1, "decoder_layers": 2, "d_model": 32, "d_ff": 64,
                  "heads": 2, "d_k": 16, "d_v": 16, "dropout": 0.0, "norm": "pre"},
        "training": {"run_directory": "r"},
        "decoding": {"max_extra_length": 6} | decoding,
    }  # fmt: skip
    return validate(content, {}, "test")


@pytest.fixture(scope="module")
def translator(tokenizer) -> Translator:
    config = small_config()
    transformer = new_transformer(config).eval()
    transformer.initialize(1)
    with torch.no_grad():  # a sharper distribution: fewer repetitions, more EOS
        transformer.embedding.mul_(3)
        transformer.decoder_norm.weight.normal_(generator=torch.Generator().manual_seed(1))
        transformer.decoder_norm.bias.copy_(transformer.embedding[EOS_ID] * 0.6)
    return Translator.of(transformer, tokenizer, config)


def sentences(n: int) -> list[str]:
    rng = random.Random(2)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) for _ in range(n)]


def short(n: int) -> list[str]:
    """Returns sentences that need no splitting."""
    return [" ".join(sentence.split()[:4]) for sentence in sentences(n)]


def test_r19_fuzzed_lines_with_any_batch_size(translator):
    """Keeps the number of lines and blank lines; output is identical for any --batch-tokens."""
    data = b"\n".join([*fuzzed_lines(119, seed=5, longest=50), b"the man"])

    def translated(data: bytes, batch_tokens: int | None) -> list[str]:
        target, options = io.BytesIO(), SearchOptions(beam=2, batch_tokens=batch_tokens)
        translate_stream(translator, io.BytesIO(data), target, options=LineOptions(search=options))
        return target.getvalue().decode().removesuffix("\n").split("\n")

    lines, few = translated(data, None), b"\n".join(data.split(b"\n")[:40])
    assert translated(few, 1) == translated(few, 500) == lines[:40]
    assert len(lines) == 120
    for line, came in zip(lines, data.split(b"\n"), strict=True):
        assert len(line.splitlines()) <= 1 and "\t" not in line
        if not normalize(came.decode(errors="replace")).strip():
            assert line == ""


def test_r19_independent_of_batch_size_and_order(translator):
    texts = sentences(30)
    together = translator.n_best(texts)
    finished = sum(best[0].tokens[-1] == EOS_ID for best in together)
    assert 0 < finished < 30
    for batch_tokens in (1, 300, 2000):
        apart = translator.n_best(texts, SearchOptions(batch_tokens=batch_tokens))
        assert [b[0].tokens for b in apart] == [b[0].tokens for b in together]
    shuffled = random.Random(3).sample(range(30), 30)
    again = translator.n_best([texts[i] for i in shuffled])
    assert [b[0].tokens for b in again] == [together[i][0].tokens for i in shuffled]


@pytest.mark.parametrize(
    ("members", "layers", "tokens"),
    [(1, 6, 16_384), (1, 12, 16_384), (1, 3, 32_768), (2, 3, 16_384), (1, 1, 49_152)],
)
def test_batches_of_small_models_contain_more_tokens(members: int, layers: int, tokens: int):
    """Batch sizes are relative to the base model's keys and values: 6 layers, 8 heads of 64."""
    sizes = {"encoder_layers": 1, "decoder_layers": layers, "d_model": 8, "d_ff": 8, "heads": 8}
    transformers = [Transformer(Model(**sizes), 10, 10) for _ in range(members)]
    found = BatchedSearch(transformers, Decoding(), reads_as=tuple)
    assert found.default_batch_tokens == tokens


@pytest.mark.parametrize(("beam", "bound"), [(1, 300), (4, 300), (4, 20)])
def test_batches_are_as_large_as_their_bound_allows(translator, monkeypatch, beam, bound):
    """The bound counts padded sources, and all hypotheses at the maximum length."""
    batches = []

    def recording(transformer, src, beam, max_length, *only):
        batches.append((len(src), src.shape[1] + beam * max_length))
        return Stepper(transformer, src, beam, max_length, *only)

    monkeypatch.setattr("nmt.decoding.batched_search.Stepper", recording)
    found = translator.translate(sentences(30), SearchOptions(beam=beam, batch_tokens=bound))
    assert sum(size for size, _ in batches) == sum(each.parts for each in found)
    assert all(size == 1 or size * tokens <= bound for size, tokens in batches)
    assert all((size + 1) * tokens > bound for size, tokens in batches[:-1])


@pytest.mark.parametrize("window", [None, 3])
def test_log_probability_is_the_models_own(translator, tokenizer, window, monkeypatch):
    """The search returns the log-probability that teacher forcing gives."""
    monkeypatch.setattr(translator.transformer, "attention_window", window)
    text = "the old man reads a book"
    for found in translator.n_best([text], SearchOptions(beam=5, n_best=5))[0]:
        source = torch.tensor([[*tokenizer.encode(text), EOS_ID]])
        target = torch.tensor([[BOS_ID, *found.tokens[:-1]]])
        src, tgt_in = Tokens.of_rows(source), Tokens.of_rows(target)
        with torch.inference_mode():
            hidden = translator.transformer(src, tgt_in)
            logits = translator.transformer.logits(hidden)[0]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(found.tokens)[:, None]).sum()
        n = len(found.tokens)
        assert found.log_probability == pytest.approx(float(expected), abs=1e-3)
        assert found.score == pytest.approx(found.log_probability / ((5 + n) / 6) ** 0.6)


def test_options_come_from_the_configuration_unless_given(translator, tokenizer):
    config = small_config(beam=1, length_penalty=2.0, max_extra_length=0)
    other = Translator.of(translator.transformer, tokenizer, config)
    texts = sentences(20)
    by_default = other.n_best(texts)
    assert by_default == other.n_best(texts, SearchOptions(beam=1, length_penalty=2.0))
    assert by_default != other.n_best(texts, SearchOptions(beam=3, length_penalty=0.0))
    unpaid = other.n_best(texts, SearchOptions(length_penalty=0.0))
    assert all(best.score == best.log_probability for [best] in unpaid)
    for text, [best] in zip(texts, by_default, strict=True):
        assert len(best.tokens) <= len(tokenizer.encode(text))


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u3000\u2028", "\ufeff", "\x00", "\r"])
def test_blank_texts_do_not_call_the_model(translator, blank, monkeypatch):
    monkeypatch.setattr(translator.transformer, "encode", None)
    assert translator.n_best([blank], SearchOptions(n_best=2)) == [[EMPTY]]


def parts_of(translator: Translator, text: str) -> list[str]:
    [parts] = translator._cutter.cut([text])
    assert all(0 < len(part) < translator.config.data.max_length for part in parts)
    texts = [translator.tokenizer.decode(part) for part in parts]
    assert all(text.strip() for text in texts)
    return texts


def test_long_lines_are_split_at_the_best_place(translator):
    sentence = "the old man reads a good book."
    assert parts_of(translator, " ".join([sentence] * 9)) == [sentence] * 9
    words = sentences(1)[0].split() * 40
    parts = parts_of(translator, " ".join(words))
    assert " ".join(parts).split() == words
    assert "".join(parts_of(translator, "x" * 100)) == "x" * 100
    japanese = "これは本です。"
    assert parts_of(translator, japanese * 10) == [japanese] * 10
    assert parts_of(translator, "ab. " * 3) == ["ab. ab. ab."]
    as_long_as_can_be = "a" + " a" * 22
    assert len(translator.tokenizer.encode(as_long_as_can_be)) == 23  # EOS is the 24th
    assert parts_of(translator, as_long_as_can_be) == [as_long_as_can_be]


@pytest.mark.parametrize(
    "text",
    ["。" * 200 + " ", "x。" + "y" * 90, ". " * 300, "a " + "b" * 900, "é" * 500, "! ! " * 99,
     "これは本です。" * 10],
)  # fmt: skip
def test_cutting_ends_and_loses_nothing(translator, text):
    """Only whitespace is lost. The bytes of one character may be in different parts."""
    parts_of(translator, text)
    [parts] = translator._cutter.cut([text])
    again = translator.tokenizer.decode([i for part in parts for i in part])
    assert len(parts) > 1
    assert "".join(again.split()) == "".join(normalize(text).split())


def test_line_in_parts(translator):
    text = ". ".join(sentences(12))
    [found] = translator.n_best([text], SearchOptions(beam=3, n_best=3))
    parts = parts_of(translator, text)
    assert found[0].parts == len(parts) > 1
    apart = translator.n_best(parts, SearchOptions(beam=3, n_best=3))
    assert found == combine(apart)
    assert [f.score for f in found] == sorted((f.score for f in found), reverse=True)


def test_combine():
    def found(text: str, score: float) -> Translation:
        return Translation(text, score, 2 * score, [5, EOS_ID], 1)

    one, two = [found("a", -1), found("b", -2), found("c", -3)], [found("x", -1), found("y", -5)]
    assert combine([one]) == one
    assert combine([[EMPTY], one, [EMPTY]]) == one
    assert combine([[EMPTY]]) == combine([]) == [EMPTY]
    joined = combine([one, [EMPTY], two])
    assert [f.text for f in joined] == ["a x", "b y", "c y"]
    assert [f.score for f in joined] == [-2, -7, -8]
    assert joined[0].parts == 2 and joined[0].tokens == [5, EOS_ID] * 2


def test_output_is_one_line(translator, monkeypatch):
    monkeypatch.setattr(translator.tokenizer, "decode", lambda ids: f"a{LINE_ENDS}\tb")
    [[found]] = translator.n_best(["the man"])
    assert found.text == "a b"
    every_character = "".join(chr(c) for c in range(0x110000))
    monkeypatch.setattr(translator.tokenizer, "decode", lambda ids: every_character)
    [[found]] = translator.n_best(["the man"])
    assert len(found.text.splitlines()) == 1 and "\t" not in found.text
    found.text.encode()


@pytest.mark.parametrize(
    ("text", "taken"),
    [("\ud800", "\ufffd"), ("a\x00b", "ab"), ("😀" * 3, "😀" * 3), ("שלום", "שלום"),
     ("\u202eabc", "\u202eabc"), ("e\u0301", "é"), ("\U0010ffff", "\U0010ffff")],
)  # fmt: skip
def test_unusual_text_reaches_the_model_unchanged(translator, text, taken):
    assert parts_of(translator, text) == [taken]
    [[found]] = translator.n_best([text])
    assert found.parts == 1 and found.tokens and len(found.text.splitlines()) <= 1


def test_bf16(translator, tokenizer):
    """Scores in bf16 are close to those in fp32 for most sentences."""
    transformer = new_transformer(translator.config).eval()
    transformer.load_state_dict(translator.transformer.state_dict())
    lower = Translator.of(transformer.to(torch.bfloat16), tokenizer, translator.config)
    texts = sentences(10)
    pairs = zip(lower.n_best(texts), translator.n_best(texts), strict=True)
    differences = sorted(abs(a[0].score - b[0].score) for a, b in pairs)
    assert differences[5] < 0.1


def test_the_callers_autocast_does_not_lower_the_models_precision(translator):
    wanted = [each.log_probability for each in translator.translate(sentences(3))]
    with torch.autocast("cpu", torch.bfloat16):
        found = translator.translate(sentences(3))
    assert [each.log_probability for each in found] == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam .*not 0"),
        ({"beam": 1001}, "beam must be at most 1000, not 1001"),
        ({"n_best": 0}, "n_best .*not 0"),
        ({"batch_tokens": -1}, "batch_tokens .*not -1"),
        ({"length_penalty": -1.0}, "length_penalty .*not -1.0"),
        ({"length_penalty": 1e308}, r"length_penalty .*between 0 and 100, not 1e\+308"),
        ({"length_penalty": 100.1}, "length_penalty .*not 100.1"),
        ({"length_penalty": float("nan")}, "length_penalty .*not nan"),
        ({"beam": 2, "n_best": 3}, "n_best 3 exceeds beam 2"),
    ],
)
def test_options_out_of_range(translator, options, message):
    with pytest.raises(InputError, match=message):
        translator.n_best(["the man"], SearchOptions(**options))


def test_out_of_memory(translator, monkeypatch):
    monkeypatch.setattr(
        translator.transformer, "encode", lambda *_: torch.empty(1 << 60, dtype=torch.uint8)
    )
    with pytest.raises(
        InputError,
        match=r"on cpu while translating 1 sentence .*\d tokens .*beam 4\. "
        r"Lower batch_tokens or beam\.$",
    ):
        translator.n_best(["the man"])


def test_other_errors_of_torch_are_not_reported_as_out_of_memory(translator, monkeypatch):
    def broken(_):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(translator.transformer, "encode", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        translator.n_best(["the man"])


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:99", "meta", "", "cpu:x", "hpu"])
def test_no_such_device(name, monkeypatch):
    """The message lists exactly the available devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "_lazy_init", _no_gpu)
    with pytest.raises(InputError, match=rf"^device {name} is not available .*: cpu\.$"):
        choose_device(name)


def _no_gpu():
    raise RuntimeError("no GPU")


def test_choice_of_a_device(monkeypatch):
    assert choose_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(None).type == "cpu"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match="Choose one of: cpu, cuda:0, cuda:1"):
        choose_device("gpu")


def test_n_best_lists_hold_different_texts(translator, monkeypatch):
    """Hypotheses with equal texts count once, and the list still has the requested length."""
    decode = translator.tokenizer.decode
    monkeypatch.setattr(translator.tokenizer, "decode", lambda ids: decode(ids).replace("e", "a"))
    options = SearchOptions(beam=8, n_best=4)
    found = translator.n_best(short(20), options)
    assert sum(len(best) == 4 for best in found) > 2
    assert all(len({each.text for each in best}) == len(best) for best in found)
    [joined] = translator.n_best([". ".join(sentences(12))], options)
    assert len({each.text for each in joined}) == len(joined) > 1


def test_samples_do_not_depend_on_batches(translator):
    texts = short(12)
    options = {"sample": True, "n_best": 11, "seed": 3}  # two rows of six samples
    together = translator.n_best(texts, SearchOptions(**options))
    tokens = [[each.tokens for each in best] for best in together]
    for batch_tokens in (1, 500):
        again = translator.n_best(texts, SearchOptions(**options, batch_tokens=batch_tokens))
        assert [[each.tokens for each in best] for best in again] == tokens
    again = translator.n_best(texts[::-1], SearchOptions(**options))
    assert [[each.tokens for each in best] for best in again[::-1]] == tokens
    for best in together:
        assert len(best) == 11
        assert [each.score for each in best] == sorted((e.score for e in best), reverse=True)
    assert max(len({each.text for each in best}) for best in together) > 8
    other = translator.n_best(texts, SearchOptions(**options | {"seed": 4}))
    assert [b[0].text for b in other] != [b[0].text for b in together]
    assert translator.translate(texts, SearchOptions(sample=True)) == translator.translate(
        texts, SearchOptions(sample=True, seed=1)
    )


def test_the_coldest_samples_are_greedy(translator):
    texts = short(20)
    greedy = [each.tokens for each in translator.translate(texts, SearchOptions(beam=1))]
    for options in ({"top_k": 1}, {"temperature": 0.001}, {"top_p": 0.001}):
        found = translator.translate(texts, SearchOptions(sample=True, **options))
        assert [each.tokens for each in found] == greedy


def test_mbr_selects_the_sample_most_similar_to_all_samples(translator):
    """MBR decoding selects the same sample as sacreBLEU's pairwise chrF."""
    texts, common = short(4), {"temperature": 0.5, "seed": 2}
    samples = translator.n_best(texts, SearchOptions(sample=True, n_best=12, **common))
    found = translator.n_best(texts, SearchOptions(mbr=12, n_best=3, **common))
    for drawn, best in zip(samples, found, strict=True):
        likeness = {
            one.text: np.mean(
                [sacrebleu.sentence_chrf(one.text, [other.text]).score for other in drawn]
            )
            for one in drawn
        }
        expected = sorted(likeness.values(), reverse=True)[:3]
        assert [each.score for each in best] == pytest.approx(expected)
        assert [likeness[each.text] for each in best] == pytest.approx(expected)
        assert len({each.text for each in best}) == len(best)


def test_progress_counts_parts_with_any_search(translator):
    for options in (SearchOptions(beam=2), SearchOptions(mbr=20, batch_tokens=500)):
        counted: list[int] = []
        translator.translate(short(9), options, progress=counted.append)
        assert sum(counted) == 9


def test_translations_begin_with_their_prefixes(translator, tokenizer):
    texts = [*short(8), "", ". ".join(sentences(12))]
    prefixes = ["the man", "", "dog  ", "a book"] * 2 + ["the", "his dog"]
    for options in (SearchOptions(beam=3), SearchOptions(sample=True)):
        found = translator.translate(texts, options, prefix=prefixes)
        assert all(f.text.startswith(p.strip()) for f, p in zip(found[:8], prefixes, strict=False))
        assert found[1].tokens == translator.translate(texts[1], options).tokens
        assert found[8] == EMPTY
        assert found[9].parts > 1 and found[9].text.startswith("his dog")
        assert found[9].text.count("his dog") < found[9].parts
        alone = translator.translate(texts[0], options, prefix="the man")
        assert alone.tokens == found[0].tokens
    free = translator.translate(texts[0])
    content = free.tokens[:-1] if free.tokens[-1] == EOS_ID else free.tokens
    for n in range(len(content)):
        begun = tokenizer.decode(content[:n])
        if begun and tokenizer.encode(begun) == content[:n] and begun == begun.strip():
            again = translator.translate(texts[0], prefix=begun)
            assert again.text.startswith(begun) and again.score >= free.score - 1e-5


def test_a_translation_can_continue_after_a_prefix_longer_than_the_source(translator):
    found = translator.translate("a", prefix=" ".join(["the"] * 5))
    assert len(found.tokens) > 20 and found.text.startswith("the the the the the")


@pytest.mark.parametrize(
    ("source", "prefix", "extra", "positions", "expected"),
    [(5, 0, 0, [None], 5), (5, 2, 3, [None], 8), (2, 5, 3, [None], 8), (2, 5, 0, [None], 6),
     (5, 2, 3, [7], 7), (5, 2, 3, [9, 7], 7), (5, 2, 3, [7, 9], 7)],
)  # fmt: skip
def test_maximum_number_of_tokens_of_a_translation(source, prefix, extra, positions, expected):
    """The maximum depends on source, prefix, EOS and the positions of all models."""
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 8, "heads": 2}
    kinds = [{"positions": "learned"} if n else {} for n in positions]
    models = [
        Transformer(Model(**sizes, **kind), 20, n or 40).eval()
        for n, kind in zip(positions, kinds, strict=True)
    ]
    for model in models:
        model.initialize(1)
    endless = BatchedSearch(models, Decoding(max_extra_length=extra), tuple, untrained=[EOS_ID])
    [[best]] = endless.find([SearchInput([5] * source, [6] * prefix)], SearchOptions(beam=2))
    assert len(best.tokens) == expected


@pytest.mark.parametrize(
    ("prefix", "message"),
    [(["a"], "prefix has 1 string for 2 sentences"),
     (["a", "b", "c"], "has 3 strings for 2 sentences"),
     ("the " * 50, r'prefix "(the ){15}…" has \d+ tokens, .* 23\.')],
)  # fmt: skip
def test_prefixes_that_are_too_long(translator, prefix, message):
    with pytest.raises(InputError, match=message):
        translator.n_best(["the", "man"], prefix=prefix)


def test_next_tokens_are_those_of_the_whole_model(translator, tokenizer):
    text, prefix = "the old man reads", "his dog"
    source = torch.tensor([[*tokenizer.encode(text), EOS_ID]])
    begun = tokenizer.encode(prefix)
    with torch.inference_mode():
        hidden = translator.transformer(
            Tokens.of_rows(source), Tokens.of_rows(torch.tensor([[BOS_ID, *begun]]))
        )
        p = translator.transformer.logits(hidden)[0, -1].softmax(-1)
        p[[0, 1, 3]] = 0
    found = translator.next_tokens(text, prefix, k=5)
    assert [each.token for each in found] == p.topk(5).indices.tolist()
    assert [each.probability for each in found] == pytest.approx(
        p.topk(5).values.tolist(), rel=1e-4
    )
    assert [each.piece for each in found] == tokenizer.pieces([each.token for each in found])
    assert all(each.text == tokenizer.decode([*begun, each.token]).strip() for each in found
               if each.token > 259)  # fmt: skip
    best = translator.translate(text, SearchOptions(beam=1)).tokens[0]
    assert translator.next_tokens(text, k=1)[0].token == best
    assert len(translator.next_tokens(text, k=10**6)) == VOCABULARY - 3
    assert translator.next_tokens("  ") == []
    for wrong, message in (
        ((text, "", 0), "k .*not 0"),
        (("the man " * 50,), "more than 23 tokens"),
    ):
        with pytest.raises(InputError, match=message):
            translator.next_tokens(*wrong)


def test_no_ngram_occurs_twice(translator):
    found = translator.n_best(short(20), SearchOptions(n_best=3, no_repeat_ngram=2))
    for best in found:
        for each in best:
            ngrams = list(itertools.pairwise(each.tokens))
            assert len(ngrams) == len(set(ngrams))
    free = translator.translate(short(20))
    assert any(len(set(p)) < len(p) for f in free for p in [list(itertools.pairwise(f.tokens))])


def test_several_models_average_their_probabilities(translator, tokenizer):
    """The log-probability is that of teacher forcing with the mean of the probabilities."""
    other = new_transformer(translator.config).eval()
    other.initialize(2)
    both = Translator.of(translator.transformer, tokenizer, translator.config, others=[other])
    texts = short(6)
    found = both.translate(texts, SearchOptions(beam=3))
    for text, each in zip(texts, found, strict=True):
        pair = Pair(np.array([*tokenizer.encode(text), EOS_ID]), np.array(each.tokens))
        batch = one_per_row([pair])
        with torch.inference_mode():
            p = torch.stack([
                model.logits(model(batch.src, batch.tgt_in)).softmax(-1)
                for model in (translator.transformer, other)
            ]).mean(0)[0]  # fmt: skip
        logs = p.gather(1, torch.tensor(each.tokens)[:, None]).log()
        assert each.log_probability == pytest.approx(float(logs.sum()), abs=1e-3)
    same = Translator.of(
        translator.transformer, tokenizer, translator.config, others=[translator.transformer]
    )
    assert [f.tokens for f in same.translate(texts)] == [
        f.tokens for f in translator.translate(texts)
    ]


def test_alignments_number_the_words_of_whole_texts(translator, monkeypatch):
    """Each target word is linked to the last word of its part, by its number in the whole text."""

    def at_the_last_token(transformers, pairs):
        return [np.eye(len(src))[[-2] * len(tgt)] for src, tgt in pairs]

    monkeypatch.setattr("nmt.decoding.batched_search.cross_attention", at_the_last_token)
    text = ". ".join(sentences(12))
    options = SearchOptions(beam=2, align=True)
    [found] = translator.n_best([text], options)
    expected, words = [], 0
    for part in parts_of(translator, text):
        words += len(part.split())
        translated = translator.translate(part, options).text.split()
        expected += [(words - 1, len(expected) + n) for n in range(len(translated))]
    assert found[0].alignment == expected and found[0].parts > 3
    assert len(expected) == len(found[0].text.split())
    assert translator.translate(text).alignment is None
    assert translator.translate("", options).alignment is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": True, "n_best": 1001}, "n_best must be at most 1000, not 1001"),
        ({"mbr": 10**9}, "mbr must be at most 1000, not 1000000000"),
        ({"mbr": 0}, "mbr .*not 0"),
        ({"mbr": 3, "n_best": 4}, "n_best 4 exceeds mbr 3"),
        ({"sample": True, "beam": 2}, "beam 2 conflicts with sample"),
        ({"mbr": 2, "beam": 2}, "beam 2 conflicts with mbr"),
        ({"top_k": 2}, "top_k 2 applies to sampling only. Add sample or mbr"),
        ({"temperature": 1.0}, "temperature 1.0 applies to sampling"),
        ({"top_p": 0.5}, "top_p 0.5 applies to sampling"),
        ({"seed": 0}, "seed 0 applies to sampling"),
        ({"sample": True, "temperature": 0.0}, "temperature .*between 0.001 and 100, not 0.0"),
        ({"sample": True, "temperature": float("nan")}, "temperature .*not nan"),
        ({"sample": True, "top_p": 1.5}, "top_p .*between 0.001 and 1, not 1.5"),
        ({"sample": True, "top_k": 0}, "top_k .*not 0"),
        ({"sample": True, "seed": -1}, "seed .*not -1"),
        ({"no_repeat_ngram": 0}, "no_repeat_ngram .*not 0"),
    ],
)
def test_options_that_cannot_be_combined(options, message):
    with pytest.raises(InputError, match=message):
        SearchOptions(**options)


@pytest.mark.parametrize("options", [{"beam": 4, "n_best": 4}, {"beam": 1}, {"mbr": 8}], ids=str)
def test_steps_with_static_buffers_find_the_same_translations(translator, options, monkeypatch):
    """As on a GPU, three batches take turns, each with its own buffers. The second call reuses the
    buffers of the first.
    """
    search = SearchOptions(**options, batch_tokens=100)
    expected = translator.n_best(short(9), search, prefix="der")
    pool, taken = DecodeBufferPool(translator.transformer), []
    monkeypatch.setattr(translator.search, "buffers", [pool])
    monkeypatch.setattr(translator.search, "batches_at_once", 3)
    acquire = pool.acquire
    monkeypatch.setattr(pool, "acquire", lambda size: taken.append(acquire(size)) or taken[-1])
    monkeypatch.setattr(batched_search, "Stepper", None)
    for _ in range(2):
        found = translator.n_best(short(9), search, prefix="der")
        for ours, theirs in zip(found, expected, strict=True):
            assert [each.tokens for each in ours] == [each.tokens for each in theirs]
            assert [e.score for e in ours] == pytest.approx([e.score for e in theirs], abs=1e-4)
    assert "mbr" in options or len({id(buffers) for buffers in taken[1:4]}) == 3
