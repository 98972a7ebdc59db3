"""The optimizer's state in a checkpoint, and states that are refused."""

from pathlib import Path

import pytest
import torch
from torch import nn

from nmt.errors import NoModelError
from nmt.training.optimizers import new_optimizer, restore_state, state_tensors

FOLDER = Path("checkpoints/step-00000002")


def trained(config, steps: int = 2) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Returns a module and its optimizer after some steps."""
    torch.manual_seed(1)
    module = nn.Linear(3, 2)
    optimizer = new_optimizer(module, config)
    for _ in range(steps):
        step(module, optimizer)
    return module, optimizer


def step(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    module(torch.ones(1, 3)).square().sum().backward()
    optimizer.step()


def test_a_restored_state_goes_on_to_the_bit(settings):
    """The state includes the number of steps, which Adam's bias correction needs."""
    module, optimizer = trained(settings())
    tensors = {name: tensor.clone() for name, tensor in state_tensors(optimizer, module).items()}
    shapes = {name: tensor.shape for name, tensor in module.named_parameters()}
    assert len(tensors) == 2 * len(shapes)
    for name, tensor in tensors.items():
        assert tensor.shape == shapes[name.partition(".")[2]]
    copy = nn.Linear(3, 2)
    copy.load_state_dict(module.state_dict())
    other = new_optimizer(copy, settings())
    restore_state(other, copy, tensors, 2, FOLDER)
    for each in (module, optimizer), (copy, other):
        step(*each)
    assert all(map(torch.equal, module.parameters(), copy.parameters()))


@pytest.mark.parametrize("states", [(), ("exp_avg",), ("exp_avg", "exp_avg_sq", "velocity")])
def test_r15_states_of_another_optimizer_are_refused(settings, states: tuple[str, ...]):
    module, optimizer = trained(settings(), steps=0)
    tensors = {f"{s}.{name}": torch.zeros_like(p) for name, p in module.named_parameters()
               for s in states}  # fmt: skip
    with pytest.raises(NoModelError, match=" instead of exp_avg, exp_avg_sq"):
        restore_state(optimizer, module, tensors, 2, FOLDER)


def test_r23_a_negative_second_moment_is_refused(settings):
    """Adam takes the square root of second moments."""
    module, optimizer = trained(settings())
    tensors = dict(state_tensors(optimizer, module))
    tensors["exp_avg_sq.weight"] = tensors["exp_avg_sq.weight"] - 1
    with pytest.raises(NoModelError, match=f"{FOLDER} .*exp_avg_sq.weight has negative"):
        restore_state(optimizer, module, tensors, 2, FOLDER)
