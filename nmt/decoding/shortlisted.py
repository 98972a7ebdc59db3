"""A search among the tokens of a shortlist, which knows each by its place among them.

The special ids are the same there, and ties are broken as in the whole vocabulary, since a
shortlist is ascending and begins with them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.decoding.beam_search import Hypothesis, ReadsAs, StepCallback


class Shortlisted:
    """The tokens that a batch may be translated into."""

    def __init__(self, tokens: NDArray[np.int64]):
        """`tokens`: (n,) ascending, the special ids among them."""
        self.tokens = tokens

    @cached_property
    def tensor(self) -> Tensor:
        """(n,) int64"""
        return torch.from_numpy(self.tokens)

    def places(self, tokens: Sequence[int]) -> list[int]:
        """The places of tokens that are among them."""
        return np.searchsorted(self.tokens, tokens).tolist()

    def of(self, places: Sequence[int]) -> list[int]:
        """The tokens at these places."""
        return [int(self.tokens[place]) for place in places]

    def reading(self, reads_as: ReadsAs) -> ReadsAs:
        """`reads_as` of the tokens, for a search that gives places."""
        return lambda places: reads_as(self.of(places))

    def on_step_of_search(self, on_step: StepCallback | None) -> StepCallback | None:
        """`on_step`, which sees tokens, for a search that gives places."""
        if on_step is None:
            return None
        return lambda values, parents, places: on_step(values, parents, self.tokens[places])

    def whole(self, found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """What a search has found, in tokens."""
        return [[replace(each, tokens=self.of(each.tokens)) for each in some] for some in found]
