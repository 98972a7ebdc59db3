"""The Translator on a small random Transformer and a small real tokenizer."""

import io
import random

import pytest
import torch

from nmt.config import Config, validate
from nmt.data.cleaning import keep_spacing, normalize
from nmt.data.tokenizer import Tokenizer, train_tokenizer
from nmt.decoding.lines import LineOptions, translate_stream
from nmt.decoding.translator import (
    EMPTY,
    SearchOptions,
    Translation,
    Translator,
    choose_device,
    combine,
)
from nmt.errors import InputError
from nmt.model.special_ids import BOS_ID, EOS_ID
from nmt.model.stepper import Stepper
from nmt.model.tokens import Tokens
from nmt.runs.model_directory import new_transformer
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
    with torch.no_grad():  # sharper than at birth, repeats itself less, finds ends
        transformer.embedding.mul_(3)
        transformer.decoder_norm.weight.normal_(generator=torch.Generator().manual_seed(1))
        transformer.decoder_norm.bias.copy_(transformer.embedding[EOS_ID] * 0.6)
    return Translator(transformer, tokenizer, config)


def sentences(n: int) -> list[str]:
    rng = random.Random(2)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) for _ in range(n)]


def test_r19_fuzzed_lines_whatever_the_batch_size(translator):
    """As many lines as came, blank ones blank, and the same bytes for any --batch-tokens."""
    data = b"\n".join([*fuzzed_lines(249, seed=5, longest=50), b"the man"])
    outputs = []
    for batch_tokens in (1, 500, None):
        target, options = io.BytesIO(), SearchOptions(beam=2, batch_tokens=batch_tokens)
        translate_stream(translator, io.BytesIO(data), target, options=LineOptions(search=options))
        outputs.append(target.getvalue())
    assert outputs[0] == outputs[1] == outputs[2]
    lines = outputs[0].decode().removesuffix("\n").split("\n")
    assert len(lines) == 250
    for line, came in zip(lines, data.split(b"\n"), strict=True):
        assert len(line.splitlines()) <= 1 and "\t" not in line
        if not normalize(came.decode(errors="replace")).strip():
            assert line == ""


def test_r19_independent_of_batch_size_and_order(translator):
    texts = sentences(60)
    together = translator.n_best(texts)
    finished = sum(best[0].tokens[-1] == EOS_ID for best in together)
    assert 0 < finished < 60
    for batch_tokens in (1, 300, 2000):
        apart = translator.n_best(texts, SearchOptions(batch_tokens=batch_tokens))
        assert [b[0].tokens for b in apart] == [b[0].tokens for b in together]
    shuffled = random.Random(3).sample(range(60), 60)
    again = translator.n_best([texts[i] for i in shuffled])
    assert [b[0].tokens for b in again] == [together[i][0].tokens for i in shuffled]


@pytest.mark.parametrize(("beam", "bound"), [(1, 300), (4, 300), (4, 20)])
def test_batches_are_as_large_as_their_bound_allows(translator, monkeypatch, beam, bound):
    """It counts the padded source and the longest translation of each hypothesis."""
    batches = []

    def recording(transformer, src, beam, max_length):
        batches.append((len(src), src.shape[1] + beam * max_length))
        return Stepper(transformer, src, beam, max_length)

    monkeypatch.setattr("nmt.decoding.translator.Stepper", recording)
    found = translator.translate(sentences(60), SearchOptions(beam=beam, batch_tokens=bound))
    assert sum(size for size, _ in batches) == sum(each.parts for each in found)
    assert all(size == 1 or size * tokens <= bound for size, tokens in batches)
    assert all((size + 1) * tokens > bound for size, tokens in batches[:-1])


@pytest.mark.parametrize("window", [None, 3])
def test_log_probability_is_the_models_own(translator, tokenizer, window, monkeypatch):
    """Teacher forcing gives the tokens found the log-probability that the search reports."""
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
    other = Translator(translator.transformer, tokenizer, config)
    texts = sentences(20)
    by_default = other.n_best(texts)
    assert by_default == other.n_best(texts, SearchOptions(beam=1, length_penalty=2.0))
    assert by_default != other.n_best(texts, SearchOptions(beam=3, length_penalty=0.0))
    unpaid = other.n_best(texts, SearchOptions(length_penalty=0.0))
    assert all(best.score == best.log_probability for [best] in unpaid)
    for text, [best] in zip(texts, by_default, strict=True):
        assert len(best.tokens) <= len(tokenizer.encode(text))


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u3000\u2028", "\ufeff", "\x00", "\r"])
def test_blank_calls_no_model(translator, blank, monkeypatch):
    monkeypatch.setattr(translator.transformer, "encode", None)
    assert translator.n_best([blank], SearchOptions(n_best=2)) == [[EMPTY]]


