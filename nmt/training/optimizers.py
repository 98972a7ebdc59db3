"""The optimizer: creating it, saving and restoring its state, and its highest learning rate.

No other module depends on the choice of the optimizer. `optimizer_step` sets the learning rate of
the optimizer's parameter groups before each step. For each state of each parameter, a checkpoint
has a tensor `STATE.PARAMETER` with the shape of the parameter; `nmt.runs` compares names and shapes
with the model. As in PyTorch's fused optimizers, a step must change nothing if the optimizer's
attribute `found_inf`, a scalar on the device, is not 0.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nmt.config import Config
from nmt.errors import NoModelError
from nmt.paper import ADAM_BETAS, ADAM_EPSILON
from nmt.training.schedule import learning_rate

# State of each parameter, in the optimizer's names; the number of steps is the checkpoint's.
_STATES: dict[type[Optimizer], tuple[str, ...]] = {torch.optim.Adam: ("exp_avg", "exp_avg_sq")}
# Peak learning rate in units of d_model^-0.5, that is factor / sqrt(warmup_steps). The paper's
# models have 0.016, those for Multi30k and the demo 0.034 to 0.05. The demo's model (d_model 128,
# post-norm, 450 steps) still learns at 0.071. At 0.095 its loss stays near that of guessing by
# token frequencies, and at 0.13 it rises again. On Multi30k, 0.095 yields the same word for every
# sentence. Pre-norm learns well at 0.095; higher rates were not tried.
_HIGHEST_PEAK = 0.08


def new_optimizer(module: nn.Module, config: Config) -> Optimizer:
    """Returns Adam with the paper's β and ε (§5.3), and the learning rate of the first step."""
    return torch.optim.Adam(
        module.parameters(),
        lr=learning_rate(config, 1),
        betas=ADAM_BETAS,
        eps=ADAM_EPSILON,
        fused=True,
    )


def highest_rate(config: Config) -> float | None:
    """Returns the highest learning rate that is known to work, or None."""
    return None if config.model.norm == "pre" else _HIGHEST_PEAK * config.model.d_model**-0.5


def state_tensors(optimizer: Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """Returns the optimizer's tensors by their names `STATE.PARAMETER`, without copying them."""
    return {
        f"{state}.{name}": optimizer.state[parameter][state]
        for name, parameter in module.named_parameters()
        for state in _STATES[type(optimizer)]
    }


def restore_state(
    optimizer: Optimizer, module: nn.Module, tensors: dict[str, Tensor], step: int, folder: Path
) -> None:
    """Restores the state of an optimizer after `step` steps.

    Args:
        tensors: the result of `state_tensors`, on any device.
        folder: the checkpoint's directory, which error messages name.

    Raises:
        NoModelError: `tensors` is the state of another optimizer, or has impossible values.
    """
    states = _STATES[type(optimizer)]
    found = {name.partition(".")[0] for name in tensors}
    if found != {*states}:
        raise NoModelError(
            f"{folder} has wrong optimizer states: {', '.join(sorted(found)) or 'none'} instead of "
            f"{', '.join(states)}. Restore it from a copy."
        )
    for name, tensor in tensors.items():
        if name.startswith("exp_avg_sq.") and tensor.min() < 0:
            raise NoModelError(
                f"{folder} is damaged: {name} has negative values. Restore it from a copy."
            )
    for name, parameter in module.named_parameters():
        kept = {state: tensors[f"{state}.{name}"].to(parameter.device) for state in states}
        # a tensor, as the fused kernel keeps it
        count = torch.tensor(float(step), device=parameter.device)
        optimizer.state[parameter] = {"step": count} | kept


def skip_if_not_finite(optimizer: Optimizer, measured: Tensor) -> None:
    """Disables this step and all later ones if a value of `measured` is not finite.

    The check runs on the device. It therefore also stops steps that the host launches before it
    knows that a value is not finite.
    """
    found = (~measured.isfinite().all()).float()
    former = getattr(optimizer, "found_inf", None)
    optimizer.found_inf = found if former is None else torch.maximum(former, found)  # type: ignore[attr-defined]
