"""One optimizer step over this rank's slots."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.config import Config
from nmt.data.layout import Batch
from nmt.errors import DivergedError, InputError, is_out_of_memory
from nmt.paper import ADAM_BETAS, ADAM_EPSILON
from nmt.training.distributed import Ranks
from nmt.training.health import LOWER_RATE
from nmt.training.loss import TransformerLoss
from nmt.training.schedule import learning_rate


@dataclass(frozen=True)
class StepResult:
    """What a step measured, over all ranks."""

    loss: float  # smoothed, nats per target token
    nll: float  # unsmoothed, nats per target token
    gradient_norm: float  # before clipping
    learning_rate: float


def adam(module: nn.Module) -> torch.optim.Adam:
    """Adam with the paper's settings (§5.3); the learning rate is set at each step."""
    return torch.optim.Adam(
        module.parameters(), lr=0.0, betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True
    )


def autocast(config: Config, device: torch.device) -> torch.autocast:
    """The precision of `training.precision`: bf16 matrix products over fp32 weights, or fp32.

    What follows from it elsewhere: on a CPU `Transformer.embed` makes the residual stream bf16, and
    `smoothed_cross_entropy` makes the logits so. A model to translate with has a precision of its
    own (`Translator.load`).
    """
    low = config.training.precision == "bf16"
    return torch.autocast(device.type, torch.bfloat16, enabled=low)


def optimizer_step(
    module: nn.Module,
    loss_module: TransformerLoss,
    optimizer: torch.optim.Adam,
    slots: Sequence[tuple[int, Batch]],
    step: int,
    target_tokens: int,
    config: Config,
    ranks: Ranks,
) -> StepResult:
    """Forward, backward and update over this rank's slots.

    The loss is summed over tokens and divided once by those of the whole step, so that the
    gradient does not depend on how the step was cut.

    Args:
        module: `loss_module`, perhaps compiled or wrapped for several ranks.
        slots: (number of the slot in the step, its tensors), in order.
        target_tokens: of the whole step, over all slots and ranks.

    Raises:
        InputError: out of memory.
        DivergedError: non-finite loss or gradient norm; weights and moments are unchanged.
    """
    settings = config.training
    tokens_per_rank = target_tokens / ranks.world_size
    optimizer.zero_grad()
    sums = torch.zeros(2, dtype=torch.float64, device=ranks.device)
    for place, (slot, batch) in enumerate(slots):
        loss_module.transformer.randomness.seed(settings.seed, step, slot)
        is_last = place == len(slots) - 1
        waits = isinstance(module, DistributedDataParallel) and not is_last
        with module.no_sync() if waits else nullcontext(), _naming(step, slot, batch):  # type: ignore[operator]
            slot_loss, slot_nll = add_gradients(module, batch, tokens_per_rank, config)
        sums = sums + torch.stack([slot_loss, slot_nll]).double()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm(gradients)
    *own_sums, gradient_norm = torch.stack(
        [*sums, norm.double()]
    ).tolist()  # the host waits for the GPU only here
    loss, nll = ranks.sum(own_sums)
    if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
        raise DivergedError(
            f"training diverged (loss {loss / target_tokens}, gradient norm {gradient_norm}), "
            f"step {step}, {LOWER_RATE}"
        )
    if settings.gradient_clip is not None:
        nn.utils.clip_grads_with_norm_(module.parameters(), settings.gradient_clip, norm)
    rate = learning_rate(config, step)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return StepResult(loss / target_tokens, nll / target_tokens, gradient_norm, rate)


def add_gradients(
    module: nn.Module, batch: Batch, tokens_per_rank: float, config: Config
) -> tuple[Tensor, Tensor]:
    """Forward and backward of one slot; its smoothed and unsmoothed loss, summed, in nats.

    Args:
        tokens_per_rank: target tokens of the whole step divided by the number of ranks. As
            gradients are averaged over ranks, they end up divided by the tokens of the step;
            exactly so if the number of ranks is a power of two.
    """
    with autocast(config, batch.tgt_out.device):
        loss, nll = module(batch)
    (loss / tokens_per_rank).backward()
    return loss.detach(), nll


@contextmanager
def _naming(step: int, slot: int, batch: Batch) -> Iterator[None]:
    """Names the slot in the message if memory does not suffice."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        rows, columns = batch.tgt_out.shape
        raise InputError(
            f"out of memory, step {step}, slot {slot} of {rows} rows of {columns} target tokens, "
            "raise training.micro_batches, so that slots are smaller"
        ) from None
