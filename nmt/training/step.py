"""Computes one optimizer step over this rank's micro-batches."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from nmt.config import Config
from nmt.data.layout import Batch
from nmt.errors import DivergedError, InputError, is_out_of_memory
from nmt.model.devices import is_gpu
from nmt.training.distributed import Ranks
from nmt.training.health import IF_DIVERGED
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import skip_if_not_finite, update_moving_average
from nmt.training.schedule import learning_rate


class StepResult:
    """The losses and the gradient norm of a step, computed over all ranks.

    The losses are sums in nats, divided by `StepPlan.loss_divisor`. On a GPU, the losses and the
    gradient norm may not be available yet. The first access to a value waits for the device and for
    the other ranks, so every rank must access the result. The first access to a value also
    exchanges the numbers in `requests` between the ranks, so that ranks communicate only once per
    step. Accessing a value raises DivergedError if the loss or the gradient norm is not finite.
    """

    def __init__(
        self,
        sums: Tensor,
        step: int,
        divisor: float,
        rate: float,
        ranks: Ranks,
        requests: Callable[[], Sequence[float]] = tuple,
    ):
        """Starts copying the result from the device to host memory.

        Args:
            sums: (3,) float64, this rank's smoothed loss, unsmoothed loss and gradient norm. The
                losses are in nats and summed over target tokens.
            divisor: the number by which the sums of the losses over all ranks are divided.
            rate: the learning rate of the step.
            requests: a function that is called when ranks exchange values, and returns this rank's
                numbers for the property `requests`.
        """
        self._sums, self._copied = sums.to("cpu", non_blocking=True), _mark(sums.device)
        self._step, self._divisor, self._ranks = step, divisor, ranks
        self._requests = requests
        self.learning_rate = rate

    @cached_property
    def _values(self) -> tuple[float, float, float, list[float]]:
        with self._ranks.guarded():
            if self._copied:
                self._ranks.await_device(self._copied)
            *own_sums, gradient_norm = self._sums.tolist()
            sums, requests = self._ranks.exchange(own_sums, self._requests())
        loss, nll = (each / self._divisor for each in sums)
        if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
            raise DivergedError(
                f"Training diverged at step {self._step}: loss {loss}, gradient norm "
                f"{gradient_norm}. {IF_DIVERGED}"
            )
        return loss, nll, gradient_norm, requests

    @property
    def loss(self) -> float:
        """Returns the smoothed loss."""
        return self._values[0]

    @property
    def nll(self) -> float:
        """Returns the unsmoothed loss."""
        return self._values[1]

    @property
    def gradient_norm(self) -> float:
        """Returns the gradient norm before clipping."""
        return self._values[2]

    @property
    def requests(self) -> list[float]:
        """Returns the maximum over ranks of each number that the `requests` callback returned."""
        return self._values[3]


def _mark(device: torch.device) -> torch.cuda.Event | None:
    """Records a CUDA event after all GPU work launched so far; returns None on a CPU."""
    if not is_gpu(device):
        return None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))  # the current device may be another GPU
    return event


def autocast(config: Config, device: torch.device) -> torch.autocast:
    """Returns the autocast context for `training.precision`.

    With bf16, matrix multiplications with the fp32 weights are computed in bf16.
    `Transformer.embed` converts the residual stream to bf16, and `smoothed_cross_entropy` computes
    the logits in bf16. `training.precision` does not affect translation (see `Translator.load`).
    """
    low = config.training.precision == "bf16"
    return torch.autocast(device.type, torch.bfloat16, enabled=low)


def optimizer_step(
    module: nn.Module,
    loss_module: TransformerLoss,
    optimizer: Optimizer,
    micro_batches: Sequence[tuple[int, Batch]],
    step: int,
    divisor: float,
    config: Config,
    ranks: Ranks,
    requests: Callable[[], Sequence[float]] = tuple,
) -> StepResult:
    """Runs forward and backward passes for this rank's micro-batches, and updates the weights.

    The sum of the losses of all tokens in the step is divided once by `divisor`, so the gradient
    does not depend on the number of micro-batches.

    Args:
        module: the loss module, wrapped in DistributedDataParallel if there are several ranks.
        micro_batches: the micro-batches of this rank, each with its number within the step, in
            ascending order.
        divisor: the number by which the loss of the whole step is divided (see
            `StepPlan.loss_divisor`).
        requests: see `StepResult`.

    Raises:
        InputError: memory ran out.
        DivergedError: the loss or the gradient norm is not finite. The weights and the optimizer's
            state are unchanged. On a GPU, this error is raised when the result is accessed.
    """
    settings = config.training
    graphs = loss_module.graphs if module is loss_module else None
    batches = [batch for _, batch in micro_batches]
    is_replayed = graphs is not None and graphs.prepare(
        batches, lambda batch, divisor: add_gradients(loss_module, batch, divisor, config)
    )
    optimizer.zero_grad(set_to_none=not is_replayed)
    # on the device, because a CUDA graph cannot read a new number from the host
    divisor_per_rank = torch.full((), divisor / ranks.world_size, device=ranks.device)
    sums = torch.zeros(2, dtype=torch.float64, device=ranks.device)
    for place, (micro_batch, batch) in enumerate(micro_batches):
        loss_module.transformer.randomness.seed(settings.seed, step, micro_batch)
        is_last = place == len(micro_batches) - 1
        waits = isinstance(module, DistributedDataParallel) and not is_last
        with module.no_sync() if waits else nullcontext(), _naming(step, micro_batch, batch):  # type: ignore[operator]
            if graphs and is_replayed:
                losses = graphs.replay(batch, divisor_per_rank)
            else:
                losses = add_gradients(module, batch, divisor_per_rank, config)
        sums = sums + losses.double()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm(gradients)
    measured, rate = torch.stack([*sums, norm.double()]), learning_rate(config, step)
    result = StepResult(measured, step, divisor, rate, ranks, requests)
    if is_gpu(ranks.device):  # the GPU would be idle while the host reads the result
        skip_if_not_finite(optimizer, measured)
    else:
        _ = result.loss  # raises DivergedError before the update
    if settings.gradient_clip is not None:
        nn.utils.clip_grads_with_norm_(module.parameters(), settings.gradient_clip, norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    update_moving_average(optimizer)
    return result


def add_gradients(
    module: nn.Module, batch: Batch, divisor_per_rank: Tensor, config: Config
) -> Tensor:
    """Accumulates the gradients of a micro-batch; returns its smoothed and unsmoothed loss, (2,).

    The returned losses are sums over target tokens, not averages.

    Args:
        divisor_per_rank: a scalar, `StepPlan.loss_divisor` divided by the number of ranks.
            Because DistributedDataParallel averages gradients over ranks, the sum of the gradients
            is in effect divided by the whole step's divisor. Dividing by the number of ranks is
            exact if this number is a power of two.
    """
    with autocast(config, batch.tgt_out.device):
        loss, nll = module(batch)
    (loss / divisor_per_rank).backward()
    return torch.stack([loss.detach(), nll])


@contextmanager
def _naming(step: int, micro_batch: int, batch: Batch) -> Iterator[None]:
    """Converts an out-of-memory error to an InputError that identifies the micro-batch."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        rows, columns = batch.tgt_out.shape
        raise InputError(
            f"Out of memory in step {step}, micro-batch {micro_batch} ({rows} rows of {columns} "
            "target tokens). Raise training.micro_batches to divide each step into smaller "
            "micro-batches."
        ) from None
