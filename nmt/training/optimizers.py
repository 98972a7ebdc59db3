"""Defines and creates optimizers, and saves and restores their states.

Other modules do not depend on which optimizer is used. `optimizer_step` sets the learning rate of
the optimizer's parameter groups before each step. A checkpoint contains a tensor for each optimizer
state of each parameter. The tensor is named `STATE.PARAMETER` and has the shape of the parameter.
When `nmt.runs` reads a checkpoint, it compares the names and shapes of these tensors with the
parameters of the model. The optimizer's attribute `found_inf` is a scalar tensor on the device. As
in PyTorch's fused optimizers, a step must not change anything if `found_inf` is not 0.
"""

import math
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nmt.config import Config
from nmt.errors import NoModelError
from nmt.model.kernels.products import Linear
from nmt.paper import ADAM_BETAS, ADAM_EPSILON
from nmt.training.schedule import learning_rate

LION_BETAS = (0.9, 0.99)  # Chen et al. (2023)
# Jordan et al. (2024), as in torch.optim.Muon
MUON_MOMENTUM, NEWTON_SCHULZ_STEPS = 0.95, 5
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
# With this factor, Muon's updates have the same root mean square as Adam's (Liu et al., 2025).
MUON_SCALE = 0.2
# Peak learning rate, in units of d_model^-0.5, above which users are warned. In these units, the
# peak is factor / sqrt(warmup_steps): 0.016 for the paper's models, and 0.034 to 0.05 for Multi30k
# and the demo. The demo's model (d_model 128, post-norm, 450 steps) still learns at 0.071. At 0.095
# its loss stays near the loss of guessing by token frequencies, and at 0.13 its loss rises again.
# On Multi30k with 0.095, every translation is the same word. Pre-norm models learn well at 0.095;
# higher rates were not tried.
_HIGHEST_PEAK = 0.08


class Lion(Optimizer):
    """Implements Lion (Chen et al., 2023) without weight decay.

    For a gradient g with the moving average m, a step computes
    weight -= rate * sign(β₁ m + (1 - β₁) g) and then m = β₂ m + (1 - β₂) g.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float):
        super().__init__(parameters, {"lr": rate})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Updates all parameters that have gradients; ignores the `closure` argument."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    average = _average_gradient(self, weight)
                    gradient = _unless_skipped(self, weight.grad, average)
                    sign = average.lerp(gradient, 1 - LION_BETAS[0]).sign_()
                    weight.sub_(_unless_skipped(self, sign, 0.0), alpha=group["lr"])
                    average.lerp_(gradient, 1 - LION_BETAS[1])


class Muon(Optimizer):
    """Applies Muon (Jordan et al., 2024) to `Linear` weights, and Adam to all other parameters.

    Muon orthogonalizes the Nesterov momentum of a weight matrix by Newton-Schulz iterations. If a
    weight matrix consists of several stacked projections, each projection is orthogonalized
    separately. Unlike torch.optim.Muon, this class does not apply weight decay, and it skips a step
    if `found_inf` is not 0.
    """

    def __init__(self, module: nn.Module, rate: float):
        self._rows = {
            each.weight: each.rows for each in module.modules() if isinstance(each, Linear)
        }
        self._adam = _new_adam([p for p in module.parameters() if p not in self._rows], rate)
        groups = [*self._adam.param_groups, {"params": [*self._rows]}]
        super().__init__(groups, {"lr": rate})
        self._adam.state = self.state

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Updates all parameters that have gradients; ignores the `closure` argument."""
        if hasattr(self, "found_inf"):
            self._adam.found_inf = self.found_inf  # type: ignore[attr-defined]
        self._adam.step()
        rate = self.param_groups[-1]["lr"]
        for weight, rows in self._rows.items():
            if weight.grad is not None:
                average = _average_gradient(self, weight)
                gradient = _unless_skipped(self, weight.grad, average)
                average.lerp_(gradient, 1 - MUON_MOMENTUM)
                update = gradient.lerp(average, MUON_MOMENTUM)
                update = torch.cat([_orthogonalized(part) for part in update.split(rows)])
                weight.sub_(_unless_skipped(self, update, 0.0), alpha=MUON_SCALE * rate)


def _average_gradient(optimizer: Optimizer, weight: Tensor) -> Tensor:
    """Returns the moving average of a parameter's gradient; the average starts at 0."""
    state = optimizer.state[weight]
    if not state:
        state["exp_avg"] = torch.zeros_like(weight)
    average: Tensor = state["exp_avg"]
    return average


def _unless_skipped(optimizer: Optimizer, value: Tensor, otherwise: Tensor | float) -> Tensor:
    """Returns `value`, or `otherwise` if `found_inf` is not 0, without waiting for the device."""
    found = getattr(optimizer, "found_inf", None)
    return value if found is None else torch.where(found == 0, value, otherwise)


def _orthogonalized(matrix: Tensor) -> Tensor:
    """Approximates U Vᵀ * sqrt(max(shape)) for a matrix with singular value decomposition U S Vᵀ.

    The Newton-Schulz iterations run in bf16. The singular values of the result are between about
    0.7 and 1.2 times sqrt(max(shape)), except for singular values that are almost 0.
    """
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if is_tall else matrix).bfloat16()
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if is_tall else x).to(matrix.dtype) * math.sqrt(max(matrix.shape))


