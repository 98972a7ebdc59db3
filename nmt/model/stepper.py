"""Implements `StepInterface` with cached keys and values.

All W hypotheses of a sentence are queries in the same row and share one cache of keys and values.
Each step appends W columns to the cache. A hypothesis can attend only to the cache columns of its
own tokens, which are called its ancestors. When the beam is reordered, only the attention mask is
reordered, and the cache does not change. The keys and values for cross-attention are computed only
once per batch.

In shapes, B is the number of sentences, W the beam width, S the source length, H the number of
heads, and P the number of cache columns, which is W times the number of steps. K is d_k, and V is
d_v.
"""

import torch
from torch import Tensor

from nmt.model.attention import KeysValues, Visibility
from nmt.model.kernels.prepacking import logits_of
from nmt.model.tokens import Tokens
from nmt.model.transformer import Transformer

_FIRST_CAPACITY = 32  # initial capacity in steps, which doubles when the cache is full


class GrowingCache:
    """Stores one layer's keys and values in preallocated tensors that grow when they are full."""

    def __init__(self, first_capacity: int, max_columns: int):
        """Sets the initial capacity in columns.

        Whenever the cache is full, the capacity doubles, up to `max_columns`.
        """
        self.capacity, self.max_columns = min(first_capacity, max_columns), max_columns
        self.columns = 0
        self.keys: Tensor | None = None  # (B, H, capacity, K)
        self.values: Tensor | None = None  # (B, H, capacity, V)

    def append(self, keys: Tensor, values: Tensor) -> KeysValues:
        """Appends a step's keys and values, and returns all P columns of the cache, newest last.

        (B, H, W, K), (B, H, W, V) -> (B, H, P, K), (B, H, P, V)
        """
        begin, self.columns = self.columns, self.columns + keys.shape[2]
        if self.columns > self.capacity:
            self.capacity = min(2 * self.capacity, self.max_columns)
        self.keys = self._written(self.keys, keys, begin)
        self.values = self._written(self.values, values, begin)
        return self.keys[:, :, : self.columns], self.values[:, :, : self.columns]

    def _written(self, held: Tensor | None, new: Tensor, begin: int) -> Tensor:
        """Writes `new` to `held`, starting at column `begin`, and returns `held`.

        If `held` is None or too small, a new tensor takes its place.
        """
        if held is None or held.shape[2] < self.capacity:
            larger = new.new_zeros(*new.shape[:2], self.capacity, new.shape[3])
            if held is not None:
                larger[:, :, :begin] = held[:, :, :begin]
            held = larger
        held[:, :, begin : self.columns] = new
        return held

    def keep(self, sentences: Tensor) -> None:
        """Removes all sentences except the sentences with the given indices.

        `sentences` contains the indices of the remaining sentences in ascending order, (b,) int64.
        """
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[sentences], self.values[sentences]


class Stepper:
    """Stores the decoder's state for a batch of sentences, and computes decoding steps."""

    def __init__(
        self,
        transformer: Transformer,
        src: Tensor,
        beam: int,
        max_length: int,
        only: Tensor | None = None,
    ):
        """Encodes the sources and prepares for decoding.

        Args:
            transformer: the model, in evaluation mode.
            src: the source tokens, (B, S) int64, padded with PAD_ID. Each sentence ends with EOS.
            beam: the number W of hypotheses per sentence.
            max_length: the maximum number of decoding steps.
            only: the ids of the tokens that may be generated, (n,) int64, or None for the whole
                vocabulary. If `only` is given, the arguments and results of `step` use indices into
                `only` instead of token ids.
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
        # positions of the cache's columns, (1, max_length * W)
        self.positions = torch.arange(max_length, device=src.device).repeat_interleave(beam)[None]
        self.steps_taken = 0

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """Returns the logits for the next token of each hypothesis.

        Args:
            last_tokens: the newest token of each hypothesis, (B, W) int64. At the first step, the
                newest tokens are BOS.
            parents: (B, W) int64. Hypothesis w of sentence i extends hypothesis `parents[i, w]` of
                the previous step.

        Returns:
            The logits, (B, W, n), where n is the size of `only` if it is given, and otherwise the
            size of the vocabulary.

        Raises:
            ValueError: `max_length` steps have already been taken.
        """
        if self.steps_taken == self.max_length:
            raise ValueError(f"`max_length` is {self.max_length}, so no more steps can be taken.")
        (B, W), model = last_tokens.shape, self.transformer
        earlier = self.ancestors.gather(1, parents[..., None].expand(-1, -1, self.steps_taken * W))
        self.ancestors = torch.cat([earlier, self.itself.expand(B, W, W)], dim=2)  # (B, W, P)
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
        """Removes all sentences except the sentences with the given indices.

        `sentences` contains the indices of the remaining sentences in ascending order, (b,) int64.
        """
        self.keys_values = [(k[sentences], v[sentences]) for k, v in self.keys_values]
        segments = self.memory_visibility.segments
        assert segments is not None
        self.memory_visibility = Visibility(
            segments=(segments[0][sentences], segments[1][sentences])
        )
        for cache in self.caches:
            cache.keep(sentences)
        self.ancestors = self.ancestors[sentences]
