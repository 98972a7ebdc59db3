"""Parts of the comparison of exports; tests/export/test_export.py runs a whole comparison."""

from pathlib import Path

import pytest

from nmt.errors import InputError
from recipes.exports import compare, timed
from tests.fixtures.make import TRAINED


def test_lines_come_back_in_their_order_and_blank_ones_empty():
    batches = []

    def reversing(texts: list[str]) -> list[str]:
        batches.append(len(texts))
        return [text[::-1] for text in texts]

    lines = ["abc", "", "ab", "abcd", " ", "a"]
    assert timed.in_batches(reversing, lines, 2) == ["cba", "", "ba", "dcba", "", "a"]
    assert batches == [2, 2]


@pytest.mark.parametrize("name", compare.EXPORTS)
def test_every_export_is_translated_by_a_system(name):
    assert name in {folder for _, folder, _ in compare.SYSTEMS.values()}


def test_exports_of_another_model_are_not_reused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(compare, "_round", lambda *_: (1.0, 2.0))
    monkeypatch.setattr(compare, "_result", lambda *_: {"seconds": [1.0]})
    monkeypatch.setattr(compare, "table", lambda _: "")
    made: list[Path] = []
    monkeypatch.setattr(compare, "export", lambda model, folder, *_: made.append(folder))
    run = TRAINED / "run"
    words = [str(tmp_path / "out"), "--systems", "transformers"]
    for _ in range(2):
        compare.main([str(run), *words])
    results = (tmp_path / "out" / "results.json").read_bytes()
    with pytest.raises(InputError, match=r"results of another model than .*100\. Choose another"):
        compare.main([str(run / "checkpoints" / "step-00000100"), *words])
    assert (tmp_path / "out" / "results.json").read_bytes() == results and len(made) == 2


@pytest.mark.parametrize("flag", ["--beam", "--batch", "--threads", "--rounds"])
def test_counts_of_zero_are_refused(flag: str, tmp_path: Path, capsys):
    with pytest.raises(SystemExit) as end:
        compare.main([str(TRAINED / "run"), str(tmp_path / "out"), flag, "0"])
    assert end.value.code == 2 and f"{flag}: must be a whole number" in capsys.readouterr().err
