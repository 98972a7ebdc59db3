"""Implements ensembles, which average the probabilities of models with the same vocabulary."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.beam_search import StepInterface


class Ensemble:
    """A step interface that averages the next-token probabilities of several models."""

    def __init__(self, members: Sequence[StepInterface]):
        """`members`: one initial decoder state per model, all for the same sentences."""
        self.members = members

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """Returns the logarithms of the mean next-token probabilities, (b, W, V) fp32."""
        logs = [m.step(last_tokens, parents).float().log_softmax(-1) for m in self.members]
        return torch.stack(logs).logsumexp(0) - math.log(len(logs))

    def keep(self, sentences: Tensor) -> None:
        """See `StepInterface.keep`."""
        for member in self.members:
            member.keep(sentences)
