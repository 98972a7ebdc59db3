"""Implements `StepInterface` with tensors of fixed shapes and addresses.

A decoding step of the base model launches about 300 kernels. If a batch contains only a few
sentences, the GPU finishes each kernel before the host has launched the next one. A CUDA graph
launches all kernels at once, but always uses the same shapes and addresses. This module therefore
rounds shapes up to one of a few sizes, and stores the step number in a tensor on the device. On a
CPU, the same code runs without a CUDA graph.

As in `stepper`, the W hypotheses of a sentence share one cache of keys and values.

In shapes, B is the number of sentences, W the beam width, S the source length, C the capacity in
steps, P = C * W the number of cache columns, and H the number of heads. K stands for d_k, and V
stands for d_v.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from nmt.model.attention import KeysValues, Visibility
from nmt.model.kernels.cuda_graphs import Capturer, Step
from nmt.model.tokens import Tokens
from nmt.model.transformer import Transformer

# Each size requires a separate capture, so only a few sizes are used.
_FEW_SENTENCES = (1, 8, 64)  # B is one of these numbers or a larger power of two
_LEAST_LENGTH = 32  # S and C are this number or a larger power of two
_SHRINK = 4  # smaller buffers are used only if they have at most a quarter of the rows


@dataclass(frozen=True)
class BufferSize:
    """The sizes B, W, S and C of `DecodeBuffers`, in this order."""

    sentences: int
    beam: int
    source: int
    steps: int

    @classmethod
    def of(cls, sentences: int, beam: int, source: int, steps: int) -> BufferSize:
        """Returns the smallest supported buffer size that is large enough for a batch."""
        few = (number for number in _FEW_SENTENCES if number >= sentences)
        return cls(
            next(few, _power_of_two(sentences)),
            beam,
            max(_LEAST_LENGTH, _power_of_two(source)),
            max(_LEAST_LENGTH, _power_of_two(steps)),
        )

    def bytes(self, transformer: Transformer) -> int:
        """Returns the size of the keys, values and logits in bytes.

        The sizes of all other tensors are negligible.
        """
        layers = [layer.self_attention for layer in transformer.decoder_layers()]
        per_token = sum(layer.heads * (layer.d_k + layer.d_v) for layer in layers)
        tokens, vocabulary = self.source + self.steps * self.beam, len(transformer.embedding)
        numbers = self.sentences * (tokens * per_token + self.beam * vocabulary)
        return numbers * transformer.embedding.element_size()


def _power_of_two(number: int) -> int:
    """Returns the smallest power of two that is at least `number`."""
    return 1 << (number - 1).bit_length()


class StaticCache:
    """Stores one layer's keys and values for C steps; the columns of future steps are 0.

    Args:
        keys: the cached keys, (B, H, P, K).
        values: the cached values, (B, H, P, V).
        columns: the indices of the columns that the current step writes, (W,) int64.
    """

    def __init__(self, keys: Tensor, values: Tensor, columns: Tensor):
        self.keys, self.values, self.columns = keys, values, columns

    def append(self, keys: Tensor, values: Tensor) -> KeysValues:
        """Writes the keys and values of the current step, and returns all P columns of the cache.

        (B, H, W, K), (B, H, W, V) -> (B, H, P, K), (B, H, P, V)
        """
        self.keys.index_copy_(2, self.columns, keys)
        self.values.index_copy_(2, self.columns, values)
        return self.keys, self.values


class DecodeBuffers:
    """Stores the decoding state of a batch in fixed-size tensors, and computes decoding steps."""

    def __init__(self, transformer: Transformer, size: BufferSize):
        """Allocates tensors of the given size, in the dtype of the model's weights."""
        self.transformer, self.size = transformer, size
        weights = transformer.embedding
        B, W, S, C = size.sentences, size.beam, size.source, size.steps
        numbers = partial(torch.zeros, dtype=torch.int64, device=weights.device)
        self.step_number = numbers(())
        self.columns, self.tokens, self.parents = numbers(W), numbers(B, W), numbers(B, W)
        self.segments = numbers(B, S)
        self.ancestors = numbers(B, W, C * W).bool()
        self.caches: list[StaticCache] = []
        self.memory: list[KeysValues] = []
        for layer in transformer.decoder_layers():
            attention = layer.self_attention
            rows = partial(weights.new_zeros, B, attention.heads)
            keys, values = rows(C * W, attention.d_k), rows(C * W, attention.d_v)
            self.caches.append(StaticCache(keys, values, self.columns))
            self.memory.append((rows(S, attention.d_k), rows(S, attention.d_v)))
        self._captured: Step | None = None

    def capture(self, capturer: Capturer) -> None:
        """Captures a decoding step as a CUDA graph.

        This method raises the same errors as `Capturer.captured`.
        """
        self._captured = capturer.captured(self._step)

    def clear(self) -> None:
        """Resets all buffers to their state before the first decoding step."""
        self.step_number.zero_()
        for tensor, columns in self.tensors():
            if columns is not None:
                tensor.zero_()

    def tensors(self) -> Iterator[tuple[Tensor, int | None]]:
        """Yields a pair (tensor, dimension) for each tensor that has one row per sentence.

        `dimension` is the index of the dimension of size P, or None if there is no such dimension.
        """
        yield self.segments, None
        yield self.ancestors, 2
        for cache, memory in zip(self.caches, self.memory, strict=True):
            for tensor in (cache.keys, cache.values):
                yield tensor, 2
            for tensor in memory:
                yield tensor, None

    def step(self) -> Tensor:
        """Returns the logits for the next token of each hypothesis, (B, W, vocabulary size).

        After `capture` has been called, every call of `step` overwrites and returns the same
        tensor.
        """
        return self._captured() if self._captured else self._step()

    def _step(self) -> Tensor:
        model, W, C = self.transformer, self.size.beam, self.size.steps
        slots = torch.arange(C * W, device=self.step_number.device)  # (P,)
        self.columns.copy_(self.step_number * W + slots[:W])
        earlier = self.ancestors.gather(1, self.parents[..., None].expand_as(self.ancestors))
        itself = slots == self.columns[:, None]  # (W, P)
        self.ancestors.copy_(earlier | itself)
        positions = self.step_number.expand_as(self.tokens)
        visibility = Visibility(positions=(positions, (slots // W)[None]), ancestors=self.ancestors)
        cross = Visibility(segments=(torch.ones_like(self.tokens), self.segments))
        y = model.embed(self.tokens, positions, C)  # (B, W, D)
        hidden = model.decode(y, visibility, self.memory, cross, self.caches)
        self.step_number += 1
        return model.logits(hidden)


class Buffers(Protocol):
    """A pool of `DecodeBuffers` that are reused for several batches."""

    transformer: Transformer  # in evaluation mode

    def acquire(self, size: BufferSize) -> DecodeBuffers:
        """Returns cleared buffers of the given size."""

    def release(self, buffers: DecodeBuffers) -> None:
        """Returns the buffers to the pool for reuse."""


class StaticStepper:
    """Computes the same logits as `Stepper`, with tensors of fixed shapes and addresses."""

    def __init__(self, pool: Buffers, src: Tensor, beam: int, max_length: int):
        """Encodes the sources and acquires buffers; see `Stepper` for the other arguments."""
        self._pool, self.sentences, self.max_length = pool, len(src), max_length
        transformer, tokens = pool.transformer, Tokens.of_rows(src)
        self.steps_taken = 0
        memory = transformer.encode(tokens)
        B, S = src.shape
        self.buffers = pool.acquire(BufferSize.of(B, beam, S, min(S, max_length)))
        self.buffers.segments[:B] = 0
        self.buffers.segments[:B, :S] = tokens.segments
        layers = transformer.decoder_layers()
        for layer, (keys, values) in zip(layers, self.buffers.memory, strict=True):
            own_keys, own_values = layer.cross_attention.project_memory(memory)
            keys[:B, :, :S], values[:B, :, :S] = own_keys, own_values

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """Returns the same logits as `Stepper.step`.

        The next decoding step may overwrite the returned tensor.
        """
        if self.steps_taken == self.max_length:
            raise ValueError(f"`max_length` is {self.max_length}, so no more steps can be taken.")
        if self.steps_taken == self.buffers.size.steps:
            self._move(slice(self.sentences), 2 * self.steps_taken)
        self.buffers.tokens[: self.sentences] = last_tokens
        self.buffers.parents[: self.sentences] = parents
        self.steps_taken += 1
        return self.buffers.step()[: self.sentences]

    def keep(self, sentences: Tensor) -> None:
        """Removes all sentences except the sentences with the given indices.

        `sentences` contains the indices of the remaining sentences in ascending order, (b,) int64.
        """
        self.sentences = len(sentences)
        self._move(sentences, self.buffers.size.steps)

    def _move(self, rows: Tensor | slice, steps: int) -> None:
        """Copies the given rows to buffers of the required size.

        The current buffers are used if they have the required size.
        """
        old, former = self.buffers, self.buffers.size
        size = BufferSize.of(self.sentences, former.beam, former.source, steps)
        if size.sentences * _SHRINK > former.sentences:
            size = BufferSize(former.sentences, former.beam, former.source, size.steps)
        new = old if size == former else self._pool.acquire(size)
        for (there, columns), (here, _) in zip(new.tensors(), old.tensors(), strict=True):
            there = there[: self.sentences]
            if columns is not None:
                there = there.narrow(columns, 0, here.shape[columns])
            there.copy_(here[rows])
        if new is not old:
            new.step_number.copy_(old.step_number)
            self.buffers = new
            self._pool.release(old)
