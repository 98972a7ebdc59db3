"""Invisible differences in pasted text do not change how it is translated, scored and prepared."""

from itertools import cycle, islice
from pathlib import Path

import pytest

from nmt.config import Config, validate
from nmt.data import cleaning
from nmt.data.prepare import prepare
from nmt.data.prepared_data import PreparedData
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.score import score_translations
from nmt.demo_language import demo_pairs
from nmt.evaluation.attention_maps import attention_of
from nmt.runs.model_directory import new_transformer
from nmt.translator import Translator, combine
from tests.conftest import make_settings
from tests.tiny import tiny_settings

SENTENCES = [pair.source for pair in demo_pairs(40, 3, "test")]


def in_a_word(text: str, character: str) -> str:
    """Puts a character into the middle of the longest word."""
    word = max(text.split(" "), key=len)
    return text.replace(word, word[: len(word) // 2] + character + word[len(word) // 2 :], 1)


WAYS = {
    "non-breaking": lambda text: text.replace(" ", "\u00a0"),
    "one non-breaking": lambda text: text.replace(" ", "\u00a0", 1),
    "thin": lambda text: text.replace(" ", "\u2009"),
    "narrow": lambda text: text.replace(" ", "\u202f"),
    "ideographic": lambda text: text.replace(" ", "\u3000"),
    "double": lambda text: text.replace(" ", "  "),
    "leading": lambda text: f"  {text}",
    "trailing": lambda text: f"{text} \u00a0",
    "tab": lambda text: text.replace(" ", "\t", 1),
    "line ending of Windows": lambda text: f"{text}\r",
    "soft hyphen": lambda text: in_a_word(text, "\u00ad"),
    "zero-width": lambda text: in_a_word(text, "\u200b"),
    "word joiner": lambda text: text.replace(" ", " \u2060"),
    "byte order mark": lambda text: f"\ufeff{text}",
}


@pytest.fixture(scope="module")
def translator(tiny_data: Path) -> Translator:
    """An untrained model; any change of its input tokens changes its output."""
    config = make_settings(tiny_data, tiny_data)
    transformer = new_transformer(config).eval()
    transformer.initialize(1)
    return Translator.of(transformer, Tokenizer.load(tiny_data / "data/tokenizer.model"), config)


@pytest.mark.parametrize("way", WAYS)
def test_only_visible_characters_change_a_translation(translator, way: str):
    pasted = [WAYS[way](sentence) for sentence in SENTENCES]
    assert all(text != sentence for text, sentence in zip(pasted, SENTENCES, strict=True))
    assert translator._cutter.cut(pasted) == translator._cutter.cut(SENTENCES)


def test_scores_attention_and_translations_ignore_invisible_characters(translator):
    plain, *ways = SENTENCES[0], *(way(SENTENCES[0]) for way in WAYS.values())
    usual = attention_of(translator, plain)
    assert attention_of(translator, ways[0], ways[1]).source_pieces == usual.source_pieces
    others = [plain] * len(ways)
    [expected] = score_translations(translator, [plain], [plain])
    for sources, targets in ((ways, others), (others, ways)):
        found = [*score_translations(translator, sources, targets)]
        assert {tuple(each.pieces) for each in found} == {tuple(expected.pieces)}
        for each in found:
            assert each.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
    [first, *others] = translator.translate([plain, *ways])
    assert {other.text for other in others} == {first.text}


def pasted_lines(texts: list[str]) -> list[str]:
    """Returns lines as pasted from a web page: bullets, numbers, indentation, `WAYS` in turn."""
    marks = cycle(["\u2022\t", "\u00b7\u00a0", "  ", "", "1.\u2003", "\u2013 "])
    ways = cycle(WAYS.values())
    return [f"{next(marks)}{next(ways)(text)}".removesuffix("\r") for text in texts]


def pasted_config(folder: Path) -> Config:
    pairs = list(islice(demo_pairs(200, 1, "train"), 150))
    files = {
        "en": pasted_lines([pair.source for pair in pairs]),
        "de": pasted_lines([pair.target for pair in pairs]),
    }
    for language, lines in files.items():
        (folder / language).write_bytes("".join(f"{line}\n" for line in lines).encode())
    content = tiny_settings(folder)
    text = {"text": {"source": str(folder / "en"), "target": str(folder / "de")}}
    content["data"] |= {"train": [text], "validation": [], "test": [], "max_length": 200}
    return validate(content, {}, "test")


def test_pasted_text_is_prepared_and_translated_in_the_same_way(tmp_path: Path):
    config = pasted_config(tmp_path)
    prepare(config, note=lambda line: None, processes=1)
    data = PreparedData.of(config)
    [corpus], [shard] = data.manifest["corpora"], data.shards("train")
    assert corpus["pairs"] == len(shard) == 150
    assert corpus["repaired"][cleaning.SPACING] > 120
    tokenizer = Tokenizer.load(tmp_path / "data/tokenizer.model")
    translator = Translator.of(new_transformer(config), tokenizer, config)
    lines = (tmp_path / "en").read_bytes().decode().split("\n")[:-1]
    cut = translator._cutter.cut(lines)
    assert [[*shard.source[i][:-1].tolist()] for i in range(150)] == [part for [part] in cut]


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["a b.", "c d."], "a b. c d."),
        (["これは本です。", "それは犬です。"], "これは本です。それは犬です。"),
        (["他说：", "“好。”", "我们走吧"], "他说：“好。”我们走吧"),
        (["我有3", "本书"], "我有3本书"),
        (["이것은 책이다.", "저것은 개다."], "이것은 책이다. 저것은 개다."),
        (["", "a", "", "b"], "a b"),
    ],
)
def test_parts_of_chinese_and_japanese_are_joined_without_a_space(translator, parts, whole):
    [[found]] = translator.n_best(["The man"])
    translations = [[type(found)(part, -1.0, -1.0, [2], 1)] for part in parts]
    assert combine(translations)[0].text == whole
