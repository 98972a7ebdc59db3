"""The output of `nmt benchmark train`, the steps that it measures, and wrong arguments."""

import itertools
import json
import statistics
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from nmt.benchmark import machine, training, workload
from nmt.benchmark.flops import training_flops
from nmt.benchmark.gate import Gate
from nmt.benchmark.machine import model_products
from nmt.benchmark.training import PARTS, drawn_shard, timed_training
from nmt.cli import main
from nmt.config import Model
from nmt.data.plan import Plan
from nmt.model.transformer import Transformer
from nmt.training import begin, gradient_graphs
from nmt.training.gradient_graphs import GradientGraphs
from nmt.training.schedule import learning_rate
from tests.training.runs import as_on_a_gpu
from tests.training.test_gradient_graphs import Substitute

KEYS = {
    "target_tokens_per_second", "fill", "ceiling_share", "peak_memory_bytes", "flops_per_second",
    "step_seconds", "parts_seconds", "target_tokens_per_step", "steps", "parameters", "device",
    "ceilings", "precision", "workload", "torch",
}  # fmt: skip


@pytest.fixture
def config(settings, tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(settings().to_yaml())
    return str(path)


def printed(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("words", [[], ["training.micro_batches=3"], ["training.precision=auto"]])
def test_what_json_holds(words: list[str], config: str, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(begin, "supports_bf16", lambda device: True)
    assert main(["benchmark", "train", config, "--json", *words]) == 0
    found = printed(capsys)
    assert found.keys() == KEYS
    parts = found["parts_seconds"]
    assert tuple(parts) == PARTS and all(seconds > 0 for seconds in parts.values())
    assert sum(parts.values()) == pytest.approx(found["step_seconds"])
    assert 0.5 < found["fill"] <= 1
    best = max(each["flops_per_second"] for each in found["ceilings"]["products"])
    assert found["ceilings"]["best_flops_per_second"] == best
    assert found["ceiling_share"] == pytest.approx(found["flops_per_second"] / best)
    assert found["steps"] == {"timed": 5, "dropped": 0}
    assert found["precision"] == ("bf16" if "training.precision=auto" in words else "fp32")
    assert not (tmp_path / "run").exists()  # the benchmark saves nothing


def test_the_parts_are_the_time_between_what_is_reported(config: str, capsys, monkeypatch):
    """The simulated clock advances by one second with each reading."""
    clock = SimpleNamespace(perf_counter=itertools.count().__next__)
    monkeypatch.setattr(training, "time", clock)
    assert main(["benchmark", "train", config, "--json", "training.micro_batches=3"]) == 0
    found = printed(capsys)
    parts = {"data": 1, "forward": 3, "loss": 3, "backward": 3, "optimizer": 4}
    assert found["parts_seconds"] == pytest.approx(parts)
    assert found["step_seconds"] == pytest.approx(sum(parts.values()))
    rate = found["target_tokens_per_second"] * found["step_seconds"]
    assert rate == pytest.approx(found["target_tokens_per_step"])


def test_steps_of_a_device_that_computes_by_itself_are_timed_together(
    config: str, capsys, monkeypatch
):
    as_on_a_gpu(monkeypatch.setattr)
    monkeypatch.setattr(training, "_ON_GPU", 3)
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=itertools.count().__next__))
    assert main(["benchmark", "train", config, "--json"]) == 0
    found = printed(capsys)
    assert found["steps"] == {"timed": 15, "dropped": 0}
    parts = {"data": 1, "forward": 1, "loss": 1, "backward": 1, "optimizer": 2}
    assert found["parts_seconds"] == pytest.approx(parts)
    assert 300 < found["target_tokens_per_step"] <= 400
    assert found["target_tokens_per_second"] * 6 == pytest.approx(
        found["target_tokens_per_step"], rel=0.1
    )


@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_a_loss_that_is_not_finite_ends_it(is_asynchronous: bool, config: str, capsys, monkeypatch):
    def initialize(self, seed: int) -> None:
        for parameter in self.parameters():
            torch.nn.init.constant_(parameter, float("nan"))

    as_on_a_gpu(monkeypatch.setattr, is_one=is_asynchronous)
    monkeypatch.setattr(Transformer, "initialize", initialize)
    assert main(["benchmark", "train", config]) == 4
    assert "nmt: error: Training diverged" in capsys.readouterr().err


def test_each_shape_is_timed_once_with_its_gradients():
    model = Model(d_model=8, d_ff=20, heads=2, d_k=3, d_v=5)
    found = model_products(model, 40, rows=7, gradients=True)
    shapes = [(each.rows, each.inner, each.columns) for each in found]
    forward = [(8, 22), (8, 16), (8, 6), (10, 8), (8, 20), (20, 8), (8, 40)]
    assert len(shapes) == len(set(shapes))
    assert set(shapes) == {shape for i, o in forward for shape in ((7, i, o), (7, o, i), (o, 7, i))}
    assert {
        (each.inner, each.columns) for each in model_products(model, 40, 7, gradients=False)
    } == {*forward}
    assert found[0].flops == 2 * 7 * 8 * 22
    gated = model_products(
        model.model_copy(update={"feed_forward": "swiglu"}), 99, 7, gradients=False
    )
    assert {(8, 40), (20, 8)} <= {(each.inner, each.columns) for each in gated}


def test_steps_are_those_of_training(settings, monkeypatch):
    """Batches, numbers of tokens and learning rates are those of a run on the same pairs."""
    config, results = settings(training__batch_tokens=500), []
    step = training.optimizer_step

    def noted(*arguments):
        results.append(step(*arguments))
        return results[-1]

    monkeypatch.setattr(training, "optimizer_step", noted)
    shard = drawn_shard(config)
    with training.process_group(60) as ranks:
        gate = Gate(lambda: 1.0)
        found = timed_training(config, [shard], ranks, gate, lambda text: None)
    plans = [plan for plan, _ in zip(Plan([shard], 500, 1, 1).steps(), range(7), strict=False)]
    assert [each.learning_rate for each in results] == [
        learning_rate(config, n + 1) for n in range(7)
    ]
    assert results[0].nll > results[-1].nll > 0  # the loss falls
    for timed, plan in zip(found.timed.kept, plans[2:], strict=True):
        assert (timed.source_tokens, timed.target_tokens) == (
            plan.source_tokens,
            plan.target_tokens,
        )
        assert timed.computed_tokens >= plan.source_tokens + plan.target_tokens
        pairs = plan.micro_batches[0]
        lengths = shard.source.lengths[pairs], shard.target.lengths[pairs]
        assert timed.flops == training_flops(config.model, 400, *lengths)
    rates = [each.target_tokens / each.seconds for each in found.timed.kept]
    assert found.target_tokens_per_second == statistics.median(rates)


def test_passes_that_are_replayed_are_one_part(settings, monkeypatch):
    graphs = []

    def choose_path(loss_module, *_):
        loss_module.graphs = GradientGraphs(loss_module.parameters())
        graphs.append(loss_module.graphs)

    monkeypatch.setattr(training, "choose_path", choose_path)
    monkeypatch.setattr(gradient_graphs, "Capturer", Substitute)
    config = settings(training__batch_tokens=500)
    with training.process_group(60) as ranks:
        gate = Gate(lambda: 1.0)
        found = timed_training(config, [drawn_shard(config)], ranks, gate, lambda text: None)
    assert [*found.parts] == ["data", "passes", "optimizer"]
    assert min(found.parts.values()) > 0
    assert all(each.computed_tokens >= each.target_tokens > 0 for each in found.timed.kept)
    assert graphs[0].replay == GradientGraphs.replay.__get__(graphs[0])  # no longer timed


def test_prepared_data_instead_of_drawn(config: str, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(workload, "shard", None)
    assert main(["benchmark", "train", config, "--json", "--prepared"]) == 0
    assert printed(capsys)["workload"] == "prepared"
    elsewhere = f"data.directory={tmp_path / 'none'}"
    assert main(["benchmark", "train", config, "--prepared", elsewhere]) == 2
    assert "No prepared data in" in capsys.readouterr().err


def test_the_table(config: str, capsys):
    assert main(["benchmark", "train", config]) == 0
    said = capsys.readouterr().out
    for words in ("target tokens per second", "  backward", "5 timed, 0 discarded", "GB/s", "GiB"):
        assert words in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--precision", "bf16"], "Unknown option --precision. Use training.precision"),
        (["training.precision=fp8"], "training.precision"),
    ],
)
def test_nonsense_is_refused_in_one_line(words: list[str], message: str, config: str, capsys):
    assert main(["benchmark", "train", config, *words]) == 2
    said = capsys.readouterr().err
    assert message in said and said.startswith("nmt: error: ") and said.count("\n") == 1


def test_no_such_configuration_and_no_second_process(config: str, capsys, monkeypatch):
    assert main(["benchmark", "train", "nowhere.yaml"]) == 2
    assert "nowhere.yaml" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert main(["benchmark", "train", config]) == 2
    assert "without torchrun" in capsys.readouterr().err


def test_memory_is_read_and_copies_are_counted():
    cpu = torch.device("cpu")
    assert 50e6 < machine.peak_memory(cpu) < 1e12
    assert machine.least_seconds(lambda: None, cpu) < 1e-3
