"""Fast paths of training are not used if they differ from the reference implementation.

A CPU replaces the GPU: traced graphs run without being compiled, and FlexAttention uses its unfused
CPU code, for which torch does not allow backward passes by default.
"""

import contextlib
import logging
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.nn.attention import flex_attention

from nmt.config import Config, differences
from nmt.data.layout import fixed_shape, pack
from nmt.errors import InputError
from nmt.model import devices
from nmt.model.attention import Visibility
from nmt.model.kernels import flex
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import read_state
from nmt.training import begin, compiling, fast_paths
from nmt.training.begin import with_auto_decided
from nmt.training.compiling import compile_layers
from nmt.training.distributed import Ranks
from nmt.training.fast_paths import Reference, possible_paths, set_path
from nmt.training.loss import TransformerLoss
from nmt.training.step import add_gradients
from tests.conftest import make_settings
from tests.data.test_layout import random_pairs
from tests.model.paper import new_model
from tests.training.runs import fingerprint, losses, run

CPU = torch.device("cpu")
Graph = torch.fx.GraphModule
SMALL = {
    "model__encoder_layers": 1, "model__decoder_layers": 1, "decoding__beam": 1,
    "decoding__max_extra_length": 0,
    "training__max_steps": 2, "training__checkpoint_every": 2, "training__validate_every": 2,
}  # fmt: skip
HEADS = {"model__d_k": 16, "model__d_v": 16}
FAST = HEADS | {"training__precision": "bf16", "training__deterministic": False}


@pytest.fixture
def backend(monkeypatch) -> Callable[[Callable], None]:
    """Returns a function that replaces Inductor as the backend that compiles layers."""

    def use(function: Callable) -> None:
        def compiled(transformer):
            compile_layers(transformer, backend=function)

        monkeypatch.setattr(fast_paths, "compile_layers", compiled)

    torch._dynamo.reset()
    logging.getLogger("torch.__trace").setLevel(logging.WARNING)  # pytest would capture it
    use(lambda graph, _: graph)
    yield use
    torch._dynamo.reset()


@pytest.fixture
def flex_on_cpu(monkeypatch) -> None:
    """Enables FlexAttention's unfused CPU code, with the log-sum-exp for the backward pass."""
    options = flex_attention._apply_kernel_options

    def with_sums(*arguments):
        return options(*arguments) | {"OUTPUT_LOGSUMEXP": True}

    monkeypatch.setattr(flex_attention, "_validate_device", lambda *tensors: None)
    monkeypatch.setattr(flex_attention, "_apply_kernel_options", with_sums)
    monkeypatch.setattr(fast_paths, "flex_suits", lambda model, device: True)


def trained(config: Config, capsys) -> tuple[Path, list[str]]:
    """Trains a run; returns the run directory and the warnings about fast paths."""
    directory, _ = run(config)
    lines = capsys.readouterr().err.splitlines()
    return directory, [line for line in lines if "warning: On this machine, " in line]


@pytest.fixture(scope="module")
def plain(tiny_data: Path, tmp_path_factory) -> Path:
    """A run without compiled layers."""
    torch.set_num_threads(1)
    return run(make_settings(tiny_data, tmp_path_factory.mktemp("plain"), **SMALL))[0]


@pytest.fixture
def chosen(settings, monkeypatch) -> Callable[..., tuple[str | None, list[str], TransformerLoss]]:
    """Chooses the path of a small model's first step; returns it, the warnings, and the model."""
    batch = pack(random_pairs(30), fixed_shape(400, 1, 60)).to(CPU)
    monkeypatch.setattr(fast_paths, "_first_micro_batch", lambda *_: batch)

    def choose(ranks: Ranks | None = None):
        config, warnings = settings(**SMALL, training__compile=True), list[str]()
        module = TransformerLoss(new_model(config, seed=1).train(), 0.1)
        run = SimpleNamespace(config=config, ranks=ranks or Ranks(0, 1, CPU))
        return fast_paths.choose_path(module, run, 0, None, warnings.append), warnings, module

    return choose


