"""A training step for a library's model and loss, as in the library's training loop on a CPU."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from recipes.speed.workload import Batch

Step = Callable[[Batch], float]


def plain_step(model: nn.Module, loss: Callable[[Batch], Tensor], precision: str) -> Step:
    """Returns a training step with forward pass, backward pass, and an update by Adam.

    Args:
        model: the model to train.
        loss: returns the mean loss over target tokens, in nats.
        precision: "fp32" or "bf16".
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def step(batch: Batch) -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            value = loss(batch)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value.item()

    return step
