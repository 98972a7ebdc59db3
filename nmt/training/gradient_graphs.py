"""Replays the forward and backward passes of training steps as CUDA graphs.

A training step of the base model launches about a thousand kernels. If a step has few tokens or the
host is slow, the GPU finishes each kernel before the host has launched the next one. A CUDA graph
launches all kernels of a forward and backward pass at once, but only for micro-batches of the shape
with which it was captured. Graphs are therefore used only with compiled layers, for which
micro-batches have a fixed shape (see `fixed_shape`). Results do not depend on whether CUDA graphs
are used, because the kernels are the same.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.data.layout import Batch
from nmt.errors import one_line
from nmt.model.devices import free_bytes, is_gpu, total_bytes
from nmt.model.kernels.cuda_graphs import Capturer, Step
from nmt.model.tokens import Tokens

# Adds the gradients of a micro-batch and returns its smoothed and unsmoothed loss, (2,). The second
# argument is the divisor of the loss, a scalar on the device.
AddGradients = Callable[[Batch, Tensor], Tensor]


@dataclass(frozen=True)
class _Captured:
    batch: Batch  # the micro-batch that the graph reads
    divisor: Tensor
    replay: Step


class GradientGraphs:
    """Captures one CUDA graph per shape of micro-batches.

    If a capture fails, a warning is printed to standard error, and all later steps run without CUDA
    graphs.

    Attributes:
        is_possible: whether steps can be replayed; True until a capture fails.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]):
        """Creates an object without graphs.

        Args:
            parameters: the model's parameters, all on the same GPU. A graph adds gradients to the
                tensors in the `grad` attributes, so gradients must be reset to 0 in place.
        """
        self._parameters = list(parameters)
        self._captured: dict[tuple[object, ...], _Captured] = {}
        self._capturer: Capturer | None = None
        self.is_possible = True

    def prepare(self, batches: Sequence[Batch], add_gradients: AddGradients) -> bool:
        """Captures a graph for each new shape; returns whether all micro-batches can be replayed.

        A capture uses random numbers and overwrites all gradients. Call this method before the
        gradients are zeroed and the random number generator is seeded.
        """
        for batch in batches:
            if self.is_possible and _shape(batch) not in self._captured:
                self._capture(batch, add_gradients)
        return self.is_possible

    def replay(self, batch: Batch, divisor: Tensor) -> Tensor:
        """Replays the graph for a micro-batch's shape, and returns the losses of the micro-batch.

        Args:
            divisor: the number by which the loss is divided, a scalar on the device.

        Returns:
            The smoothed and the unsmoothed loss, (2,). The next call overwrites this tensor.
        """
        captured = self._captured[_shape(batch)]
        inputs = [*_tensors(captured.batch), captured.divisor]
        torch._foreach_copy_(inputs, [*_tensors(batch), divisor])
        return captured.replay()

    def make_room(self) -> None:
        """Frees all graphs if less than half of the GPU's memory is free.

        The memory of a graph, which includes the activations of a micro-batch, cannot be used for
        anything else, such as a validation. The next steps capture the graphs again.
        """
        device = self._parameters[0].device
        if is_gpu(device) and 2 * free_bytes(device) < total_bytes(device):
            self._captured.clear()
            torch.cuda.empty_cache()  # returns the graphs' memory to the device

    def _capture(self, batch: Batch, add_gradients: AddGradients) -> None:
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        inputs = _copy(batch)
        divisor = torch.ones((), device=batch.tgt_out.device)
        try:
            self._capturer = self._capturer or Capturer(batch.tgt_out.device)
            replay = self._capturer.captured(lambda: add_gradients(inputs, divisor))
        except RuntimeError as error:
            self.is_possible = False
            self._captured.clear()
            reason = str(error).partition("\n")[0]
            line = (
                "nmt: warning: The GPU runs training steps without CUDA graphs, which may be "
                f"slower, because a step could not be captured: {reason}"
            )
            print(one_line(line), file=sys.stderr)
        else:
            self._captured[_shape(batch)] = _Captured(inputs, divisor, replay)


def _tensors(batch: Batch) -> list[Tensor]:
    sides = (batch.src, batch.tgt_in)
    ids = [each for side in sides for each in (side.tokens, side.positions, side.segments)]
    return [*ids, batch.tgt_out, *batch.columns.values()]


def _shape(batch: Batch) -> tuple[object, ...]:
    return batch.src.tokens.shape, batch.tgt_out.shape, *batch.columns


def _copy(batch: Batch) -> Batch:
    src, tgt_in = (
        Tokens(side.tokens.clone(), side.positions.clone(), side.segments.clone())
        for side in (batch.src, batch.tgt_in)
    )
    columns = {name: column.clone() for name, column in batch.columns.items()}
    return Batch(src, tgt_in, batch.tgt_out.clone(), columns)
