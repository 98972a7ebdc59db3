"""Lion and Muon, compared with their published updates and torch's own, and their states."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from nmt.model.kernels.products import Linear
from nmt.training.optimizers import (
    Lion,
    Muon,
    new_optimizer,
    optimizer_flops,
    restore_state,
    skip_if_not_finite,
    state_tensors,
)

RATE = 0.02


class Module(nn.Module):
    """A stack of two projections of different widths, and a parameter that is not a matrix's."""

    def __init__(self) -> None:
        super().__init__()
        self.stacked = Linear(5, 4, 9)
        self.table = nn.Parameter(torch.randn(6, 5))


def gradients(steps: int = 6) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    shapes = {"stacked.weight": (13, 5), "stacked.bias": (13,), "table": (6, 5)}
    return [
        {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        for _ in range(steps)
    ]


def take(module: nn.Module, optimizer: torch.optim.Optimizer, given: dict[str, Tensor]) -> None:
    for name, parameter in module.named_parameters():
        parameter.grad = given[name].clone()
    optimizer.step()


def test_lion_steps_by_signs():
    """Chen et al. (2023), Algorithm 2, with β₁ = 0.9, β₂ = 0.99 and no weight decay."""
    torch.manual_seed(1)
    module = Module()
    optimizer = Lion(module.parameters(), RATE)
    weights = {name: p.detach().double() for name, p in module.named_parameters()}
    averages = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for given in gradients():
        take(module, optimizer, given)
        for name, gradient in given.items():
            g, m = gradient.double(), averages[name]
            weights[name] = weights[name] - RATE * torch.sign(0.9 * m + 0.1 * g)
            averages[name] = 0.99 * m + 0.01 * g
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.detach().double(), weights[name], atol=1e-6, rtol=0)


def orthogonalized(matrix: Tensor) -> Tensor:
    """Jordan et al. (2024): five Newton-Schulz iterations, in float64."""
    x = matrix / matrix.norm()
    x = x if x.shape[0] <= x.shape[1] else x.T
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


def test_muon_orthogonalizes_each_projection_and_leaves_the_rest_to_adam():
    torch.manual_seed(1)
    module, copy = Module(), Module()
    copy.load_state_dict(module.state_dict())
    optimizer = Muon(module, RATE)
    others = [copy.stacked.bias, copy.table]
    adam = torch.optim.Adam(others, RATE, (0.9, 0.98), 1e-9, fused=True)
    parts = [nn.Parameter(part.detach().clone()) for part in copy.stacked.weight.split([4, 9])]
    theirs = torch.optim.Muon(parts, RATE, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    weights = [part.detach().double() for part in parts]
    averages = [torch.zeros_like(weight) for weight in weights]
    for given in gradients():
        take(module, optimizer, given)
        copy.stacked.bias.grad, copy.table.grad = given["stacked.bias"], given["table"]
        adam.step()
        for i, gradient in enumerate(given["stacked.weight"].split([4, 9])):
            parts[i].grad = gradient.clone()
            g = gradient.double()
            averages[i] = 0.95 * averages[i] + 0.05 * g
            update = orthogonalized(0.05 * g + 0.95 * averages[i])
            weights[i] = weights[i] - RATE * 0.2 * max(g.shape) ** 0.5 * update
        theirs.step()
    assert torch.equal(module.table, copy.table)
    assert torch.equal(module.stacked.bias, copy.stacked.bias)
    found = module.stacked.weight.detach()
    torch.testing.assert_close(found, torch.cat(parts).detach(), atol=1e-5, rtol=0)
    # bf16 iterations: each step has norm RATE / 5 * 3 * sqrt(rank), with errors of a hundredth
    torch.testing.assert_close(found.double(), torch.cat(weights), atol=1e-3, rtol=0)
    assert (found - copy.stacked.weight).abs().max() > 0.02


@pytest.mark.parametrize("kind", ["lion", "muon"])
def test_r23_a_step_with_nan_changes_nothing(settings, kind: str):
    torch.manual_seed(1)
    module = Module()
    optimizer = new_optimizer(module, settings(training__optimizer=kind))
    first, second, *_ = gradients()
    skip_if_not_finite(optimizer, torch.zeros(3))
    take(module, optimizer, first)
    before = {name: tensor.clone() for name, tensor in state_tensors(optimizer, module).items()}
    weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    skip_if_not_finite(optimizer, torch.tensor([1.0, torch.nan, 1.0]))
    take(module, optimizer, {name: tensor * torch.nan for name, tensor in second.items()})
    take(module, optimizer, second)  # later steps are skipped, too
    for name, tensor in state_tensors(optimizer, module).items():
        assert torch.equal(tensor, before[name]), name
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, weights[name]), name


@pytest.mark.parametrize("kind", ["lion", "muon"])
def test_a_restored_state_goes_on_to_the_bit(settings, kind: str):
    config = settings(training__optimizer=kind)
    torch.manual_seed(1)
    module, copy = Module(), Module()
    optimizer, other = new_optimizer(module, config), new_optimizer(copy, config)
    *most, last = gradients()
    for given in most:
        take(module, optimizer, given)
    kept = {name: tensor.clone() for name, tensor in state_tensors(optimizer, module).items()}
    copy.load_state_dict(module.state_dict())
    restore_state(other, copy, kept, len(most), Path("step"))
    take(module, optimizer, last)
    take(copy, other, last)
    assert all(map(torch.equal, module.parameters(), copy.parameters()))
    states = [state_tensors(optimizer, module), state_tensors(other, copy)]
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())


def test_muons_flops_are_those_of_its_products(settings):
    module = Module()
    config = settings(training__optimizer="muon")
    optimizer = new_optimizer(module, config)
    for parameter in module.parameters():
        parameter.grad = torch.randn_like(parameter)
    with FlopCounterMode(display=False) as counter:
        optimizer.step()
    assert optimizer_flops(module, config) == counter.get_total_flops() > 0
    assert optimizer_flops(module, settings()) == 0
