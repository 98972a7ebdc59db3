"""The step interface with tensors of fixed shapes and addresses, for a GPU.

A decoding step of the base model launches some 300 kernels, and a GPU that works on few sentences
waits for each launch. A CUDA graph launches them all at once, but repeats them on the same
addresses: so shapes are rounded up to a few sizes, and the number of the step is on the device.
On other devices the same code runs without a graph.

As in `stepper`, the W hypotheses of a sentence share one pool of keys and values.

B sentences, W beam, S source length, C steps for which there is room, P pool columns (C * W),
H heads, K d_k, V d_v.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor

from nmt.model.attention import KeysValues, Visibility
from nmt.model.tokens import Tokens
from nmt.model.transformer import Transformer

_LEAST_STEPS = 32  # C: this or a power of two times it
_SOURCE_MULTIPLE = 32  # S is a multiple of it
_KEPT_TOKENS = 1 << 20  # of unused rooms, B * (S + P) of each: 12 GB of keys and values in base


@dataclass(frozen=True)
class _Size:
    """What rooms are told apart by."""

    sentences: int
    beam: int
    source: int
    steps: int

    @classmethod
    def of(cls, sentences: int, beam: int, source: int, steps: int) -> _Size:
        """The least size with room for so many."""
        rounded_source = -(-source // _SOURCE_MULTIPLE) * _SOURCE_MULTIPLE
        rounded_steps = max(_LEAST_STEPS, _power_of_two(steps))
        return cls(_power_of_two(sentences), beam, rounded_source, rounded_steps)

    @property
    def tokens(self) -> int:
        return self.sentences * (self.source + self.steps * self.beam)


def _power_of_two(number: int) -> int:
    """The least power of two that is no less."""
    return 1 << (number - 1).bit_length()


class StaticCache:
    """One layer's keys and values of C steps, of which those not yet taken are zeros."""

    def __init__(self, keys: Tensor, values: Tensor, columns: Tensor):
        """(B, H, P, K), (B, H, P, V); `columns` (W,): where the current step is written."""
        self.keys, self.values, self.columns = keys, values, columns

    def append(self, keys: Tensor, values: Tensor) -> KeysValues:
        """(B, H, W, K), (B, H, W, V) -> (B, H, P, K), (B, H, P, V)."""
        self.keys.index_copy_(2, self.columns, keys)
        self.values.index_copy_(2, self.columns, values)
        return self.keys, self.values


