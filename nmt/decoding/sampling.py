"""Samples translations token by token with the decoder's step interface.

Temperature, top-k (Fan et al., 2018) and top-p (Holtzman et al., 2020) can modify the model's
distribution. The caller provides one random number per token, so that a sample does not depend on
the other sentences in the batch.

In array shapes, B is the number of sentences, b the number of sentences that are still in the
batch, W the number of samples per sentence, V the vocabulary size, and L the maximum length in
tokens.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.decoding.beam_search import (
    NEVER_GENERATED,
    NOT_NUMBERS,
    Hypothesis,
    StepInterface,
    ToHost,
    as_codes,
    from_codes,
    staying,
    to_device,
)
from nmt.decoding.options import Distribution
from nmt.decoding.translation import length_penalty
from nmt.errors import NoModelError
from nmt.model.devices import is_gpu
from nmt.model.special_ids import BOS_ID, EOS_ID

_FIRST_TOP = 256  # on a CPU, top-p first sorts only this many tokens, and more if necessary


def random_numbers(seed: int, source: Sequence[int], sample: int, n: int) -> NDArray[np.float64]:
    """Returns n random numbers in [0, 1) that depend only on the arguments.

    Increasing n appends numbers to the result, and does not change the earlier numbers.
    """
    generator = np.random.default_rng([seed, sample, *source])
    return generator.integers(1 << 32, size=n) / float(1 << 32)


@torch.inference_mode()
def sample(
    steps: StepInterface,
    max_lengths: Sequence[int],
    numbers: NDArray[np.float64],
    distribution: Distribution,
    *,
    alpha: float,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Returns W independent samples for each sentence, in the order of `numbers`.

    The samples' log-probabilities are computed from the model's original distribution, even if
    tokens are sampled from a modified distribution.

    Args:
        steps: the decoder's initial state for B sentences with W hypotheses each.
        max_lengths: (B,), the maximum length of each sentence's samples in tokens, including EOS.
        numbers: (B, W, L), random numbers in [0, 1). The n-th number of a sample selects the n-th
            token of the sample.
        alpha: the exponent of the length penalty in `Hypothesis.score`.
        device: the device for the tensors that are passed to `steps`.

    Raises:
        NoModelError: the model's scores are NaN or infinite.
    """
    B, W, L = numbers.shape
    limits = np.asarray(max_lengths)[:, None]  # (B, 1)
    tokens = np.zeros((B, W, L), np.int64)
    logs = np.zeros((B, W, L))  # log-probabilities
    lengths = np.zeros((B, W), np.int64)
    in_batch, live = np.arange(B), np.ones((B, W), dtype=bool)
    last_tokens = torch.full((B, W), BOS_ID, device=device)
    parents = torch.arange(W, device=device).expand(B, W)
    uniform = to_device(device, numbers)  # (b, W, L)
    for n in range(L):
        if not in_batch.size:
            break
        logits = steps.step(last_tokens, parents)
        picked, values = _draw(logits, uniform[..., n], distribution)
        drawn, bits = ToHost(torch.stack((picked, as_codes(values)))).wait()
        found = from_codes(bits)
        if not np.isfinite(found).all():
            raise NoModelError(NOT_NUMBERS)
        tokens[in_batch, :, n] = drawn
        now = live[in_batch]  # (b, W)
        logs[in_batch, :, n] = np.where(now, found.astype(np.float64), 0.0)
        lengths[in_batch] += now
        live[in_batch] = now & (tokens[in_batch, :, n] != EOS_ID) & (n + 1 < limits[in_batch])
        kept = staying(live[in_batch].sum(1) == 0)
        if kept.size < in_batch.size:
            stay = to_device(device, kept)
            in_batch, picked, uniform = in_batch[kept], picked[stay], uniform[stay]
            if kept.size:
                steps.keep(stay)
        last_tokens, parents = picked, parents[: len(picked)]
    return [
        [
            _hypothesis(tokens[s, w, :n].tolist(), logs[s, w, :n].tolist(), alpha)
            for w, n in enumerate(lengths[s])
        ]
        for s in range(B)
    ]


def _hypothesis(tokens: list[int], logs: list[float], alpha: float) -> Hypothesis:
    total = sum(logs)
    score = total / length_penalty(len(tokens), alpha)
    return Hypothesis(tokens, total, score, tokens[-1] == EOS_ID, logs)


def _draw(logits: Tensor, numbers: Tensor, distribution: Distribution) -> tuple[Tensor, Tensor]:
    """Samples one token for each hypothesis.

    Args:
        logits: (b, W, V), the logits of the next token. This tensor is overwritten.
        numbers: (b, W), one random number in [0, 1) per hypothesis.

    Returns:
        The sampled tokens, (b, W) int64, and the log-probabilities that the model assigns to these
        tokens, (b, W) fp32.
    """
    logs = logits.float().log_softmax(-1)  # over all tokens, including those ruled out below
    for token in NEVER_GENERATED:
        logits[..., token].fill_(-torch.inf)
    p, tokens = likeliest(logits.float(), distribution)
    up_to = p.double().cumsum(-1)  # (b, W, k)
    at = numbers[..., None] * up_to[..., -1:]
    places = torch.searchsorted(up_to, at, right=True).clamp(max=p.shape[-1] - 1)  # (b, W, 1)
    picked = places if tokens is None else tokens.gather(-1, places)
    return picked[..., 0], logs.gather(-1, picked)[..., 0]


def likeliest(logits: Tensor, distribution: Distribution) -> tuple[Tensor, Tensor | None]:
    """Computes the unnormalized probabilities of the tokens that may be sampled.

    Args:
        logits: fp32 logits of shape (..., V).

    Returns:
        Two tensors of shape (..., k): the probabilities, in descending order, and the tokens with
        these probabilities. Tokens that top-p excludes have probability 0. Without top-k and top-p,
        the first result is a tensor (..., V) with the probabilities of all tokens in vocabulary
        order, and the second result is None.
    """
    V = logits.shape[-1]
    top_k, top_p = min(distribution.top_k or V, V), distribution.top_p
    p = ((logits - logits.amax(-1, keepdim=True)) / distribution.temperature).softmax(-1)
    if top_k == V and top_p == 1:
        return p, None
    # on a GPU, sorting all tokens is faster than synchronizing to check whether fewer suffice
    first = V if is_gpu(logits.device) else min(_FIRST_TOP, V)
    k = top_k if top_k < V else first
    while True:
        top, tokens = p.topk(k)  # (..., k)
        total = top.sum(-1, keepdim=True) if top_k < V else p.sum(-1, keepdim=True)
        before = top.cumsum(-1) - top  # total probability of all more likely tokens
        if top_p == 1 or k in (top_k, V) or bool((before[..., -1:] >= top_p * total).all()):
            break
        k = min(8 * k, V)
    return top.masked_fill(before >= top_p * total, 0.0) if top_p < 1 else top, tokens
