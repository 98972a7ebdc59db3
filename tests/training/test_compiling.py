"""`training.compile` trains the same model, and compiles its layers once for all steps."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch._dynamo.backends.debugging import aot_eager
from torch.nn.parallel import DistributedDataParallel

from nmt.data.layout import fixed_shape, pack
from nmt.model.kernels.products import has_onednn
from nmt.training import fast_paths, loading
from nmt.training import loop as training
from nmt.training.compiling import compile_layers
from nmt.training.loss import TransformerLoss
from nmt.training.run_log import read_log
from nmt.training.step import add_gradients
from tests.data.test_layout import random_pairs
from tests.model.paper import new_model
from tests.training.runs import run


@pytest.fixture
def graphs(monkeypatch) -> list[int]:
    """Counts the graphs that are compiled up to each step; they run without Inductor."""
    counts, step = [0], training.optimizer_step

    def backend(graph: torch.fx.GraphModule, _) -> Callable:
        counts[-1] += 1
        return graph

    def optimizer_step(*arguments):
        result = step(*arguments)
        counts.append(counts[-1])
        return result

    torch._dynamo.reset()
    monkeypatch.setattr(fast_paths, "compile_layers", partial(compile_layers, backend=backend))
    monkeypatch.setattr(training, "optimizer_step", optimizer_step)
    yield counts
    torch._dynamo.reset()


FLAT = {"model__dropout": 0.0, "training__precision": "bf16", "model__decoder_layers": 3,
        "training__max_steps": 4, "training__validate_every": 2}  # fmt: skip


def test_a_compiled_run_is_that_of_plain_layers_and_compiles_in_its_first_step(
    settings, tmp_path: Path, graphs, capsys
):
    """Neither a validation, which has other shapes, nor the steps after it compile anything."""
    compiled, _ = run(settings(**FLAT, training__compile=True))
    assert "warning: On this machine, " not in capsys.readouterr().err
    in_first_step, *later, _ = graphs[1:]
    # per stack: the first layer, and the layers that reuse its attention bias
    assert in_first_step == 4
    assert set(later) == {in_first_step} and len(later) == 2
    plain, _ = run(settings(**FLAT, training__run_directory=str(tmp_path / "plain")))
    ours, theirs = (
        [line["loss"] for line in read_log(path) if "event" not in line]
        for path in (compiled, plain)
    )
    assert ours == pytest.approx(theirs, rel=2e-3)


def test_gradients_of_compiled_layers_are_those_of_plain_ones_in_bf16(settings):
    """Uses the compiler's own derivation of the backward pass; the next test has fp32."""
    config = settings(model__decoder_layers=2, model__dropout=0.0, training__precision="bf16")
    batch = pack(random_pairs(30), fixed_shape(400, 1, 60)).to(torch.device("cpu"))
    gradients = []
    for is_compiled in (False, True):
        module = TransformerLoss(new_model(config, seed=1).train(), 0.1)
        if is_compiled:
            torch._dynamo.reset()
            compile_layers(module.transformer, backend="aot_eager")
        add_gradients(module, batch, torch.tensor(100.0), config)
        gradients.append({name: p.grad for name, p in module.named_parameters()})
    assert gradients[0].keys() == gradients[1].keys()
    for name, expected in gradients[0].items():
        found = gradients[1][name]
        assert (found - expected).norm() < 2**-6 * expected.norm()
        if has_onednn(torch.bfloat16):  # otherwise the two round bf16 at different places
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.fixture
def one_rank():
    """A process group with only this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    groups.append(dist.group.WORLD)
    yield
    dist.destroy_process_group()


groups: list[object] = []  # never freed, see `nmt.training.distributed`


def test_a_layer_is_one_graph_whatever_the_buckets_of_its_gradients(
    settings, one_rank, monkeypatch
):
    monkeypatch.setattr(dist, "_DEFAULT_FIRST_BUCKET_BYTES", 2000)  # a layer has some 40,000
    config = settings(model__decoder_layers=2, model__dropout=0.0)
    batch = pack(random_pairs(30), fixed_shape(400, 1, 60)).to(torch.device("cpu"))
    graphs, gradients = list[int](), []

    def backend(graph: torch.fx.GraphModule, inputs) -> Callable:
        graphs.append(len(graph.graph.nodes))
        return aot_eager(graph, inputs)

    for is_compiled in (False, True):
        module = TransformerLoss(new_model(config, seed=1).train(), 0.1)
        if is_compiled:
            torch._dynamo.reset()
            compile_layers(module.transformer, backend=backend)
        wrapped = DistributedDataParallel(module, bucket_cap_mb=0.002)
        for _ in range(2):  # the first pass determines the buckets of the second
            module.zero_grad()
            add_gradients(wrapped, batch, torch.tensor(100.0), config)
        gradients.append({name: p.grad for name, p in module.named_parameters()})
    layers = 4  # per stack: the first layer, and the second, which reuses its bias
    assert len(graphs) == layers
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, atol=1e-5, rtol=1e-4)


def test_micro_batches_of_a_compiled_run_have_one_shape_or_the_one_with_more_rows(
    settings, monkeypatch
):
    """The layers are not compiled here, which makes no difference to the shapes."""
    shapes, packed = set(), loading.pack

    def packing(*arguments, **options):
        batch = packed(*arguments, **options)
        shapes.add((batch.rows, *batch.widths))
        return batch

    monkeypatch.setattr(loading, "pack", packing)
    monkeypatch.setattr(fast_paths, "compile_layers", lambda transformer: None)
    run(settings(training__compile=True, training__batch_tokens=2000, training__max_steps=4))
    assert shapes <= {(16, 128, 128), (17, 128, 128)}  # 2,040 tokens / 128; 4% more
