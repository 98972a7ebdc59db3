"""Adapts a search to a shortlist: the search identifies tokens by their indices in the shortlist.

A shortlist is sorted in ascending order and begins with the special ids. The indices of special
tokens therefore equal their ids, and ties are broken in the same way as with the whole vocabulary.
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
    """A shortlist of the tokens that a batch may generate; converts tokens to indices and back."""

    def __init__(self, tokens: NDArray[np.int64]):
        """`tokens`: (n,) token ids in ascending order; must include the special ids."""
        self.tokens = tokens

    @cached_property
    def tensor(self) -> Tensor:
        """The token ids, (n,) int64."""
        return torch.from_numpy(self.tokens)

    def places(self, tokens: Sequence[int]) -> list[int]:
        """Returns the indices of tokens, which must be on the shortlist."""
        return np.searchsorted(self.tokens, tokens).tolist()

    def of(self, places: Sequence[int]) -> list[int]:
        """Returns the tokens with the given indices."""
        return [int(self.tokens[place]) for place in places]

    def reading(self, reads_as: ReadsAs) -> ReadsAs:
        """Returns a version of `reads_as` that takes indices instead of tokens."""
        return lambda places: reads_as(self.of(places))

    def on_step_of_search(self, on_step: StepCallback | None) -> StepCallback | None:
        """Returns a callback that converts indices to tokens and then calls `on_step`."""
        if on_step is None:
            return None
        return lambda values, parents, places: on_step(values, parents, self.tokens[places])

    def whole(self, found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Returns the hypotheses with the indices replaced by tokens."""
        return [[replace(each, tokens=self.of(each.tokens)) for each in some] for some in found]
