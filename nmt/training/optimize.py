"""One optimizer step over this rank's slots."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.config import Config
from nmt.data.layout import Batch
from nmt.errors import DivergedError, InputError, is_out_of_memory
from nmt.model.devices import is_gpu
from nmt.paper import ADAM_BETAS, ADAM_EPSILON
from nmt.training.distributed import Ranks
from nmt.training.health import LOWER_RATE
from nmt.training.loss import TransformerLoss
from nmt.training.schedule import learning_rate


class StepResult:
    """What a step measured, over all ranks; losses in nats, divided by `StepPlan.loss_divisor`.

    On a GPU it is still to be computed: the first look at it waits for the device and, of several
    ranks, for the others, which have to look as well. It is the one time in a step when ranks
    exchange values, so that they agree on stopping as well. It raises DivergedError for a loss
    or gradient norm that is not finite.
    """

    def __init__(self, sums: Tensor, step: int, divisor: float, rate: float, ranks: Ranks):
        """Starts to copy the result from the device.

        Args:
            sums: (3,) float64: this rank's smoothed and unsmoothed loss in nats, gradient norm.
            divisor: of the losses, over all slots and ranks.
            rate: the step's learning rate.
        """
        self._sums, self._copied = sums.to("cpu", non_blocking=True), _mark(sums.device)
        self._step, self._divisor, self._ranks = step, divisor, ranks
        self.learning_rate = rate

    @cached_property
    def _values(self) -> tuple[float, float, float, int]:
        with self._ranks.guarded():
            if self._copied:
                self._ranks.await_device(self._copied)
            *own_sums, gradient_norm = self._sums.tolist()
            sums, signal_number = self._ranks.exchange(own_sums)
        loss, nll = (each / self._divisor for each in sums)
        if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
            raise DivergedError(
                f"training diverged (loss {loss}, gradient norm {gradient_norm}), "
                f"step {self._step}, {LOWER_RATE}"
            )
        return loss, nll, gradient_norm, signal_number

    @property
    def loss(self) -> float:
        """Smoothed."""
        return self._values[0]

    @property
    def nll(self) -> float:
        """Unsmoothed."""
        return self._values[1]

    @property
    def gradient_norm(self) -> float:
        """Before clipping."""
        return self._values[2]

    @property
    def signal_number(self) -> int:
        """Of a signal that had asked a rank to stop before the first look; 0 if none had."""
        return self._values[3]


def _mark(device: torch.device) -> torch.cuda.Event | None:
    """Records an event on a GPU, which completes once its work so far is done; None for a CPU."""
    if not is_gpu(device):
        return None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))  # not that of the current device
    return event


def adam(module: nn.Module) -> torch.optim.Adam:
    """Adam with the paper's settings (§5.3); the learning rate is set at each step."""
    return torch.optim.Adam(
        module.parameters(), lr=0.0, betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True
    )


def autocast(config: Config, device: torch.device) -> torch.autocast:
    """The precision of `training.precision`: bf16 matrix products over fp32 weights, or fp32.

    What follows from it elsewhere: `Transformer.embed` makes the residual stream bf16, and
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
    divisor: float,
    config: Config,
    ranks: Ranks,
) -> StepResult:
    """Forward, backward and update over this rank's slots.

    The loss is summed over tokens and divided once by the divisor of the whole step, so that the
    gradient does not depend on how the step was cut.

    Args:
        module: `loss_module`, perhaps wrapped for several ranks.
        slots: (number of the slot in the step, its tensors), in order.
        divisor: of the whole step's loss, over all slots and ranks, see `StepPlan.loss_divisor`.

    Raises:
        InputError: out of memory.
        DivergedError: non-finite loss or gradient norm; weights and moments are unchanged. On
            a GPU it is the result that raises it.
    """
    settings = config.training
    divisor_per_rank = divisor / ranks.world_size
    optimizer.zero_grad()
    sums = torch.zeros(2, dtype=torch.float64, device=ranks.device)
    for place, (slot, batch) in enumerate(slots):
        loss_module.transformer.randomness.seed(settings.seed, step, slot)
        is_last = place == len(slots) - 1
        waits = isinstance(module, DistributedDataParallel) and not is_last
        with module.no_sync() if waits else nullcontext(), _naming(step, slot, batch):  # type: ignore[operator]
            slot_loss, slot_nll = add_gradients(module, batch, divisor_per_rank, config)
        sums = sums + torch.stack([slot_loss, slot_nll]).double()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm(gradients)
    measured, rate = torch.stack([*sums, norm.double()]), learning_rate(config, step)
    result = StepResult(measured, step, divisor, rate, ranks)
    if ranks.is_asynchronous:  # and would stand still while the host reads
        _skip_if_not_finite(optimizer, measured)
    else:
        _ = result.loss  # raises before the update
    if settings.gradient_clip is not None:
        nn.utils.clip_grads_with_norm_(module.parameters(), settings.gradient_clip, norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return result


def _skip_if_not_finite(optimizer: torch.optim.Adam, measured: Tensor) -> None:
    """Has Adam change nothing in this step and all later ones if a loss or norm is not finite.

    The fused kernel reads that on the device; the steps that the host has begun before it knows
    are without effect.
    """
    found = (~measured.isfinite().all()).float()
    former = getattr(optimizer, "found_inf", None)
    optimizer.found_inf = found if former is None else torch.maximum(former, found)  # type: ignore[attr-defined]


def add_gradients(
    module: nn.Module, batch: Batch, divisor_per_rank: float, config: Config
) -> tuple[Tensor, Tensor]:
    """Forward and backward of one slot; its smoothed and unsmoothed loss, summed, in nats.

    Args:
        divisor_per_rank: the divisor of the whole step's loss, divided by the number of ranks.
            As gradients are averaged over ranks, they end up divided by the step's divisor;
            exactly so if the number of ranks is a power of two.
    """
    with autocast(config, batch.tgt_out.device):
        loss, nll = module(batch)
    (loss / divisor_per_rank).backward()
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
