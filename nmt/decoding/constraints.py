"""Implements constraints on translations as wrappers of the step interface.

A constraint changes the logits so that certain tokens cannot be generated. The log-probabilities of
all other tokens do not change.

In array shapes, b is the number of sentences in the batch, W the number of hypotheses per sentence,
V the vocabulary size, and L the number of tokens so far.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.decoding.beam_search import NEVER_GENERATED, StepInterface, to_device
from nmt.model.special_ids import PAD_ID

# the best allowed token keeps at least this natural log-probability
_LEAST_LOG_PROBABILITY = -80.0
_FREE = -1  # padding of short prefixes; no token is forced at a step with this value


def without(logits: Tensor, ruled_out: Tensor) -> Tensor:
    """Returns the logits in fp32, (b, W, V), with the logits of ruled-out tokens set to -inf.

    The probability of the ruled-out tokens moves to the padding token, which is never generated.
    The probabilities of all other tokens therefore do not change. If every token is ruled out for a
    hypothesis, the logits of the hypothesis do not change.

    Args:
        logits: (b, W, V), the logits of the next token.
        ruled_out: (b, W, V) bool, True for each token to rule out.
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
        """
        Args:
            tokens: the ids of the tokens to exclude. The probability of excluded tokens moves to
                the padding token.
        """
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
            prefixes: one prefix per sentence, as token ids without BOS and EOS. A sentence with an
                empty prefix is not constrained.
            device: the device for the tensors that are passed to `steps`.
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
    """Wraps a step interface so that no token n-gram occurs twice in a hypothesis."""

    def __init__(self, steps: StepInterface, n: int):
        """`n`: the length of the n-grams in tokens, at least 1."""
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