def parts_of(translator: Translator, text: str) -> list[str]:
    [parts] = translator._cut([text])
    assert all(0 < len(part) < translator.config.data.max_length for part in parts)
    texts = [translator.tokenizer.decode(part) for part in parts]
    assert all(text.strip() for text in texts)
    return texts


def test_long_lines_are_cut_where_it_hurts_least(translator):
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
    assert len(translator.tokenizer.encode(as_long_as_can_be)) == 23  # and the end symbol
    assert parts_of(translator, as_long_as_can_be) == [as_long_as_can_be]


@pytest.mark.parametrize(
    "text",
    ["。" * 200 + " ", "x。" + "y" * 90, ". " * 300, "a " + "b" * 900, "é" * 500, "! ! " * 99,
     "これは本です。" * 10],
)  # fmt: skip
def test_cutting_ends_and_loses_nothing(translator, text):
    """But white space; a cut may go between the bytes of a character."""
    parts_of(translator, text)
    [parts] = translator._cut([text])
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
def test_strange_text_reaches_the_model_whole(translator, text, taken):
    assert parts_of(translator, text) == [taken]
    [[found]] = translator.n_best([text])
    assert found.parts == 1 and found.tokens and len(found.text.splitlines()) <= 1


def test_bf16(translator, tokenizer):
    """The same code runs in bf16 and finds, mostly, the same words."""
    transformer = new_transformer(translator.config).eval()
    transformer.load_state_dict(translator.transformer.state_dict())
    lower = Translator(transformer.to(torch.bfloat16), tokenizer, translator.config)
    texts = sentences(10)
    pairs = zip(lower.n_best(texts), translator.n_best(texts), strict=True)
    differences = sorted(abs(a[0].score - b[0].score) for a, b in pairs)
    assert differences[5] < 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam 0"),
        ({"beam": 1001}, "at most 1000, beam 1001"),
        ({"n_best": 0}, "n_best 0"),
        ({"batch_tokens": -1}, "batch_tokens -1"),
        ({"length_penalty": -1.0}, "length_penalty -1.0"),
        ({"length_penalty": 1e308}, r"from 0 to 100, length_penalty 1e\+308"),
        ({"length_penalty": 100.1}, "length_penalty 100.1"),
        ({"length_penalty": float("nan")}, "length_penalty nan"),
        ({"beam": 2, "n_best": 3}, "n_best 3 with beam 2, raise beam or lower n_best"),
    ],
)
def test_options_out_of_range(translator, options, message):
    with pytest.raises(InputError, match=message):
        translator.n_best(["the man"], SearchOptions(**options))


def test_no_part_of_a_long_line_is_blank(translator, monkeypatch):
    monkeypatch.setattr(translator.tokenizer, "normalize", keep_spacing)
    [parts] = translator._cut(["the" + " " * 999 + "man" + " " * 999])
    assert [translator.tokenizer.decode(part).strip() for part in parts] == ["the", "man"]


def test_out_of_memory(translator, monkeypatch):
    monkeypatch.setattr(
        translator.transformer, "encode", lambda *_: torch.empty(1 << 60, dtype=torch.uint8)
    )
    with pytest.raises(InputError, match=r"out of memory, 1 sentences of \d tokens with beam 4 on"):
        translator.n_best(["the man"])


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:99", "meta", "", "cpu:x", "hpu"])
def test_no_such_device(name, monkeypatch):
    """Those that there are are named, and no others."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "_lazy_init", _no_gpu)
    with pytest.raises(InputError, match=rf"no such device, device {name}, .* there is: cpu$"):
        choose_device(name)


def _no_gpu():
    raise RuntimeError("no GPU")


def test_devices_there_are(monkeypatch):
    assert choose_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(None).type == "cpu"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match="name one there is: cpu, cuda:0, cuda:1"):
        choose_device("gpu")
