"""The measurement of glossaries, with a small model: lexicon, choice of terms, and table."""

import pytest

from nmt.errors import InputError
from recipes.glossaries import glossaries
from tests.fixtures.make import TRAINED


def test_words_that_occur_together_are_terms():
    pairs = [("the dog sleeps", "der Hund schläft"), ("the cat sleeps", "die Katze schläft")] * 3
    pairs += [("the dog", "der Hund"), ("the cat", "die Katze")] * 3
    known = glossaries.lexicon(pairs)
    assert known["dog"] == {"der", "Hund"} and known["cat"] == {"die", "Katze"}
    assert glossaries.terms_of("a dog", "ein Hund", known) == [("dog", "Hund")]
    assert not glossaries.terms_of("dog dog", "Hund", known)


def test_a_glossary_of_one_term_per_sentence_is_kept(tmp_path, capsys):
    for side in ("en", "de"):
        text = (TRAINED / f"test.{side}").read_text(encoding="utf-8")
        (tmp_path / side).write_text(text * 5, encoding="utf-8")
    tests = [str(TRAINED / f"test.{side}") for side in ("en", "de")]
    texts = [str(tmp_path / side) for side in ("en", "de")]
    glossaries.main([str(TRAINED / "run"), "--training", *texts, "--test", *tests])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[-1] for row in rows[1:]][1::2] == ["100.0%", "100.0%"]
    assert float(rows[4][-2]) > float(rows[3][-2]) + 1  # chrF rises


def test_unequal_files_are_refused(tmp_path):
    (tmp_path / "de").write_text("eins\n")
    texts = [str(TRAINED / "test.en"), str(tmp_path / "de")]
    with pytest.raises(InputError, match=r"test\.en has \d+ source lines, but .*de has 1 ref"):
        glossaries.main([str(TRAINED / "run"), "--training", *texts, "--test", *texts])