def path_of(run: Path, step: int = 2) -> str | None:
    return read_state(run / "checkpoints" / f"step-{step:08d}" / "state.json").path


def test_flex_attention_is_the_plain_attention(settings, backend, flex_on_cpu):
    """Pairs fit into a block of 128 or are longer. The second batch needs no compilation."""
    graphs = []
    backend(lambda graph, _: graphs.append(graph) or graph)
    config = settings(**SMALL, model__dropout=0.0, model__attention_window=5, **HEADS)
    found = []
    for path in ("plain", "flex"):
        module = TransformerLoss(new_model(config, seed=1).train(), 0.1)
        set_path(module, path)
        for number in (20, 30):
            batch = pack(random_pairs(number), fixed_shape(1300, 1, 200))
            loss, _ = add_gradients(module, batch.to(CPU), torch.tensor(100.0), config)
        found.append([loss] + [p.grad for p in module.parameters()])
    assert len(graphs) == 2  # one per stack
    for plain, fast in zip(*found, strict=True):
        torch.testing.assert_close(fast, plain, atol=1e-5, rtol=1e-4)


def test_blocks_that_no_query_sees_are_skipped():
    """The rows have a pair and padding per block, a pair across both blocks, and only padding."""
    segments = torch.zeros(3, 256, dtype=torch.int64)
    segments[0, :100], segments[0, 128:200], segments[1, :250] = 1, 2, 1
    positions = torch.arange(256).expand(3, 256)
    sides = (segments, segments), (positions, positions)
    for causal, pair in ((False, [[1, 1], [1, 1]]), (True, [[1, 0], [1, 1]])):
        blocks = flex.with_blocks(Visibility(*sides, causal=causal)).blocks
        seen = [[[1, 0], [0, 1]], pair, [[0, 0], [0, 0]]]
        assert blocks.to_dense()[:, 0].tolist() == seen


def garbage(graph: Graph, _) -> Callable:
    """A compiler whose code returns values 5 % too large."""

    def call(*arguments):
        return tuple(x * 1.05 if torch.is_tensor(x) else x for x in graph(*arguments))

    return call


def garbage_with_dropout(graph: Graph, inputs) -> Callable:
    """A compiler whose code returns wrong values only if a graph contains dropout.

    The values are not only too large, because LayerNorm would undo that.
    """

    def call(*arguments):
        return tuple(x + 0.1 * x.roll(1, -1) for x in graph(*arguments))

    drops = any("autograd_function_apply" in str(node.target) for node in graph.graph.nodes)
    return call if drops else graph


def no_number(graph: Graph, _) -> Callable:
    """A compiler whose code returns NaN, for which every comparison with a limit is false."""

    def call(*arguments):
        return tuple(x * math.nan if torch.is_tensor(x) else x for x in graph(*arguments))

    return call


def missing(graph: Graph, _) -> Callable:
    raise RuntimeError("no C compiler\nlines on lines")


