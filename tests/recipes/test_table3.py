"""The figures of the paper's Table 3 agree everywhere, and each run is measured once."""

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmt.cli import main
from nmt.config import load
from nmt.data.prepared_data import PreparedData
from nmt.errors import InputError
from nmt.paper import TABLE_3, Row
from nmt.reporting.info import info
from nmt.runs.model_directory import load_model
from nmt.storage import manifest
from nmt.training.distributed import Ranks, StopRequest
from nmt.training.loss import TransformerLoss
from nmt.training.schedule import learning_rate
from nmt.training.train import train
from nmt.training.validation import InferenceCopy, validate
from recipes.table3 import table3

SMALL = Path(table3.__file__).parent / "multi30k"
SMALL_ROWS = sorted(path.stem for path in SMALL.glob("*.yaml"))


@pytest.mark.parametrize("row", TABLE_3, ids=lambda row: row.name)
def test_each_row_has_its_configuration_headed_by_its_figures(row: Row):
    path = table3.CONFIGS / f"{row.name}.yaml"
    head = path.read_text(encoding="utf-8")
    found = re.search(r"PPL ([\d.]+), BLEU ([\d.]+)[,;] (?:(\d+) M )?parameters", head)
    assert found
    ppl, bleu, parameters = found.groups()
    stated = (float(ppl), float(bleu), int(parameters) if parameters else None)
    assert stated == (row.ppl, row.bleu, row.parameters)
    ours = re.search(r"\((?:ours: )?([\d.]+) M", head)
    assert ours
    assert ours[1] == f"{info(load(path))['parameters']['total'] / 1e6:.1f}"


def test_no_configuration_is_without_figures():
    assert {path.stem for path in table3.CONFIGS.glob("*.yaml")} == {row.name for row in TABLE_3}
    assert len(SMALL_ROWS) == 6


@pytest.mark.parametrize("row", SMALL_ROWS)
def test_a_small_row_changes_what_the_papers_row_changes(row: str):
    small, paper = (
        table3._changes(load(folder / "base.yaml"), load(folder / f"{row}.yaml"))
        for folder in (SMALL, table3.CONFIGS)
    )
    assert small.keys() == paper.keys()


LATER = Path(table3.__file__).parents[1] / "table3_continued"


def test_rows_of_equal_flops_take_as_many_as_base_and_swiglu_has_as_many_weights():
    rows = {path.stem: load(path) for path in LATER.glob("*.yaml")}
    assert len(rows) == 13
    base, steps = rows["base"], dict[str, int]()
    total = info(base)["flops"]["training"]
    for name, config in rows.items():
        [limit] = table3._as_many_flops(base, config)
        config = load(LATER / f"{name}.yaml", [limit])
        steps[name] = config.training.max_steps
        own = info(config)["flops"]["training"]
        assert total * (1 - 1 / steps[name]) <= own <= total
    assert steps["rms"] == steps["base"] == base.training.max_steps > steps["muon"]
    sizes = {name: info(config)["parameters"]["total"] for name, config in rows.items()}
    assert sizes["swiglu"] == pytest.approx(sizes["base"], rel=1e-3)


def test_the_warm_up_rows_differ_in_nothing_else():
    for norm in ("post", "pre"):
        rows = [load(LATER / f"warmup_{norm}_{steps}.yaml") for steps in ("4000", "400", "none")]
        for row in rows[1:]:
            assert set(table3._changes(rows[0], row)) == {"training.warmup_steps"}
        assert {learning_rate(row, 4000) for row in rows} == {learning_rate(rows[0], 4000)}
        assert [row.training.warmup_steps for row in rows] == [4000, 400, 1]
    post, pre = (load(LATER / f"warmup_{norm}_400.yaml") for norm in ("post", "pre"))
    assert set(table3._changes(post, pre)) == {"model.norm"}


def test_an_interval_over_seeds_is_students():
    # scipy.stats.t.interval(0.95, 2, loc=2, scale=3 ** -0.5) = (-0.4841, 4.4841)
    assert table3._estimate([1.0, 2.0, 3.0]) == "2.00 (-0.48 to 4.48)"
    assert table3._estimate([2.0], (1.5, 2.5)) == "2.00 (1.50 to 2.50)"


