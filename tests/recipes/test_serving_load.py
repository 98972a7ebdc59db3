"""The clients of recipes/serving_load count a server's answers."""

import asyncio
import json
from pathlib import Path

import pytest

from nmt.errors import InputError
from recipes.serving_load import load
from tests.fixtures.make import TRAINED
from tests.serving.served import Shouting, ask, served


def test_clients_count_answers_and_refusals():
    with served(Shouting()) as port:
        found = asyncio.run(load.load(port, ["one", "two"], 5, 0.5))
        assert set(found.statuses) == {200} and found.statuses[200] == len(found.latencies) > 5
        assert found.per_second == found.statuses[200] / 0.5
        assert 0 < found.percentile(0.5) <= found.percentile(0.99) < 0.5
        refused = asyncio.run(load.load(port, ["x" * 30_000], 1, 0.3))
        assert set(refused.statuses) == {400}


def test_a_started_server_is_ready_at_its_port():
    with load.server(TRAINED / "run") as port:
        assert ask(port, "/ready") == (200, {"status": "ready"})


def test_it_prints_both_rates_and_their_share(monkeypatch, tmp_path: Path, capsys):
    text = tmp_path / "text"
    text.write_text("one\n\ntwo\n")
    monkeypatch.setattr(load, "sentences_per_second", lambda model, sentences: 100.0)
    monkeypatch.setattr(load, "_SETTLE_S", 0.1)
    monkeypatch.setattr(load, "server", lambda model: served(Shouting()))
    load.main(["runs/demo", "--input", str(text), "--clients", "2", "--seconds", "1"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["clients"] == 2 and printed["seconds"] == 2
    assert printed["share"] == round(printed["served_per_second"] / 100, 3)


def test_a_text_without_sentences_is_refused(tmp_path: Path):
    text = tmp_path / "text"
    text.write_text("\n \n")
    with pytest.raises(InputError, match=r"text has only blank lines\."):
        load.main(["runs/demo", "--input", str(text)])
