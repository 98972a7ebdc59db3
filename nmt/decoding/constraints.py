"""Implements constraints on translations as wrappers of the step interface.

A constraint changes the logits so that some tokens cannot be generated. The log-probabilities of
the other tokens do not change.

Shapes: b sentences in the batch, W hypotheses per sentence, V vocabulary size, L tokens so far.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.decoding.beam_search import NEVER_GENERATED, StepInterface, to_device
from nmt.model.special_ids import PAD_ID

# the best allowed token keeps at least this natural log-probability
_LEAST_LOG_PROBABILITY = -80.0
_FREE = -1  # pads shorter prefixes; no token is forced at this step


def without(logits: Tensor, ruled_out: Tensor) -> Tensor:
    """Sets the logits of ruled-out tokens to -inf: (b, W, V), (b, W, V) bool -> (b, W, V) fp32.

    The probability of the ruled-out tokens moves to the padding token, which is never generated, so
    the probabilities of all other tokens do not change. If every token is ruled out for a
    hypothesis, the logits of the hypothesis do not change.
    """
    concerned = ruled_out.any(-1, keepdim=True)  # (b, W, 1)
    logits, ruled_out = logits.float(), ruled_out.clone()
    for token in NEVER_GENERATED:
        ruled_out[..., token] = True
    left = logits.masked_fill(ruled_out, -torch.inf)  # (b, W, V)
    best = left.amax(-1)  # (b, W)
    lost = logits.masked_fill(~ruled_out, -torch.inf).logsumexp(-1)  # (b, W)
    left[..., PAD_ID] = torch.minimum(lost, best - _LEAST_LOG_PROBABILITY)
    return torch.where(concerned & best.isfinite()[..., None], left, logits)


class Without:
    """Wraps a step interface so that the given tokens are never generated."""

    def __init__(self, steps: StepInterface, tokens: Sequence[int]):
        """`tokens`: ids of the excluded tokens, whose probability moves to the padding token."""
        self.steps, self.tokens = steps, tokens

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """See `StepInterface.step`."""
        logits = self.steps.step(last_tokens, parents)
        lost = torch.stack([logits[..., i].float() for i in (PAD_ID, *self.tokens)], -1)
        for token in self.tokens:
            logits[..., token] = -torch.inf
        logits[..., PAD_ID] = lost.logsumexp(-1)
        return logits

    def keep(self, sentences: Tensor) -> None:
        """See `StepInterface.keep`."""
        self.steps.keep(sentences)


class ForcedPrefix:
    """Wraps a step interface so that each hypothesis begins with the prefix of its sentence."""

    def __init__(
        self,
        steps: StepInterface,
        prefixes: Sequence[Sequence[int]],
        device: torch.device | str = "cpu",
    ):
        """
        Args:
            prefixes: one prefix per sentence, as token ids without BOS and EOS. An empty prefix
                leaves the sentence unconstrained.
            device: the device on which `steps` expects its arguments.
        """
        self.steps = steps
        longest = max(map(len, prefixes))
        rows = [[*prefix, *[_FREE] * (longest - len(prefix))] for prefix in prefixes]
        # on the device, so that `keep` needs no synchronization
        self.prefixes = to_device(device, np.array(rows, dtype=np.int64))  # (b, longest)
        self.taken = 0  # number of steps taken

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """See `StepInterface.step`."""
        logits = self.steps.step(last_tokens, parents)
        at, self.taken = self.taken, self.taken + 1
        if at >= self.prefixes.shape[1]:
            return logits
        forced = self.prefixes[:, at, None, None]  # (b, 1, 1)
        tokens = torch.arange(logits.shape[-1], device=logits.device)
        ruled_out = (forced != _FREE) & (tokens != forced)  # (b, 1, V)
        return without(logits, ruled_out.expand_as(logits))

    def keep(self, sentences: Tensor) -> None:
        """See `StepInterface.keep`."""
        self.steps.keep(sentences)
        self.prefixes = self.prefixes[sentences]


class NoRepeatedNgrams:
    """Wraps a step interface so that no n-gram of tokens occurs twice in a hypothesis."""

    def __init__(self, steps: StepInterface, n: int):
        """`n`: length of the n-grams in tokens, >= 1."""
        self.steps, self.n = steps, n
        self.tokens: Tensor | None = None  # (b, W, L), BOS first

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """See `StepInterface.step`."""
        logits = self.steps.step(last_tokens, parents)
        if self.tokens is None:
            self.tokens = last_tokens[..., None]
        else:
            before = self.tokens.gather(1, parents[..., None].expand_as(self.tokens))
            self.tokens = torch.cat((before, last_tokens[..., None]), 2)
        if self.tokens.shape[2] < self.n:
            return logits
        ngrams = self.tokens.unfold(2, self.n, 1)  # (b, W, L - n + 1, n)
        begun = self.tokens[..., self.tokens.shape[2] - self.n + 1 :]  # (b, W, n - 1)
        again = (ngrams[..., :-1] == begun[:, :, None]).all(-1)  # (b, W, L - n + 1)
        ends = torch.where(again, ngrams[..., -1], PAD_ID)
        return without(logits, torch.zeros_like(logits, dtype=torch.bool).scatter_(2, ends, True))

    def keep(self, sentences: Tensor) -> None:
        """See `StepInterface.keep`."""
        self.steps.keep(sentences)
        if self.tokens is not None:
            self.tokens = self.tokens[sentences]