def optimizer_flops(module: nn.Module, config: Config) -> int:
    """Returns the FLOPs per step of Muon's matrix multiplications, or 0 for other optimizers."""
    if config.training.optimizer != "muon":
        return 0
    shapes = [
        sorted((rows, each.in_features))
        for each in module.modules()
        if isinstance(each, Linear)
        for rows in each.rows
    ]
    return sum(NEWTON_SCHULZ_STEPS * (4 * m * m * n + 2 * m**3) for m, n in shapes)


def _new_adam(parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, lr=rate, betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True)


EMA = "ema"  # name of the state with a parameter's moving average (`training.ema_decay`)
# The names that each optimizer gives to the states of a parameter. The number of steps is omitted,
# because it equals the checkpoint's step.
_STATES: dict[type[Optimizer], tuple[str, ...]] = {
    torch.optim.Adam: ("exp_avg", "exp_avg_sq"), Lion: ("exp_avg",),
    Muon: ("exp_avg", "exp_avg_sq"),
}  # fmt: skip


def new_optimizer(module: nn.Module, config: Config) -> Optimizer:
    """Returns the optimizer that `training.optimizer` selects, with the first step's learning rate.

    Adam uses the paper's β and ε (§5.3).
    """
    rate = learning_rate(config, 1)
    optimizer: Optimizer
    if config.training.optimizer == "muon":
        optimizer = Muon(module, rate)
    elif config.training.optimizer == "lion":
        optimizer = Lion(module.parameters(), rate)
    else:
        optimizer = _new_adam(module.parameters(), rate)
    optimizer.defaults[EMA] = config.training.ema_decay
    return optimizer


def update_moving_average(optimizer: Optimizer) -> None:
    """Updates the moving average of the weights after a step, if `training.ema_decay` is set.

    After the first step, the moving average e is equal to the weights. After each later step, e
    becomes decay * e + (1 - decay) * weights. If a step is skipped, the moving average does not
    change.
    """
    decay = optimizer.defaults[EMA]
    if decay is None:
        return
    for parameter, state in optimizer.state.items():
        if EMA in state:
            average = state[EMA]
            average.lerp_(_unless_skipped(optimizer, parameter.detach(), average), 1 - decay)
        else:
            state[EMA] = parameter.detach().clone()


def averaged_weights(optimizer: Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """Returns the moving average of each parameter as a tensor in host memory."""
    return {name: optimizer.state[p][EMA].cpu() for name, p in module.named_parameters()}


def highest_rate(config: Config) -> float | None:
    """Returns the highest recommended learning rate, or None if no limit is known."""
    if config.model.norm == "pre" or config.training.optimizer != "adam":
        return None
    return _HIGHEST_PEAK * config.model.d_model**-0.5


def state_tensors(optimizer: Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """Returns the optimizer's state tensors, named `STATE.PARAMETER`, without copying them.

    The result contains one tensor for each state of each parameter. A state that a parameter does
    not need, such as `exp_avg_sq` for a matrix that Muon updates, is filled with 0.
    """
    return {
        f"{state}.{name}": optimizer.state[parameter].get(
            state, torch.zeros(()).expand_as(parameter)
        )
        for name, parameter in module.named_parameters()
        for state in _states(optimizer)
    }


def _states(optimizer: Optimizer) -> tuple[str, ...]:
    """Returns the names of the optimizer states that a checkpoint contains for each parameter."""
    has_average = optimizer.defaults[EMA] is not None
    return (*_STATES[type(optimizer)], *([EMA] if has_average else []))


def restore_state(
    optimizer: Optimizer, module: nn.Module, tensors: dict[str, Tensor], step: int, folder: Path
) -> None:
    """Restores the state that an optimizer had after `step` steps.

    Args:
        tensors: the tensors that `state_tensors` returned, on any device.
        folder: the checkpoint's directory, which is used in error messages.

    Raises:
        NoModelError: the tensors belong to another type of optimizer, or a second-moment estimate
            is negative.
    """
    states = _states(optimizer)
    found = {name.partition(".")[0] for name in tensors}
    if found != {*states}:
        raise NoModelError(
            f"{folder} has the wrong optimizer states: {', '.join(sorted(found)) or 'none'} "
            f"instead of {', '.join(states)}. Restore it from a copy."
        )
    for name, tensor in tensors.items():
        if name.startswith("exp_avg_sq.") and tensor.min() < 0:
            raise NoModelError(
                f"{folder} is damaged: {name} has negative values. Restore it from a copy."
            )
    for name, parameter in module.named_parameters():
        kept = {state: tensors[f"{state}.{name}"].to(parameter.device) for state in states}
        # The fused kernel stores the step in a tensor.
        count = torch.tensor(float(step), device=parameter.device)
        optimizer.state[parameter] = {"step": count} | kept


def skip_if_not_finite(optimizer: Optimizer, measured: Tensor) -> None:
    """Makes the optimizer skip this and all later steps if a value in `measured` is not finite.

    The check runs on the device. The optimizer therefore also skips the steps that the host
    launches before the host reads the values in `measured`.
    """
    found = (~measured.isfinite().all()).float()
    former = getattr(optimizer, "found_inf", None)
    optimizer.found_inf = found if former is None else torch.maximum(former, found)  # type: ignore[attr-defined]
