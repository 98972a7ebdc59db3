"""Decoding step by step with caches: the step interface that search calls.

All W hypotheses of a sentence are queries of one row and share one pool of keys and values, to
which each step adds W columns. A hypothesis sees only the columns of the tokens it continues, its
ancestors: reordering the beam reorders their mask, not the cache. The source's keys and values are
computed once.

B sentences, W beam, S source length, H heads, K d_k, V d_v, P pool columns (steps * W).
"""

import torch
from torch import Tensor

from nmt.model.attention import KeysValues, Visibility
from nmt.model.kernels.prepacking import logits_of
from nmt.model.tokens import Tokens
from nmt.model.transformer import Transformer

_FIRST_CAPACITY = 32  # steps; doubled when full, so that short outputs allocate little


class GrowingCache:
    """One layer's keys and values, in tensors with room for further steps."""

    def __init__(self, first_capacity: int, max_columns: int):
        """Room for `first_capacity` columns, doubled whenever it is full, up to `max_columns`."""
        self.capacity, self.max_columns = min(first_capacity, max_columns), max_columns
        self.columns = 0
        self.keys: Tensor | None = None  # (B, H, capacity, K)
        self.values: Tensor | None = None  # (B, H, capacity, V)

    def append(self, keys: Tensor, values: Tensor) -> KeysValues:
        """(B, H, W, K), (B, H, W, V) -> (B, H, P, K), (B, H, P, V), the newest columns last."""
        begin, self.columns = self.columns, self.columns + keys.shape[2]
        if self.columns > self.capacity:
            self.capacity = min(2 * self.capacity, self.max_columns)
        self.keys = self._written(self.keys, keys, begin)
        self.values = self._written(self.values, values, begin)
        return self.keys[:, :, : self.columns], self.values[:, :, : self.columns]

    def _written(self, held: Tensor | None, new: Tensor, begin: int) -> Tensor:
        """`held`, or a larger copy of it, with `new` from column `begin` on."""
        if held is None or held.shape[2] < self.capacity:
            larger = new.new_zeros(*new.shape[:2], self.capacity, new.shape[3])
            if held is not None:
                larger[:, :, :begin] = held[:, :, :begin]
            held = larger
        held[:, :, begin : self.columns] = new
        return held

    def keep(self, sentences: Tensor) -> None:
        """Continues with these sentences alone: (b,) int64 indices, ascending."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[sentences], self.values[sentences]


class Stepper:
    """The decoder's state for a batch of sentences."""

    def __init__(
        self,
        transformer: Transformer,
        src: Tensor,
        beam: int,
        max_length: int,
        only: Tensor | None = None,
    ):
        """Encodes sentences and prepares to decode them.

        Args:
            transformer: in evaluation mode.
            src: (B, S) int64, padded with PAD_ID, each sentence with its end symbol.
            beam: W, hypotheses a sentence.
            max_length: most steps that will be taken.
            only: (n,) int64, the tokens that may be generated; each is known by its place among
                them. None: the whole vocabulary.
        """
        self.only = only
        self.logits = transformer.logits if only is None else logits_of(transformer, only)
        self.transformer, self.max_length = transformer, max_length
        tokens = Tokens.of_rows(src)
        memory = transformer.encode(tokens)
        layers = list(transformer.decoder_layers())
        self.keys_values = [layer.cross_attention.project_memory(memory) for layer in layers]
        ones = src.new_ones(len(src), beam)
        self.memory_visibility = Visibility(segments=(ones, tokens.segments))
        self.caches = [GrowingCache(_FIRST_CAPACITY * beam, max_length * beam) for _ in layers]
        self.ancestors = torch.zeros(len(src), beam, 0, dtype=torch.bool, device=src.device)
        self.itself = torch.eye(beam, dtype=torch.bool, device=src.device)  # (W, W)
        # of the pool's columns, (1, max_length * W)
        self.positions = torch.arange(max_length, device=src.device).repeat_interleave(beam)[None]
        self.steps_taken = 0

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """Logits of the next token.

        Args:
            last_tokens: (B, W) int64, the newest token of each hypothesis; BOS at first.
            parents: (B, W) int64, for each the hypothesis of the step before that it continues.

        Returns:
            (B, W, vocabulary).

        Raises:
            ValueError: `max_length` steps have been taken.
        """
        if self.steps_taken == self.max_length:
            raise ValueError(f"no more than {self.max_length} steps")
        (B, W), model = last_tokens.shape, self.transformer
        seen = self.ancestors.gather(1, parents[..., None].expand(-1, -1, self.steps_taken * W))
        self.ancestors = torch.cat([seen, self.itself.expand(B, W, W)], dim=2)  # (B, W, P)
        position, self.steps_taken = self.steps_taken, self.steps_taken + 1
        positions = torch.full_like(last_tokens, position)
        visibility = Visibility(
            positions=(positions, self.positions[:, : self.steps_taken * W]),
            ancestors=self.ancestors,
        )
        if self.only is not None:
            last_tokens = self.only[last_tokens]
        y = model.embed(last_tokens, positions, self.steps_taken)  # (B, W, D)
        hidden = model.decode(y, visibility, self.keys_values, self.memory_visibility, self.caches)
        return self.logits(hidden)

    def keep(self, sentences: Tensor) -> None:
        """Continues with these sentences alone: (b,) int64 indices, ascending."""
        self.keys_values = [(k[sentences], v[sentences]) for k, v in self.keys_values]
        segments = self.memory_visibility.segments
        assert segments is not None
        self.memory_visibility = Visibility(
            segments=(segments[0][sentences], segments[1][sentences])
        )
        for cache in self.caches:
            cache.keep(sentences)
        self.ancestors = self.ancestors[sentences]
