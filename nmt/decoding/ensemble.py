"""Ensembles: models with the same vocabulary, whose probabilities are averaged at each step."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.beam_search import StepInterface


class Ensemble:
    """Steps of several models that decode the same sentences."""

    def __init__(self, members: Sequence[StepInterface]):
        """`members`: one or more models, all started on the same sentences."""
        self.members = members

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """Returns the log of the members' mean probability: (b, W), (b, W) -> (b, W, V) fp32."""
        logs = [m.step(last_tokens, parents).float().log_softmax(-1) for m in self.members]
        return torch.stack(logs).logsumexp(0) - math.log(len(logs))

    def keep(self, sentences: Tensor) -> None:
        """See `StepInterface.keep`."""
        for member in self.members:
            member.keep(sentences)
