"""Languages confused: swapped files, one file on both sides, codes that are none."""

from itertools import islice
from pathlib import Path

import pytest
import yaml

from nmt.cli import main
from nmt.data.languages import code_problem, is_translated, misplaced
from nmt.demo_language import demo_pairs
from tests.tiny import tiny_settings

EN = [pair.source for pair in islice(demo_pairs(60, 1, "train"), 60)]
DE = [pair.target for pair in islice(demo_pairs(60, 1, "train"), 60)]
NEW_EN = [pair.source for pair in islice(demo_pairs(20, 1, "validation"), 20)]
NEW_DE = [pair.target for pair in islice(demo_pairs(20, 1, "validation"), 20)]


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        (NEW_EN, NEW_DE, None),
        (NEW_DE, NEW_EN, "source and target are swapped, b or a, correct the one"),
        (NEW_EN, NEW_EN, "the target is in the language of the source of a, b, check"),
        (NEW_DE, NEW_DE, "the source is in the language of the target of a, b, check"),
        (NEW_DE[:9], NEW_EN[:9], None),  # too little to tell
        ([], [], None),
        (["123"] * 20, ["?"] * 20, None),
    ],
)
def test_corpora_are_compared_with_the_first(source, target, told):
    found = misplaced([("a", EN, DE), ("b", source, target), ("c", NEW_EN, NEW_DE)])
    assert len(found) == (told is not None)
    assert found == [] or found[0].startswith(told)


def test_languages_without_spaces_and_one_language_on_both_sides():
    """Sides of one language, as for paraphrases, are as like one another as themselves."""
    japanese, chinese = (
        ["私は本を読みます。", "彼女は学校へ行きます。"] * 10,
        ["我看书。", "她去学校。"] * 10,
    )
    assert misplaced([("a", japanese, chinese), ("b", japanese, chinese)]) == []
    assert len(misplaced([("a", japanese, chinese), ("b", chinese, japanese)])) == 1
    assert misplaced([("a", EN[:30], EN[30:]), ("b", NEW_EN, NEW_EN)]) == []


def test_prepare_tells_of_swapped_sides_and_of_codes_that_are_none(tmp_path: Path, capsys):
    settings = tiny_settings(tmp_path)
    texts = {"a.en": EN, "a.de": DE, "b.en": NEW_EN, "b.de": NEW_DE}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    sides = {name: str(tmp_path / name) for name in texts}
    settings["data"] |= {
        "train": [{"text": {"source": sides["a.de"], "target": sides["a.en"]}}],
        "validation": [{"text": {"source": sides["b.en"], "target": sides["b.de"]}}],
        "test": [{"text": {"source": sides["b.de"], "target": sides["b.de"]}}],
        "source_language": "English",
    }
    settings["tokenizer"] = {"vocabulary_size": 340}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(settings))
    assert main(["prepare", str(path)]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert said == [
        "nmt: warning: English is no language code (en?), data.source_language, "
        "write that of ISO 639",
        "nmt: warning: source and target are swapped, validation 1 or train 1, correct the one",
        "nmt: warning: the target is in the language of the source of train 1, test 1, "
        "check its files or columns",
    ]
    right = [{"text": {"source": sides["a.en"], "target": sides["a.de"]}}]
    settings["data"] |= {"directory": str(tmp_path / "right"), "train": right, "test": [],
                         "source_language": "en"}  # fmt: skip
    path.write_text(yaml.safe_dump(settings))
    assert main(["prepare", str(path)]) == 0
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tag", "hint"),
    [
        ("german", "(de?)"), ("French", "(fr?)"), ("cz", "(cs?)"), ("jp", "such as"),
        ("", "such as"), ("d", "such as"),
        *((tag, None) for tag in ("de", "DE", "zh_CN", "zh-Hant", "pt-br", "deu_Latn", "no")),
    ],
)  # fmt: skip
def test_codes(tag: str, hint: str | None):
    problem = code_problem(tag)
    assert problem is None if hint is None else hint in str(problem)


def test_translations_in_the_language_of_the_source():
    assert is_translated(NEW_DE, DE[:20], NEW_EN)
    assert is_translated(NEW_DE, DE[:20], None)
    assert not is_translated(NEW_EN, NEW_DE, EN[:20])
    assert not is_translated(NEW_EN, NEW_DE, None)
    assert is_translated(NEW_EN[:9], NEW_DE[:9], EN[:9])


def test_evaluate_tells_of_another_language(tmp_path: Path, capsys):
    for name, lines in (("en", NEW_EN), ("de", NEW_DE)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    words = ["evaluate", "--reference", str(tmp_path / "de"), "--hypothesis"]
    assert main([*words, str(tmp_path / "en"), "--target-language", "de"]) == 0
    assert "\nnmt: warning: the translations seem to be in another language, not the" in (
        "\n" + capsys.readouterr().err
    )
    assert main([*words, str(tmp_path / "de"), "--target-language", "de"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert main([*words, str(tmp_path / "de"), "--target-language", "german"]) == 2
    assert capsys.readouterr().err == (
        "nmt: error: german is no language code (de?), --target-language, give that of ISO 639\n"
    )
