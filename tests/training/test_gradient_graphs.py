"""Steps that are replayed give the bits of steps that are not, also with several micro-batches.

A substitute for CUDA graphs runs here: like the capture of a graph, it keeps the tensors of the
first call. `gpu_checks` and `recipes.speed.gpu` compare the bits of real graphs.
"""

from collections.abc import Callable

import pytest
import torch

from nmt.config import Config
from nmt.data.layout import fixed_shape, pack
from nmt.training import gradient_graphs
from nmt.training.distributed import Ranks
from nmt.training.gradient_graphs import GradientGraphs
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer
from nmt.training.step import optimizer_step
from tests.data.test_layout import random_pairs
from tests.model.paper import new_model

CPU = torch.device("cpu")


class Substitute:
    """Takes the place of `Capturer`; like a graph, it returns the same tensor each time."""

    captured_steps = 0

    def __init__(self, device: torch.device):
        assert device == CPU

    def captured(self, step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        Substitute.captured_steps += 1
        output = step().clone()
        return lambda: output.copy_(step())


class Failing(Substitute):
    def captured(self, step):
        step()
        raise RuntimeError("operation not permitted when stream is capturing\nmore")


def trained(config: Config, *, graphs: bool) -> tuple[list[float], list[torch.Tensor]]:
    """Returns the losses and the weights after steps of one, two and three micro-batches."""
    model = new_model(config, seed=1).train()
    module, optimizer = TransformerLoss(model, 0.1), new_optimizer(model, config)
    module.graphs = GradientGraphs(module.parameters()) if graphs else None
    losses = []
    for step, sizes in enumerate([(20,), (30, 40), (20, 50, 60), (40,)], 1):
        if module.graphs and step == 3:
            module.graphs.make_room()
        batches = [pack(random_pairs(n), fixed_shape(900, 1, 60)).to(CPU) for n in sizes]
        tokens = sum(int((batch.tgt_out != 0).sum()) for batch in batches)
        result = optimizer_step(
            module, module, optimizer, list(enumerate(batches)), step, tokens, config,
            Ranks(0, 1, CPU),
        )  # fmt: skip
        losses.append(result.loss)
    return losses, [p.detach().clone() for p in module.parameters()]


@pytest.mark.parametrize("changes", [{}, {"training__optimizer": "muon"}], ids=str)
def test_replayed_steps_are_plain_steps_to_the_bit(settings, monkeypatch, changes):
    config = settings(model__dropout=0.1, training__gradient_clip=0.5, **changes)
    plain = trained(config, graphs=False)
    monkeypatch.setattr(gradient_graphs, "Capturer", Substitute)
    Substitute.captured_steps = 0
    replayed = trained(config, graphs=True)
    once = Substitute.captured_steps
    assert once in (1, 2)  # once per shape, not once per step
    assert replayed[0] == plain[0]
    assert all(map(torch.equal, replayed[1], plain[1]))
    for name, found in (("is_gpu", True), ("free_bytes", 7), ("total_bytes", 15)):
        monkeypatch.setattr(gradient_graphs, name, lambda _, found=found: found)
    recaptured = trained(config, graphs=True)
    assert Substitute.captured_steps > 2 * once
    assert all(map(torch.equal, recaptured[1], plain[1]))


def test_a_capture_that_fails_is_told_once_and_changes_nothing(settings, monkeypatch, capsys):
    config = settings(model__dropout=0.1)
    plain = trained(config, graphs=False)
    monkeypatch.setattr(gradient_graphs, "Capturer", Failing)
    found = trained(config, graphs=True)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("nmt: warning: ") and "operation not permitted" in line
    assert found[0] == plain[0] and all(map(torch.equal, found[1], plain[1]))
