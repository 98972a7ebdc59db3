"""The decode buffers of a model, kept for its next batches; whether captured steps are right.

B sentences, W beam, V vocabulary.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from nmt.errors import is_out_of_memory, told
from nmt.model.devices import free_bytes, is_gpu
from nmt.model.kernels.cuda_graphs import Capturer
from nmt.model.kernels.static_stepper import BufferSize, DecodeBuffers, StaticStepper
from nmt.model.special_ids import BOS_ID
from nmt.model.stepper import Stepper
from nmt.model.transformer import Transformer

_KEPT_SHARE = 0.5  # of the memory that is free, for unused buffers: the rest is left to others

_COMPARED_SENTENCES, _COMPARED_STEPS = 4, 4  # of a model's first batch, with the plain steps
# Bounds on the error of a hypothesis' logits, relative to their Euclidean norm. Kernels for other
# shapes add in another order, which changes fp32 logits of the base model by 1e-6. All rounding of
# bf16 together changes those of trained models by 0.02 to 0.05, so two orders differ by less than
# 0.1. A wrong token or parent changes trained models' logits by 0.4 to 2.
_FP32_BOUND, _BF16_BOUND = 1e-3, 0.15


class DecodeBufferPool:
    """A model's decode buffers, which one batch after another uses: capturing takes time.

    The model's first batch is decoded in both ways. If a captured step cannot be made, or has other
    logits than a plain step, one line on standard error says so, and batches take plain steps.
    """

    def __init__(self, transformer: Transformer):
        """Allocates nothing yet. `transformer` is in evaluation mode, on its device.

        Its weights may be changed in place later, but not replaced.
        """
        self.transformer, self.device = transformer, transformer.embedding.device
        self._unused: list[DecodeBuffers] = []  # the most recently used last
        self._capturer: Capturer | None = None
        self._is_sound: bool | None = None  # None: not compared yet

    @contextmanager
    def stepper(self, src: Tensor, beam: int, max_length: int) -> Iterator[StaticStepper | Stepper]:
        """Decodes a batch of sentences in the block; the arguments are those of `Stepper`."""
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
        """Returns unused or new buffers of that size with no step taken."""
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
        """Keeps buffers for the next batch; frees those longest unused if there are too many."""
        if self._is_sound is False:
            return
        self._unused.append(buffers)
        kept = [each.size.bytes(self.transformer) for each in self._unused]
        free = free_bytes(self.device)
        while self._unused and sum(kept) > _KEPT_SHARE * (free + sum(kept)):
            free += kept.pop(0)
            del self._unused[0]

    def drop_unused(self) -> None:
        """Frees the memory of all buffers that no batch is using."""
        self._unused.clear()

    def _capture(self, buffers: DecodeBuffers) -> None:
        try:
            self._capturer = self._capturer or Capturer(self.device)
            buffers.capture(self._capturer)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            reason = str(error).partition("\n")[0]
            self._use_plain_steps(f"a decoding step could not be captured ({reason})")

    def _compare(self, src: Tensor, beam: int, max_length: int) -> None:
        """Decides whether batches are decoded in buffers: decodes the first steps of one."""
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
            # hypotheses that differ, and change places
            tokens = (logits.argmax(-1) + hypotheses) % logits.shape[-1]
            parents = hypotheses.flip(0).expand_as(tokens)
        self.release(static.buffers)
        error = float(torch.stack(errors).amax())
        bound = _BF16_BOUND if logits.dtype == torch.bfloat16 else _FP32_BOUND
        if not error <= bound:  # or it is no number
            self._use_plain_steps(
                f"the logits of a captured step differ from those of a plain one by {error:.2g} of "
                f"their size, more than {bound:.2g}"
            )
        elif self._is_sound is None:
            self._is_sound = True

    def _use_plain_steps(self, reason: str) -> None:
        if self._is_sound is not False:
            line = f"Decoding on {self.device} runs without CUDA graphs, which is slower: {reason}."
            advice = "Check that the installed torch fits this GPU and its driver."
            print(told(f"nmt: warning: {line} {advice}"), file=sys.stderr)
        self._is_sound = False
        self._unused.clear()


def _relative_error(found: Tensor, expected: Tensor) -> Tensor:
    """Returns the largest error of a hypothesis' logits relative to their norm: (B, W, V) -> ()."""
    difference = torch.where(found == expected, 0.0, found - expected)  # both may be -inf
    size = torch.where(expected.isfinite(), expected, 0.0)
    return (difference.norm(dim=-1) / size.norm(dim=-1)).amax()
