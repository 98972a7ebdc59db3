"""Decoding step by step, with caches: what `Transformer.start` returns.

All W hypotheses of a sentence are queries of one row and share one pool of keys and values, to
which each step adds W columns. A hypothesis sees its own ancestors' columns alone, those in its
attention window; reordering the beam reorders that visibility, not the cache. Source keys and
values are computed once.

B sentences, W beam, S source length, H heads, K d_k, V d_v, P pool columns (steps * W).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nmt.model.attention import attention_bias, reach

if TYPE_CHECKING:
    from nmt.model.attention import SelfAttention
    from nmt.model.tokens import Tokens
    from nmt.model.transformer import Transformer

_FIRST_CAPACITY = 32  # steps; doubled when full, so that short outputs do not pay for long limits


class CachedSteps:
    """The decoder's state for a batch of sentences; see `step` and `keep`."""

    def __init__(self, transformer: Transformer, src: Tokens, beam: int, max_length: int):
        self.transformer = transformer
        self.beam, self.max_length = beam, max_length
        memory = transformer.encode(src)
        self.memory = [
            layer.cross_attention.project_memory(memory) for layer in transformer.decoder_layers()
        ]
        ones = src.segments.new_ones(len(memory), beam)
        self.memory_bias = attention_bias(ones, src.segments, causal=False, dtype=memory.dtype)
        self.steps_taken = 0
        self.keys: list[Tensor] = []  # a layer each: (B, H, P, K)
        self.values: list[Tensor] = []  # (B, H, P, V)
        self.bias = memory.new_full((len(memory), 1, beam, 0), -math.inf)  # (B, 1, W, P)

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """Logits of the next token.

        Args:
            last_tokens: (B, W) int64, the newest token of each hypothesis; BOS at first.
            parents: (B, W) int64, the slot of the previous step from which each descends.

        Returns:
            (B, W, vocabulary).
        """
        B, W = last_tokens.shape
        model, step = self.transformer, self.steps_taken
        if step * W == self.bias.shape[-1]:
            self._grow(B)
        index = parents[:, None, :, None].expand(-1, -1, -1, self.bias.shape[-1])
        self.bias = self.bias.gather(2, index)
        own = torch.arange(W, device=last_tokens.device)
        self.bias[:, 0, own, step * W + own] = 0.0
        if model.attention_window is not None:
            left = max(0, step - reach(model.attention_window))  # steps that nothing sees any more
            self.bias[..., : left * W] = -math.inf
        positions = torch.full_like(last_tokens, step)
        x = model.embed(last_tokens, positions, step + 1)  # (B, W, D)
        for number, layer in enumerate(model.decoder_layers()):
            x = layer(
                x,
                lambda y, layer=layer, number=number: self._attend(y, layer.self_attention, number),
                self.memory[number],
                self.memory_bias,
            )
        self.steps_taken += 1
        return model.logits(model.decoder_norm(x))

    def keep(self, sentences: Tensor) -> None:
        """Goes on with these sentences alone: (b,) int64 indices, ascending."""
        self.memory = [(k[sentences], v[sentences]) for k, v in self.memory]
        self.memory_bias = self.memory_bias[sentences]
        self.keys = [keys[sentences] for keys in self.keys]
        self.values = [values[sentences] for values in self.values]
        self.bias = self.bias[sentences]

    def _attend(self, x: Tensor, self_attention: SelfAttention, number: int) -> Tensor:
        """Adds this step's keys and values to the pool and attends to it: (B, W, D) -> (B, W, D)"""
        q, k, v = self_attention.project(x)
        begin, end = self.steps_taken * self.beam, (self.steps_taken + 1) * self.beam
        keys, values = self.keys[number], self.values[number]
        keys[:, :, begin:end], values[:, :, begin:end] = k, v
        bias = self.bias[..., :end]
        return self_attention.combine(q, keys[:, :, :end], values[:, :, :end], bias, None)

    def _grow(self, sentences: int) -> None:
        old = self.bias.shape[-1]
        capacity = min(self.max_length, max(_FIRST_CAPACITY, 2 * self.steps_taken)) * self.beam
        bias = self.bias.new_full((sentences, 1, self.beam, capacity), -math.inf)
        bias[..., :old] = self.bias
        self.bias = bias
        for number, (k, v) in enumerate(self.memory):
            keys = k.new_zeros(sentences, k.shape[1], capacity, k.shape[3])
            values = v.new_zeros(sentences, v.shape[1], capacity, v.shape[3])
            if old:
                keys[:, :, :old], values[:, :, :old] = self.keys[number], self.values[number]
                self.keys[number], self.values[number] = keys, values
            else:
                self.keys.append(keys)
                self.values.append(values)