class ThirdMissing:
    """A compiler that fails for the third graph."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, graph: Graph, _) -> Callable:
        self._count += 1
        return missing(graph, _) if self._count == 3 else graph


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (garbage, r"differs from the reference \w+ by \d"),
        (garbage_with_dropout, r"differs from the reference \w+ by \d"),
        (no_number, "by nan"),
        (missing, "no C compiler"),
        (ThirdMissing(), "no C compiler"),
    ],
)
def test_compiled_layers_that_fail_are_left_with_one_warning(chosen, backend, broken, reason):
    backend(broken)
    path, [warning], module = chosen()
    assert path == "eager" and not compiling.is_compiled(module.transformer)
    assert "compiled layers (" in warning and "layers that are not compiled" in warning
    assert re.search(reason, warning)


def test_a_run_whose_compiled_layers_fail_is_the_plain_run_to_the_bit(
    settings, plain: Path, backend, capsys
):
    """No compiled code is left."""
    backend(garbage)
    directory, warnings = trained(settings(**SMALL, training__compile=True), capsys)
    assert len(warnings) == 1
    assert fingerprint(directory, 2) == fingerprint(plain, 2)
    assert losses(directory) == losses(plain)
    assert path_of(directory) == "eager" and path_of(plain) is None


def test_a_resumed_run_repeats_the_choice(settings, tmp_path: Path, backend, capsys):
    """The resumed run does not use compiled layers, although they would work now."""
    backend(missing)
    _, warnings = trained(settings(**SMALL, training__compile=True), capsys)
    assert len(warnings) == 1
    backend(lambda graph, _: graph)
    longer = SMALL | {"training__max_steps": 3}
    directory, warnings = trained(settings(**longer, training__compile=True), capsys)
    assert path_of(directory, 3) == "eager" and not warnings
    straight = str(tmp_path / "straight")
    plain, _ = run(settings(**longer, training__run_directory=straight))
    assert fingerprint(directory, 3) == fingerprint(plain, 3)


def test_flex_attention_passes_the_check_only_with_the_right_mask(
    settings, monkeypatch, backend, flex_on_cpu
):
    """Attention between the sentences of a row changes no shape and hardly changes the loss."""
    with_blocks = flex.with_blocks

    def leaking(visibility: Visibility) -> Visibility:
        query, key = (side.clamp(max=1) for side in visibility.segments)
        return with_blocks(Visibility((query, key), visibility.positions, causal=visibility.causal))

    config = settings(**SMALL, **FAST)
    module = TransformerLoss(new_model(config, seed=1).train(), 0.1)
    batch = pack(random_pairs(30), fixed_shape(400, 1, 60)).to(CPU)
    reference = Reference.of(module, batch, config)
    set_path(module, "flex")
    assert reference.problem(module, batch, config) is None
    monkeypatch.setattr("nmt.model.transformer.with_blocks", leaking)
    set_path(module, "flex")
    assert reference.problem(module, batch, config).startswith("the gradient of ")


def test_a_check_leaves_neither_gradients_nor_another_mode(settings, backend):
    config = settings(**SMALL, model__dropout=0.1)
    module = TransformerLoss(new_model(config, seed=1).train(), 0.1)
    torch_bits = torch.get_rng_state()
    batch = pack(random_pairs(30), fixed_shape(400, 1, 60)).to(CPU)
    reference = Reference.of(module, batch, config)
    set_path(module, "compiled")
    assert reference.problem(module, batch, config) is None
    assert module.training and module.transformer.encoder[0].training
    assert all(p.grad is None for p in module.parameters())
    assert torch.equal(torch.get_rng_state(), torch_bits)


def test_auto_compiles_on_a_gpu_alone(settings):
    """FlexAttention is used for bf16, if results need not be deterministic."""
    rest = ["compiled", "eager", "plain"]
    for changes, on_gpu in [
        (FAST, ["flex", *rest]), (FAST | {"training__deterministic": True}, rest),
        (FAST | {"training__precision": "fp32"}, rest), (FAST | {"model__d_k": 12}, rest),
        (FAST | {"model__attention_dropout": 0.1}, rest),
        (FAST | {"training__compile": False}, rest[1:]),
    ]:  # fmt: skip
        config = settings(**changes)
        assert possible_paths(config, Ranks(0, 1, torch.device("cuda", 0))) == on_gpu
        assert possible_paths(config, Ranks(0, 1, CPU)) == []


def test_auto_is_decided_when_a_run_begins(settings, monkeypatch, tmp_path: Path):
    """A resumed run keeps the decisions that are in its config.yaml, even on another device."""
    directory, config = RunDirectory(tmp_path / "run"), settings(training__precision="auto")
    for has_gpu, has_bf16, other_rank, precision in [
        (True, True, 0, "bf16"), (False, True, 1, "fp32"), (False, False, 0, "fp32"),
    ]:  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
            patch.setattr(begin, "supports_bf16", lambda device, has=has_bf16: has)
            patch.setattr(Ranks, "max", lambda self, own, other=other_rank: max(own, other))
            decided = with_auto_decided(config, Ranks(0, 1, CPU), directory)
        assert (decided.training.compile, decided.training.precision) == (has_gpu, precision)
    stored = settings(training__precision="bf16", training__compile=True)
    monkeypatch.setattr(begin, "supports_bf16", lambda device: False)
    directory.checkpoints.mkdir(parents=True)
    for has_begun, former, expected in [
        (False, stored, (False, "fp32")), (True, stored, (True, "bf16")),
        (True, config, (False, "fp32")),  # "auto", which only a user can have written
    ]:  # fmt: skip
        directory.record(former)
        if has_begun:
            directory.checkpoint(1).mkdir(exist_ok=True)
        resumed = with_auto_decided(config, Ranks(0, 1, CPU), directory).training
        assert (resumed.compile, resumed.precision) == expected
    assert differences(config, stored) == {}  # "auto" changes nothing
    explicit = settings(training__precision="fp32", training__compile=False)
    assert with_auto_decided(explicit, Ranks(0, 1, CPU), directory) == explicit


def test_a_resumed_run_keeps_its_precision(settings, monkeypatch):
    run(settings(**SMALL, training__precision="bf16"))
    monkeypatch.setattr(begin, "supports_bf16", lambda device: False)
    more = SMALL | {"training__max_steps": 3}
    directory, _ = run(settings(**more, training__precision="auto"))
    assert RunDirectory(directory).settings().training.precision == "bf16"


@pytest.mark.parametrize(
    ("onednn", "avx512", "avx512_bf16", "expected"),
    [(True, True, True, True), (True, True, False, False), (True, False, False, True),
     (False, False, False, False)],
)  # fmt: skip
def test_a_cpu_supports_bf16_if_it_has_instructions_for_it(
    monkeypatch, onednn, avx512, avx512_bf16, expected
):
    monkeypatch.setattr(devices, "has_onednn", lambda dtype: onednn)
    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    assert devices.supports_bf16(CPU) == expected


@pytest.mark.parametrize("natively", [True, False])
def test_a_gpu_that_emulates_bf16_does_not_support_it(monkeypatch, natively):
    monkeypatch.setattr(devices, "as_current", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation: natively or including_emulation
    )
    assert devices.supports_bf16(torch.device("cuda", 0)) == natively


def test_a_run_that_was_compiled_goes_on_without_on_a_cpu(settings, monkeypatch, backend, capsys):
    """One warning reports the change."""
    with monkeypatch.context() as patch:
        patch.setattr(fast_paths, "possible_paths", lambda *_: ["compiled", "eager", "plain"])
        directory, _ = run(settings(**SMALL))
    assert path_of(directory) == "compiled"
    run(settings(**SMALL | {"training__max_steps": 3}))
    assert capsys.readouterr().err.count("Up to step 2 the run used compiled layers") == 1
    assert path_of(directory, 3) is None


def test_memory_that_does_not_suffice_is_no_reason_to_go_on_without(settings, backend):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    backend(lambda graph, _: full)
    with pytest.raises(
        InputError, match=r"Out of memory in the first micro-batch.*training.micro_batches"
    ):
        run(settings(**SMALL, training__compile=True))


def test_all_ranks_leave_a_path_that_fails_on_one(chosen, backend):
    """Here the path fails on another rank, which this rank learns from the exchanged values."""
    exchanged = []

    class OneOfTwo(Ranks):
        def max(self, value: int) -> int:
            exchanged.append(value)
            return int(len(exchanged) == 1)

    path, [warning], module = chosen(OneOfTwo(0, 2, CPU))
    assert path == "eager" and not compiling.is_compiled(module.transformer)
    assert exchanged == [False, False] and "compiled layers (on another rank)" in warning
