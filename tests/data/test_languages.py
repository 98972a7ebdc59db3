"""Confused languages: swapped files, one file on both sides, invalid codes."""

from itertools import islice
from pathlib import Path

import pytest
import yaml

from nmt.cli import main
from nmt.data.languages import code_problem, is_translated, misplaced, wrong_languages
from nmt.data.prepared_data import PreparedData
from nmt.demo_language import demo_pairs
from tests.tiny import tiny_settings

EN = [pair.source for pair in islice(demo_pairs(60, 1, "train"), 60)]
DE = [pair.target for pair in islice(demo_pairs(60, 1, "train"), 60)]
NEW_EN = [pair.source for pair in islice(demo_pairs(20, 1, "validation"), 20)]
NEW_DE = [pair.target for pair in islice(demo_pairs(20, 1, "validation"), 20)]


SWAPPED = "The source and target of b look swapped. Exchange its files or columns, or data.source_"


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        (NEW_EN, NEW_DE, None),
        (NEW_DE, NEW_EN, SWAPPED + "language (en) and data.target_language (de)"),
        (NEW_EN, NEW_EN, "The target of b looks like en, not de. Check its files or columns, or"),
        (NEW_DE, NEW_DE, "The source of b looks like de, not en."),
        (NEW_DE[:9], NEW_EN[:9], None),  # too little to tell
        ([], [], None),
        (["123"] * 20, ["?"] * 20, None),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_known_languages_are_told_by_their_words(source, target, told, place: int):
    corpora = [("a", EN, DE), ("c", NEW_EN, NEW_DE)]
    corpora.insert(place, ("b", source, target))
    found = misplaced(corpora, "en", "de")
    assert len(found) == (told is not None)
    assert found == [] or found[0].startswith(told)


def test_languages_that_are_not_known_are_compared_with_the_first_corpus():
    """Tested with known languages under unknown codes."""
    corpora = [("a", EN, DE), ("b", NEW_DE, NEW_DE), ("c", NEW_EN, NEW_DE)]
    [found] = misplaced(corpora, "xx", "yy")
    assert found.startswith("The source of b looks like yy, not xx") and "the target of a" in found


def test_a_language_like_a_known_one_is_not_taken_for_it():
    norwegian = ["Jeg vet ikke om det er på tide at vi drar, og han kommer til byen."] * 20
    danish = ["Jeg ved ikke, om det er på tide, at vi tager af sted, og han er i byen."] * 20
    for codes in (("da", "no"), ("no", "da")):
        sides = [danish if code == "da" else norwegian for code in codes]
        assert misplaced([("a", *sides)], *codes) == []


def test_languages_without_spaces_and_one_language_on_both_sides():
    """Sides in one language, as in paraphrases, are similar to each other."""
    japanese, chinese = (
        ["私は本を読みます。", "彼女は学校へ行きます。"] * 10,
        ["我看书。", "她去学校。"] * 10,
    )
    both = [("a", japanese, chinese), ("b", japanese, chinese)]
    assert misplaced(both, "ja", "zh") == []
    assert len(misplaced([both[0], ("b", chinese, japanese)], "ja", "zh")) == 1
    assert misplaced([("a", EN[:30], EN[30:]), ("b", NEW_EN, NEW_EN)], "en", "en") == []
    assert misplaced([("a", NEW_EN, japanese)], "en", "ja") == []
    assert "target of a look swapped" in misplaced([("a", japanese, NEW_EN)], "en", "ja")[0]


