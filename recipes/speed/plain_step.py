"""A training step for a library's model and loss, like the library's own loop on one CPU."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from recipes.speed.workload import Batch

Step = Callable[[Batch], float]


def plain_step(model: nn.Module, loss: Callable[[Batch], Tensor], precision: str) -> Step:
    """Returns a training step: forward, backward, and Adam with the paper's settings.

    Args:
        loss: returns the mean over target tokens, in nats.
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