@pytest.fixture
def stopped(settings, tmp_path: Path) -> list[str]:
    """The arguments for a run that stopped at step 2 of 12, not yet measured."""
    run = tmp_path / "out" / "base" / "seed-1"
    (tmp_path / "configs").mkdir()
    config = settings(training__run_directory=str(run))
    (tmp_path / "configs" / "base.yaml").write_text(config.to_yaml(), encoding="utf-8")
    train(settings(training__run_directory=str(run), training__max_steps=2), lambda line: None)
    shutil.rmtree(run / "model")
    return ["base", "--configs", str(tmp_path / "configs"), "--output", str(tmp_path / "out")]


class HereAndNow:
    """Runs `nmt train` in this process, with the interface of a finished subprocess."""

    def __init__(self, command: list[str], stdout: int):
        assert command[:4] == [sys.executable, "-m", "nmt", "train"]
        assert stdout == subprocess.DEVNULL
        with contextlib.redirect_stdout(io.StringIO()):
            self.returncode = main(command[3:])

    def wait(self) -> int:
        return self.returncode

    terminate = wait


def test_a_run_out_of_time_is_measured_where_it_is_and_never_again(
    stopped, tmp_path: Path, capsys, monkeypatch
):
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", HereAndNow)
        table3.main([*stopped, "--minutes", "1e-6"])
    first = capsys.readouterr().out
    assert first == (tmp_path / "out" / "table.md").read_text()
    assert "difference from" not in first
    (result,) = json.loads((tmp_path / "out" / "table.json").read_text())
    assert (result["steps"], result["seed"], result["changes"]) == (2, 1, {})
    assert "| base |  | 2 |" in first
    assert "| 4.92 |" in first

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("started again")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    table3.main([*stopped, "--minutes", "1e-6"])
    assert capsys.readouterr().out == first
    shutil.copytree(tmp_path / "out" / "base", tmp_path / "out" / "a_heads_1")
    both = [table3.Result(**result), table3.Result(**(result | {"row": "a_heads_1"}))]
    compared = table3.differences_between(both, tmp_path / "out")
    assert "| difference from base | over seeds | over sentences |" in compared
    assert re.search(r"\| a_heads_1 \| 1 \| [\d.]+ \| \+0.00 \|  \| .*, p = 1.000 \|", compared)
    with pytest.raises(InputError, match=r"model\.dropout is 0\.3, but .* with 0\.1"):
        table3.main([*stopped, "--minutes", "1e-6", "model.dropout=0.3"])
    with pytest.raises(AssertionError, match="started again"):  # more minutes allow more steps
        table3.main([*stopped, "--minutes", "20"])


def test_the_perplexity_is_validations_in_fp32_whatever_the_run_was_trained_in(settings):
    config = settings(training__max_steps=2, training__precision="bf16")
    model = train(config, lambda line: None)
    found = table3.perplexity(model, config)
    loaded, data = load_model(model, device=torch.device("cpu")), PreparedData.of(config)
    module, shards = TransformerLoss(loaded.transformer, 0.1), data.shards("validation")
    ranks, fp32 = Ranks(0, 1, torch.device("cpu")), settings()
    validation = validate(
        module, loaded.tokenizer, shards, fp32, ranks, StopRequest(), InferenceCopy()
    )
    assert validation and found == pytest.approx(validation.ppl, rel=1e-6)
    assert manifest.read(model, "model")["validation"]["ppl"] != pytest.approx(found, rel=1e-6)


def test_a_run_that_diverges_is_left_out(stopped, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(table3, "_run", lambda *_: 4)
    table3.main([*stopped, "--seeds", "1", "2"])
    said = capsys.readouterr()
    assert said.out == "" and not (tmp_path / "out" / "table.md").exists()
    for seed in (1, 2):
        assert f"base, seed {seed} is not in the table. Training diverged in" in said.err


@pytest.mark.parametrize("name", ["validation", "test"])
def test_nothing_is_trained_that_could_not_be_measured(name: str, tmp_path: Path):
    corpora = dict.fromkeys(("train", "validation", "test"), "[{demo: {pairs: 9}}]")
    overrides = [f"data.{part}={kept}" for part, kept in (corpora | {name: "[]"}).items()]
    words = ["base", *overrides, f"data.directory={tmp_path}/data", "tokenizer.vocabulary_size=300"]
    with pytest.raises(InputError, match=f"no data.{name}"):
        table3.main([*words, "--configs", str(SMALL), "--output", str(tmp_path / "out"),
                     "--minutes", "1e-9"])  # fmt: skip
    assert not list(tmp_path.iterdir())
