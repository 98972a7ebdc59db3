"""Reuses decode buffers and their CUDA graphs, and checks the logits that the graphs compute.

In array shapes, B is the number of sentences, W the beam width, and V the vocabulary size.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from nmt.errors import is_out_of_memory, one_line
from nmt.model.devices import free_bytes, is_gpu
from nmt.model.kernels.cuda_graphs import Capturer
from nmt.model.kernels.static_stepper import BufferSize, DecodeBuffers, StaticStepper
from nmt.model.special_ids import BOS_ID
from nmt.model.stepper import Stepper
from nmt.model.transformer import Transformer

_KEPT_SHARE = 0.5  # maximum fraction of the otherwise free memory that unused buffers may occupy

# the first sentences and steps of the first batch are decoded both with and without CUDA graphs
_COMPARED_SENTENCES, _COMPARED_STEPS = 4, 4
# Maximum error of a hypothesis's logits, relative to their Euclidean norm. Kernels for different
# shapes sum in different orders, which causes errors of 1e-6 in the base model's fp32 logits. In
# trained models, the total rounding error of bf16 logits is 0.02 to 0.05, so two summation orders
# differ by less than 0.1. An incorrect token or parent causes errors of 0.4 to 2 in trained models.
_FP32_BOUND, _BF16_BOUND = 1e-3, 0.15


class DecodeBufferPool:
    """Keeps decode buffers with CUDA graphs for reuse, because capturing a graph is slow.

    The first steps of the first batch are computed both with and without CUDA graphs, and the
    logits are compared. If the graph capture fails or the logits differ too much, the pool prints a
    warning to standard error, and all batches are decoded without CUDA graphs.
    """

    def __init__(self, transformer: Transformer):
        """Creates an empty pool. Weights may later be changed in place, but not replaced."""
        self.transformer, self.device = transformer, transformer.embedding.device
        self._unused: list[DecodeBuffers] = []  # most recently used last
        self._capturer: Capturer | None = None
        self._is_sound: bool | None = None  # None: not compared yet

    @contextmanager
    def stepper(self, src: Tensor, beam: int, max_length: int) -> Iterator[StaticStepper | Stepper]:
        """Yields a stepper that decodes one batch within the body of the `with` statement.

        The arguments are the same as for `Stepper`.
        """
        if self._is_sound is None:
            self._compare(src, beam, max_length)
        if not self._is_sound:
            yield Stepper(self.transformer, src, beam, max_length)
            return
        steps = StaticStepper(self, src, beam, max_length)
        try:
            yield steps
        finally:
            self.release(steps.buffers)

    def acquire(self, size: BufferSize) -> DecodeBuffers:
        """Returns cleared buffers of the given size, reusing unused buffers if possible."""
        buffers = next((each for each in self._unused if each.size == size), None)
        if buffers:
            self._unused.remove(buffers)
        else:
            while self._unused and size.bytes(self.transformer) > free_bytes(self.device):
                del self._unused[0]
            buffers = DecodeBuffers(self.transformer, size)
            if is_gpu(self.device) and self._is_sound is not False:
                self._capture(buffers)
        buffers.clear()
        return buffers

    def release(self, buffers: DecodeBuffers) -> None:
        """Puts buffers back into the pool.

        If the pool then exceeds its memory limit, it frees the buffers that were returned earliest.
        """
        if self._is_sound is False:
            return
        self._unused.append(buffers)
        kept = [each.size.bytes(self.transformer) for each in self._unused]
        free = free_bytes(self.device)
        while self._unused and sum(kept) > _KEPT_SHARE * (free + sum(kept)):
            free += kept.pop(0)
            del self._unused[0]

    def drop_unused(self) -> None:
        """Frees the memory of all unused buffers."""
        self._unused.clear()

    def _capture(self, buffers: DecodeBuffers) -> None:
        try:
            self._capturer = self._capturer or Capturer(self.device)
            buffers.capture(self._capturer)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            reason = str(error).partition("\n")[0]
            self._use_plain_steps(f"the capture of a decoding step failed ({reason})")

    def _compare(self, src: Tensor, beam: int, max_length: int) -> None:
        """Decides whether to use CUDA graphs by computing the first steps with and without them."""
        few = src[:_COMPARED_SENTENCES]
        plain = Stepper(self.transformer, few, beam, max_length)
        static = StaticStepper(self, src, beam, max_length)
        tokens = torch.full((len(src), beam), BOS_ID, device=src.device)
        hypotheses = torch.arange(beam, device=src.device)
        parents = hypotheses.expand_as(tokens)
        errors = []
        for _ in range(min(_COMPARED_STEPS, max_length)):
            logits = static.step(tokens, parents)
            expected = plain.step(tokens[: len(few)], parents[: len(few)])
            errors.append(_relative_error(logits[: len(few)].float(), expected.float()))
            # different tokens per hypothesis, and parents in reverse order
            tokens = (logits.argmax(-1) + hypotheses) % logits.shape[-1]
            parents = hypotheses.flip(0).expand_as(tokens)
        self.release(static.buffers)
        error = float(torch.stack(errors).amax())
        bound = _BF16_BOUND if logits.dtype == torch.bfloat16 else _FP32_BOUND
        if not error <= bound:  # also true for NaN
            self._use_plain_steps(
                f"the relative error of a captured step's logits is {error:.2g}, above the limit "
                f"of {bound:.2g}"
            )
        elif self._is_sound is None:
            self._is_sound = True

    def _use_plain_steps(self, reason: str) -> None:
        if self._is_sound is not False:
            line = f"Decoding on {self.device} runs without CUDA graphs and is slower: {reason}."
            advice = "Check that the installed torch supports this GPU and its driver."
            print(one_line(f"nmt: warning: {line} {advice}"), file=sys.stderr)
        self._is_sound = False
        self._unused.clear()


def _relative_error(found: Tensor, expected: Tensor) -> Tensor:
    """Returns the largest relative error among the logit vectors of all hypotheses.

    Maps two tensors of shape (B, W, V) to a scalar tensor.
    """
    difference = torch.where(found == expected, 0.0, found - expected)  # both may be -inf
    size = torch.where(expected.isfinite(), expected, 0.0)
    return (difference.norm(dim=-1) / size.norm(dim=-1)).amax()