def test_prepare_tells_of_wrong_languages_before_its_long_work(tmp_path: Path, capsys):
    settings = tiny_settings(tmp_path)
    texts = {"a.en": EN, "a.de": DE, "b.en": NEW_EN, "b.de": NEW_DE}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    sides = {name: str(tmp_path / name) for name in texts}
    settings["data"] |= {
        "train": [{"text": {"source": sides["a.de"], "target": sides["a.en"]}}],
        "validation": [{"text": {"source": sides["b.en"], "target": sides["b.de"]}}],
        "test": [{"text": {"source": sides["b.de"], "target": sides["b.de"]}}],
    }
    settings["tokenizer"] = {"vocabulary_size": 340}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(settings))
    assert main(["prepare", str(path)]) == 0
    said = capsys.readouterr().err.splitlines()
    place = f"train 1 (text {sides['a.de']} {sides['a.en']})"
    expected = [
        f"The source and target of {place} look swapped. Exchange its files or columns, "
        "or data.source_language (en) and data.target_language (de).",
        f"The source of test 1 (text {sides['b.de']} {sides['b.de']}) looks like de, not en. "
        "Check its files or columns, or data.source_language.",
    ]
    assert said[:2] == [f"nmt: warning: {line}" for line in expected]
    assert PreparedData.open(tmp_path / "data").manifest["warnings"] == expected

    right = [{"text": {"source": sides["a.en"], "target": sides["a.de"]}}]
    settings["data"] |= {"directory": str(tmp_path / "right"), "train": right, "test": []}
    path.write_text(yaml.safe_dump(settings))
    assert main(["prepare", str(path)]) == 0
    assert "warning" not in capsys.readouterr().err
    assert PreparedData.open(tmp_path / "right").manifest["warnings"] == []


def test_prepare_tells_of_a_code_that_is_none(tmp_path: Path, capsys):
    settings = tiny_settings(tmp_path)
    settings["data"] |= {"source_language": "English", "validation": [], "test": []}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(settings))
    assert main(["prepare", str(path)]) == 2  # the demo's grammar knows no English
    assert capsys.readouterr().err.startswith(
        "nmt: warning: data.source_language: English is not an ISO 639 language code. Did you mean "
        "en?"
    )
    for name, lines in (("a.en", EN), ("a.de", DE)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    text = {"source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.de")}
    settings["data"]["train"] = [{"text": text}]
    settings["tokenizer"] = {"vocabulary_size": 340}
    path.write_text(yaml.safe_dump(settings))
    assert main(["prepare", str(path)]) == 0
    [warning] = PreparedData.open(tmp_path / "data").manifest["warnings"]
    assert f"nmt: warning: {warning}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tag", "hint"),
    [
        ("german", "mean de?"), ("French", "mean fr?"), ("cz", "mean cs?"), ("jp", "such as"),
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


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        (NEW_EN, NEW_DE, None),
        (NEW_DE, NEW_EN, "a looks like de, not en, and b looks like en, not de. Exchange the two"),
        (NEW_EN, NEW_EN, "b looks like en, not de. Check the files."),
        (NEW_DE, NEW_DE, "a looks like de, not en. Check the files."),
        (NEW_DE[:9], NEW_EN[:9], None),  # too little to tell
    ],
)
def test_files_of_a_test_set_in_wrong_languages(source, target, told):
    found = wrong_languages(("a", source, "en"), ("b", target, "de-AT"))
    assert found is None if told is None else str(found).startswith(told)
    assert wrong_languages(("a", source, "xx"), ("b", target, "xx")) is None  # not a known language


def test_evaluate_tells_of_another_language(tmp_path: Path, capsys):
    for name, lines in (("en", NEW_EN), ("de", NEW_DE)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    words = ["evaluate", "--reference", str(tmp_path / "de"), "--hypothesis"]
    assert main([*words, str(tmp_path / "en"), "--target-language", "de"]) == 0
    assert f"The translations for {tmp_path}/de seem to be in another language" in (
        "\n" + capsys.readouterr().err
    )
    words[2] = str(tmp_path / "en")  # the references, not the translations, are in English
    assert main([*words, str(tmp_path / "de"), "--target-language", "de"]) == 0
    [warning] = capsys.readouterr().err.splitlines()
    assert warning == f"nmt: warning: {tmp_path}/en looks like en, not de. Check the files."
    words[2] = str(tmp_path / "de")
    assert main([*words, str(tmp_path / "de"), "--target-language", "de"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert main([*words, str(tmp_path / "de"), "--target-language", "german"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("nmt: error: --target-language german is not an ISO 639 language code")