class _Room:
    """The tensors of a batch of one size, and the step that reads and writes them."""

    def __init__(self, transformer: Transformer, size: _Size):
        """Allocates them; on a GPU, captures the step."""
        self.transformer, self.size = transformer, size
        weights = transformer.embedding
        B, W, S, C = size.sentences, size.beam, size.source, size.steps
        numbers = partial(torch.zeros, dtype=torch.int64, device=weights.device)
        self.step = numbers(())
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
        self.logits = self._advance
        if weights.device.type == "cuda":
            self.logits = _captured(self._advance)

    def tensors(self) -> Iterator[tuple[Tensor, int | None]]:
        """Each tensor with a row a sentence, and which of its dimensions is P, if one is."""
        yield self.segments, None
        yield self.ancestors, 2
        for cache, memory in zip(self.caches, self.memory, strict=True):
            for tensor in (cache.keys, cache.values):
                yield tensor, 2
            for tensor in memory:
                yield tensor, None

    def _advance(self) -> Tensor:
        """Takes a step: logits (B, W, vocabulary) of the token after `tokens`."""
        model, W, C = self.transformer, self.size.beam, self.size.steps
        slots = torch.arange(C * W, device=self.step.device)  # (P,)
        self.columns.copy_(self.step * W + slots[:W])
        seen = self.ancestors.gather(1, self.parents[..., None].expand_as(self.ancestors))
        itself = slots == self.columns[:, None]  # (W, P)
        self.ancestors.copy_(seen | itself)
        positions = self.step.expand_as(self.tokens)
        visibility = Visibility(positions=(positions, (slots // W)[None]), ancestors=self.ancestors)
        seen_of_source = Visibility(segments=(torch.ones_like(self.tokens), self.segments))
        y = model.embed(self.tokens, positions, C)  # (B, W, D)
        hidden = model.decode(y, visibility, self.memory, seen_of_source, self.caches)
        self.step += 1
        return model.logits(hidden)


def _captured(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The same step as a CUDA graph: it always returns the same tensor, with new content.

    If it cannot be captured, the step as it is; standard error is told why.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    # weights that autocast converts once and keeps would be freed at its end
    kept = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.cuda.stream(stream):  # libraries choose kernels and allocate at the first call
            step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # other threads, such as a loader's, may use the GPU meanwhile
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            logits = step()
    except RuntimeError as error:
        if isinstance(error, torch.cuda.OutOfMemoryError):
            raise
        _tell_uncaptured(str(error).partition("\n")[0])
        return step
    finally:
        torch.set_autocast_cache_enabled(kept)

    def replay() -> Tensor:
        graph.replay()
        return logits

    return replay


@lru_cache  # once, however many rooms there are
def _tell_uncaptured(reason: str) -> None:
    print(
        f"nmt: warning: decoding without a CUDA graph, which is slower ({reason}), this GPU, "
        "see whether torch and the driver fit each other",
        file=sys.stderr,
    )


class Rooms:
    """The rooms of a model, used again and again: to capture a step takes several steps' time."""

    def __init__(self, transformer: Transformer):
        """None at first. `transformer` is in evaluation mode, on its device."""
        self.transformer = transformer
        self._unused: list[_Room] = []  # the one used last comes last

    @contextmanager
    def stepper(self, src: Tensor, beam: int, max_length: int) -> Iterator[StaticStepper]:
        """A batch of sentences being decoded; its arguments are those of `Stepper`."""
        steps = StaticStepper(self, src, beam, max_length)
        try:
            yield steps
        finally:
            self.give_back(steps.room)

    def take(self, size: _Size) -> _Room:
        """An unused room of that size, with no step taken, or a new one."""
        room = next((room for room in self._unused if room.size == size), None)
        if room is None:
            room = _Room(self.transformer, size)
        else:
            self._unused.remove(room)
        room.step.zero_()
        for tensor, columns in room.tensors():
            if columns is not None:
                tensor.zero_()
        return room

    def give_back(self, room: _Room) -> None:
        """Keeps a room for the next batch, and frees those longest unused if they are too many."""
        self._unused.append(room)
        while len(self._unused) > 1 and sum(r.size.tokens for r in self._unused) > _KEPT_TOKENS:
            del self._unused[0]


class StaticStepper:
    """`Stepper` on tensors of fixed shapes and addresses."""

    def __init__(self, rooms: Rooms, src: Tensor, beam: int, max_length: int):
        """Encodes sentences and prepares to decode them; see `Stepper`."""
        self._rooms, self.sentences, self.max_length = rooms, len(src), max_length
        transformer, tokens = rooms.transformer, Tokens.of_rows(src)
        self.steps_taken = 0
        self.room = rooms.take(_Size.of(len(src), beam, src.shape[1], 1))
        memory = transformer.encode(tokens)
        B, S = src.shape
        self.room.segments[:B] = 0
        self.room.segments[:B, :S] = tokens.segments
        layers = transformer.decoder_layers()
        for layer, (keys, values) in zip(layers, self.room.memory, strict=True):
            own_keys, own_values = layer.cross_attention.project_memory(memory)
            keys[:B, :, :S], values[:B, :, :S] = own_keys, own_values

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """Logits of the next token, overwritten by the next step; see `Stepper.step`."""
        if self.steps_taken == self.max_length:
            raise ValueError(f"no more than {self.max_length} steps")
        if self.steps_taken == self.room.size.steps:
            self._move(slice(self.sentences), 2 * self.steps_taken)
        self.room.tokens[: self.sentences] = last_tokens
        self.room.parents[: self.sentences] = parents
        self.steps_taken += 1
        return self.room.logits()[: self.sentences]

    def keep(self, sentences: Tensor) -> None:
        """Continues with these sentences alone: (b,) int64 indices, ascending."""
        self.sentences = len(sentences)
        self._move(sentences, self.room.size.steps)

    def _move(self, rows: Tensor | slice, steps: int) -> None:
        """Copies these sentences into a room of the least size, perhaps the same room."""
        old, former = self.room, self.room.size
        size = _Size.of(self.sentences, former.beam, former.source, steps)
        new = old if size == former else self._rooms.take(size)
        for (there, dim), (here, _) in zip(new.tensors(), old.tensors(), strict=True):
            there = there[: self.sentences]
            if dim is not None:
                there = there.narrow(dim, 0, here.shape[dim])
            there.copy_(here[rows])
        if new is not old:
            new.step.copy_(old.step)
            self.room = new
            self._rooms.give_back(old)
