"""Contrastive accuracy of 20 pairs by hand, compared with `nmt score`, and messages."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.cli import main
from nmt.decoding.score import score_translations
from nmt.demo_language import contrastive_pairs
from nmt.errors import InputError
from nmt.evaluation.contrastive import Accuracy, contrastive_accuracy, read_contrastive
from nmt.translator import Translator
from tests.fixtures.make import TRAINED

# log-probability of the right and of the wrong translation of each pair
SCORES = {
    "case": [(-1, -2), (-2, -1), (-3, -3), (-0.5, -0.6), (-7, -9), (-1, -4), (-2, -8)],
    "negation": [(-1, -2), (-9, -1), (-3, -1), (-0.5, -0.6), (-7, -9), (-1, -4), (-2, -8), (0, -1)],
    "verb": [(-5, -4.9), (-2, -1), (-3, -2), (-1, -2), (-7, -2)],
}
RIGHT = {"case": 5, "negation": 6, "verb": 1}  # counted by hand; equal scores are not right


def line(*cells: str) -> str:
    return "\t".join(cells) + "\n"


def test_twenty_pairs_by_hand(tmp_path: Path, monkeypatch):
    scores, lines = {}, []
    for category, pairs in SCORES.items():
        for number, (right, wrong) in enumerate(pairs):
            texts = [f"{category} {number} {name}" for name in ("right", "wrong")]
            scores |= zip(texts, (right, wrong), strict=True)
            lines.append(line("source", *texts, category))
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(lines[::2] + lines[1::2]))  # categories are mixed

    def scored(model, sources, targets):
        return [SimpleNamespace(log_probability=scores[target]) for target in targets]

    monkeypatch.setattr("nmt.decoding.score.score_translations", scored)
    translator = Translator.load(TRAINED / "run", precision="fp32")
    found = contrastive_accuracy(translator, read_contrastive(file), file)
    assert {name: each.right for name, each in found.categories.items()} == RIGHT
    assert {name: each.pairs for name, each in found.categories.items()} == {
        "case": 7, "negation": 8, "verb": 5,
    }  # fmt: skip
    assert (found.total.pairs, found.total.right, found.total.accuracy) == (20, 12, 0.6)


def test_wilsons_interval():
    """Compared with the roots of (p - q)^2 = z^2 q (1 - q) / n in q."""
    for right, pairs in ((18, 20), (0, 5), (7, 7), (500, 1000)):
        found = Accuracy.of([True] * right + [False] * (pairs - right))
        for bound in found.interval:
            spread = 1.96**2 * bound * (1 - bound) / pairs
            assert (right / pairs - bound) ** 2 == pytest.approx(spread, abs=1e-12)
        assert found.interval[0] < found.interval[1]


def test_pairs_are_scored_as_nmt_score_does(tmp_path: Path):
    pairs = list(contrastive_pairs(4, 1, "test"))
    file = tmp_path / "pairs.tsv"
    cells = ((pair.source, pair.right, pair.wrong, pair.phenomenon) for pair in pairs)
    file.write_text("".join(line(*each) for each in cells))
    translator = Translator.load(TRAINED / "run", precision="fp32")
    found = contrastive_accuracy(translator, read_contrastive(file), file)
    sources = [pair.source for pair in pairs]
    sides = ([pair.right for pair in pairs], [pair.wrong for pair in pairs])
    right, wrong = (list(score_translations(translator, sources, side)) for side in sides)
    results = [
        (pair.phenomenon, a.log_probability > b.log_probability)
        for pair, a, b in zip(pairs, right, wrong, strict=True)
    ]
    assert 0 < found.total.right < found.total.pairs == 24  # a model that knows little
    for name, each in found.categories.items():
        assert each.right == sum(is_right for category, is_right in results if category == name)


GOOD = line("The man reads.", "Der Mann liest.", "Der Mann lesen.", "agreement")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "{}/pairs.tsv is empty. Each line must contain a source sentence, "),
        (GOOD + line("a", "b", "c"),
         "{}/pairs.tsv:2: The line has 3 columns, not 4. Each line must contain a source "
         "sentence, a correct translation, an incorrect translation and a category, separated by "
         "tabs."),
        (GOOD + "\n", "{}/pairs.tsv:2: The line has 1 column, not 4. "),
        (line("a", "b", " ", "x"),
         "{}/pairs.tsv:1: The incorrect translation is empty. Fill it in."),
        (line("a", "b", "b ", "x"),
         "{}/pairs.tsv:1: The correct and the incorrect translation are identical. "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["evaluate {run}", "report {run} --output {folder}/new.html"])
def test_a_bad_file_is_one_line(text: str, message: str, command: str, tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text(text)
    words = command.format(run=TRAINED / "run", folder=tmp_path).split()
    assert main([*words, "--contrastive", str(tmp_path / "pairs.tsv")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"nmt: error: {message.format(tmp_path)}")


def test_a_text_that_is_too_long_is_named(tmp_path: Path):
    file = tmp_path / "pairs.tsv"
    file.write_text(GOOD + line("a", "b", "c " * 3000, "x"))
    translator = Translator.load(TRAINED / "run", precision="fp32")
    with pytest.raises(InputError, match=r"pairs.tsv:2: .* has more than 2,048 tokens\."):
        contrastive_accuracy(translator, read_contrastive(file), file)
    assert len(read_contrastive(file)) == 2


def test_translations_that_differ_only_in_spaces_are_named(tmp_path: Path):
    file = tmp_path / "pairs.tsv"
    file.write_text(GOOD + line("a", "b c", "b  c", "x"))
    translator = Translator.load(TRAINED / "run", precision="fp32")
    with pytest.raises(InputError, match=r"pairs.tsv:2: .* have the same tokens"):
        contrastive_accuracy(translator, read_contrastive(file), file)
