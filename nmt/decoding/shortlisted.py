"""Adapts a search to a shortlist, so that the search represents tokens by shortlist indices.

A shortlist is a list of token ids in ascending order that begins with the ids of special tokens.
The shortlist index of a special token therefore equals its id, and ties between equally likely
tokens are broken in the same way as with the whole vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.decoding.beam_search import ReadsAs, StepCallback
from nmt.decoding.engine import Hypothesis


class Shortlisted:
    """Converts between token ids and indices in the shortlist of a batch."""

    def __init__(self, tokens: NDArray[np.int64]):
        """`tokens`: (n,), token ids in ascending order, including the ids of special tokens."""
        self.tokens = tokens

    @cached_property
    def tensor(self) -> Tensor:
        """The token ids of the shortlist as an int64 tensor of shape (n,)."""
        return torch.from_numpy(self.tokens)

    def places(self, tokens: Sequence[int]) -> list[int]:
        """Returns the shortlist indices of `tokens`, which must all be on the shortlist."""
        return np.searchsorted(self.tokens, tokens).tolist()

    def of(self, places: Sequence[int]) -> list[int]:
        """Returns the token ids at the given shortlist indices."""
        return [int(self.tokens[place]) for place in places]

    def reading(self, reads_as: ReadsAs) -> ReadsAs:
        """Returns a version of `reads_as` that accepts shortlist indices instead of token ids."""
        return lambda places: reads_as(self.of(places))

    def on_step_of_search(self, on_step: StepCallback | None) -> StepCallback | None:
        """Returns a callback that converts shortlist indices to tokens and calls `on_step`."""
        if on_step is None:
            return None
        return lambda values, parents, places: on_step(values, parents, self.tokens[places])

    def whole(self, found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Returns the hypotheses with token ids in place of shortlist indices."""
        return [[replace(each, tokens=self.of(each.tokens)) for each in some] for some in found]
