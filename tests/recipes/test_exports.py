"""The comparison of exports: all translate the run's test set, in its order, and are scored."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.decoding.options import SearchOptions
from nmt.decoding.translator import Translator
from recipes.exports import compare, timed
from tests.export.test_export import EQUAL_HEADS, saved


def test_all_systems_are_compared_on_the_same_text(settings, tmp_path: Path, monkeypatch, capsys):
    model = saved(settings(**EQUAL_HEADS), tmp_path / "model")
    out, order = tmp_path / "out", []

    def in_this_process(command: list[str], **_) -> subprocess.CompletedProcess:
        task = json.loads(command[-1])
        order.append((task["program"], task["arithmetic"]))
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", command[1:])
            timed.main()
        return subprocess.CompletedProcess(command, 0, capsys.readouterr().out, "")

    monkeypatch.setattr(compare.subprocess, "run", in_this_process)
    compare.main([model, str(out), "--beam", "1", "--rounds", "2", "--threads", "1"])
    assert order == [(program, how) for program, _, how in compare.SYSTEMS.values()] * 2
    found = json.loads((out / "results.json").read_text())
    assert found["sentences"] == 20 and list(found["results"]) == list(compare.SYSTEMS)
    assert all(len(each["seconds"]) == 2 for each in found["results"].values())
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(compare.SYSTEMS)
    sources = (out / "source.txt").read_text().splitlines()
    translator = Translator.load(model, device="cpu", precision="fp32")
    ours = [each.text for each in translator.translate(sources, SearchOptions(beam=1))]
    assert compare.text_of(out, "nmt fp32").read_text().split("\n") == [*ours, ""]


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
