"""Implements beam search on top of the decoder's step interface.

The search follows Vaswani et al. (2017, §6.1) and uses the length penalty of Wu et al. (2016). With
a beam width of 1, beam search is greedy search. At each step, the device selects the most likely
candidates, and the host decides which candidates to keep. The host stores each hypothesis as a
linked list in which every token refers to the previous token, so reordering hypotheses does not
copy any tokens.

In array shapes, B is the number of sentences, b the number of sentences that are still in the
batch, W the beam width, and V the vocabulary size. The W live hypotheses of a sentence have the
indices 0 to W - 1, which the code calls `place`. If a hypothesis continues hypothesis p of the
previous step, its parent is p.
"""

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.decoding.engine import Hypothesis
from nmt.decoding.term_banks import TermBanks
from nmt.decoding.translation import length_penalty
from nmt.errors import NoModelError
from nmt.model.devices import is_gpu
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID

NOT_NUMBERS = "The model's scores are NaN or infinite. Use a model with finite weights."
NEVER_GENERATED = [PAD_ID, BOS_ID, UNK_ID]
_BLOCK = 128  # tokens per block in `_top`
# maximum number of continuations per hypothesis, besides those with tokens of required terms
_MOST_OF_ONE = 64

ReadsAs = Callable[[list[int]], Hashable]  # maps a hypothesis's tokens to its text
# called with the log-probabilities, parents and newest tokens of each step's candidates, each of
# shape (b, 2 W), most likely first
StepCallback = Callable[[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]], None]

# one step's tokens and parents, and the log-probabilities of the hypotheses so far; each (B, W)
_Link = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]
_FOUND = np.dtype([("score", "f8"), ("log_probability", "f8"), ("tokens", "i4"), ("place", "i4")])


class StepInterface(Protocol):
    """Holds the decoder's state for a batch of sentences with W hypotheses each."""

    def step(self, last_tokens: Tensor, parents: Tensor) -> Tensor:
        """Returns the next token's logits, which the caller may overwrite.

        Args:
            last_tokens: (b, W) int64, the newest token of each hypothesis, which is BOS at the
                first step.
            parents: (b, W) int64, the parent of each hypothesis.

        Returns:
            Logits of shape (b, W, V) in fp32 or bf16.
        """

    def keep(self, sentences: Tensor) -> None:
        """Keeps only the sentences with the given int64 indices, which must be ascending."""


def search(
    steps: StepInterface,
    max_lengths: Sequence[int],
    *,
    beam: int,
    alpha: float,
    n_best: int = 1,
    reads_as: ReadsAs | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Returns each sentence's best hypotheses, sorted by descending score.

    At each step, the search considers the 2 W most likely continuations of a sentence's hypotheses.
    At most W of these continuations end with EOS and become finished hypotheses. The W most likely
    continuations that do not end with EOS become the new live hypotheses. With a beam width of 1,
    EOS finishes a hypothesis only if EOS is the most likely token.

    The search for a sentence ends when none of the sentence's live hypotheses can score higher than
    its `n_best`-th best finished hypothesis. Because alpha >= 0, the final score of a live
    hypothesis cannot exceed its current log-probability divided by the length penalty for the
    maximum length. Hypotheses that were cut at the maximum length are returned only if no
    hypothesis is finished, because their scores do not include the log-probability of EOS.

    Args:
        steps: the decoder's initial state for B sentences with `beam` hypotheses each.
        max_lengths: (B,), the maximum length of each sentence's hypotheses in tokens, including
            EOS.
        beam: the beam width W, at least 1.
        alpha: the exponent of the length penalty, at least 0. The paper uses 0.6.
        n_best: the maximum number of hypotheses to return per sentence. Must not exceed `beam`.
        reads_as: a function that maps a hypothesis's tokens to its text. If several hypotheses have
            the same text, only the best of these hypotheses is returned. If `reads_as` is None,
            several hypotheses may have the same text.
        device: the device for the tensors that are passed to `steps`.

    Raises:
        ValueError: an argument is out of range.
        NoModelError: the model's scores are NaN.
    """
    steps_of_search = search_step_by_step(
        steps, max_lengths, beam=beam, alpha=alpha, n_best=n_best, reads_as=reads_as, device=device
    )
    while True:
        try:
            next(steps_of_search)
        except StopIteration as end:
            return end.value


@torch.inference_mode()
def search_step_by_step(
    steps: StepInterface,
    max_lengths: Sequence[int],
    *,
    beam: int,
    alpha: float,
    n_best: int,
    reads_as: ReadsAs | None,
    device: torch.device | str,
    on_step: StepCallback | None = None,
    banks: TermBanks | None = None,
) -> Generator[None, None, list[list[Hypothesis]]]:
    """Runs `search` as a generator that yields whenever the search must wait for the device."""
    if not (1 <= n_best <= beam and alpha >= 0 and min(max_lengths, default=1) >= 1):
        raise ValueError(
            f"An argument is out of range: {beam=}, {n_best=}, {alpha=}, {max_lengths=}."
        )
    beams = _Beams(max_lengths, beam, alpha, n_best, reads_as)
    last_tokens = torch.full((len(max_lengths), beam), BOS_ID, device=device)  # (B, W)
    parents = torch.arange(beam, device=device).expand_as(last_tokens)  # (B, W)
    live = torch.full_like(last_tokens, -torch.inf, dtype=torch.float32)  # (B, W)
    live[:, 0] = 0.0  # at the first step, all W hypotheses are identical, so only one is continued
    while beams.in_batch.size:
        logits = steps.step(last_tokens, parents)
        vocabulary_size = logits.shape[-1]
        more = to_device(device, banks.next_tokens()) if banks else None
        on_device = ToHost(_candidates(logits, live, more))
        yield
        values, origins, tokens = _in_order(on_device.wait(), vocabulary_size)
        best = None
        if banks:
            values, origins, tokens, best = banks.choose(values, origins, tokens)
        if on_step:
            on_step(values, origins, tokens)
        kept = beams.advance(values, origins, tokens, best)
        if banks:
            banks.follow(beams.parents, beams.tokens, kept)
        if 0 < kept.size < len(last_tokens):
            steps.keep(to_device(device, kept))
        last_tokens = to_device(device, beams.tokens)  # (b, W)
        parents, live = to_device(device, beams.parents), to_device(device, beams.live)
    return beams.hypotheses()


def take_turns(searches: Iterable[Generator[None, None, object]], at_once: int) -> None:
    """Runs all searches to completion; up to `at_once` searches take turns, step by step.

    While the host ranks the candidates of one search, the device computes a step of another search.
    """
    waiting = iter(searches)
    running = deque(islice(waiting, at_once))
    while running:
        search = running.popleft()
        try:
            next(search)
        except StopIteration:
            running.extendleft(islice(waiting, 1))
        else:
            running.append(search)


class ToHost:
    """Copies a tensor to the host asynchronously."""

    def __init__(self, tensor: Tensor):
        self.event = torch.cuda.Event() if is_gpu(tensor.device) else None
        if self.event:
            stream = torch.cuda.current_stream(tensor.device)  # the current device may differ
            on_host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
            tensor = on_host.copy_(tensor, non_blocking=True)
            self.event.record(stream)
        self.tensor = tensor

    def wait(self) -> NDArray[np.int64]:
        """Waits until the copy is complete, and returns the copy as an array.

        This method does not wait for device work that was queued after the copy.
        """
        if self.event:
            self.event.synchronize()
        return self.tensor.numpy()


def to_device(device: torch.device | str, array: NDArray[np.generic]) -> Tensor:
    """Copies an array to the device.

    A copy to a CUDA device is asynchronous and uses pinned memory.
    """
    tensor = torch.from_numpy(array)
    if torch.device(device).type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def staying(done: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the indices of the sentences that remain in the batch.

    Sentences that are done are removed once they make up at least 1/8 of the batch.

    Args:
        done: (b,), True for each sentence that is done.
    """
    kept = np.flatnonzero(~done)
    is_enough = not kept.size or (len(done) - kept.size) * 8 >= len(done)
    return kept if is_enough else np.arange(len(done))


def _candidates(logits: Tensor, live: Tensor, more: Tensor | None = None) -> Tensor:
    """Returns the most likely continuations of each sentence's hypotheses.

    Args:
        logits: (b, W, V), the logits of the next token. This tensor is overwritten.
        live: (b, W) fp32, the log-probability of each live hypothesis, or -inf for an unused entry.
        more: (b, W, A) int64, additional tokens with which each hypothesis is continued. If `more`
            is given, each hypothesis contributes its min(W, 64) most likely continuations and its
            continuations with the A additional tokens. M is the resulting number of candidates per
            sentence.

    Returns:
        An int64 tensor of shape (2, b, 2 W), or of shape (2, b, M) if `more` is given. The first
        row contains the bits of the continuations' fp32 log-probabilities. The second row encodes
        each continuation as parent * V + token. The log-probabilities and the codes are in one
        tensor, so that a single copy transfers them to the host.
    """
    b, W, V = logits.shape
    # The softmax includes the tokens that are ruled out below. The normalizer is computed from one
    # value of the softmax, because softmax reads the logits only once, but logsumexp reads them
    # several times.
    p = logits.softmax(-1)  # (b, W, V)
    for token in NEVER_GENERATED:  # indexing with a list would synchronize with the GPU
        logits[..., token].fill_(-torch.inf)
    k = min(2 * W if more is None else min(W, _MOST_OF_ONE), V)
    top, tokens = _top(logits, k)  # (b, W, k)
    normalizer = top[..., :1].float() - p.gather(-1, tokens[..., :1]).float().log()  # (b, W, 1)
    if more is not None:
        top = torch.cat((top, logits.gather(-1, more)), -1)  # (b, W, k + A)
        tokens = torch.cat((tokens, more), -1)
        k = tokens.shape[-1]
    totals = live[..., None] + (top.float() - normalizer).clamp(max=0)  # (b, W, k)
    best, picked = totals.view(b, W * k).topk(2 * W if more is None else W * k)
    codes = picked // k * V + tokens.view(b, W * k).gather(1, picked)  # parent * V + token
    return torch.stack((as_codes(best), codes))


def as_codes(values: Tensor) -> Tensor:
    """Returns the bits of fp32 values as int64, so that one tensor can hold values and tokens."""
    return values.view(torch.int32).long()


def from_codes(codes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Converts the result of `as_codes` back to fp32 values."""
    return codes.astype(np.int32).view(np.float32)


def _in_order(
    candidates: NDArray[np.int64], vocabulary_size: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Converts the result of `_candidates` to arrays of log-probabilities, parents and tokens.

    The candidates are sorted by descending log-probability.
    """
    values = from_codes(candidates[0])
    if np.isnan(values).any():
        raise NoModelError(NOT_NUMBERS)
    order = np.lexsort((candidates[1], -values))  # equal values: by parent, then by token
    codes = np.take_along_axis(candidates[1], order, 1)
    return np.take_along_axis(values, order, 1), codes // vocabulary_size, codes % vocabulary_size


def _top(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the same values and indices, of shape (..., k), as `logits.topk(k)`.

    The vocabulary is divided into blocks. The k largest logits are always in the k blocks with the
    largest maxima. On a CPU, searching only k blocks is 3 to 5 times faster than `topk` over
    the whole vocabulary.
    """
    V = logits.shape[-1]
    n = V // _BLOCK
    if n <= k:
        return logits.topk(k)
    blocks = logits[..., : n * _BLOCK].unflatten(-1, (n, _BLOCK))
    winners = blocks.amax(-1).topk(k).indices[..., None]  # (..., k, 1)
    chosen = blocks.gather(-2, winners.expand(*winners.shape[:-1], _BLOCK)).flatten(-2)
    tokens = (winners * _BLOCK + torch.arange(_BLOCK, device=logits.device)).flatten(-2)
    rest = torch.arange(n * _BLOCK, V, device=logits.device).expand(*tokens.shape[:-1], -1)
    top, places = torch.cat((chosen, logits[..., n * _BLOCK :]), -1).topk(k)
    return top, torch.cat((tokens, rest), -1).gather(-1, places)


class _Beams:
    """Holds the live and finished hypotheses of a search, and the links between their tokens."""

    def __init__(
        self,
        max_lengths: Sequence[int],
        beam: int,
        alpha: float,
        n_best: int,
        reads_as: ReadsAs | None,
    ):
        self.beam, self.alpha, self.n_best, self.reads_as = beam, alpha, n_best, reads_as
        self.max_lengths = np.asarray(max_lengths, dtype=np.int64)  # (B,)
        B = len(max_lengths)
        self.best_penalties = np.array([length_penalty(n, alpha) for n in max_lengths])  # (B,)
        self.in_batch = np.arange(B)  # (b,) indices of the sentences in the batch
        self.done = np.zeros(B, dtype=bool)  # (B,) done sentences may still be in the batch
        self.finished = np.zeros((B, n_best), dtype=_FOUND)  # (B, n), best first
        self.finished["score"] = -np.inf
        self.cut = self.finished.copy()  # (B, n), best first
        self.read: dict[tuple[int, int, int, bool], Hashable] = {}  # keys: arguments of `_tokens`
        self.links: list[_Link] = []  # one per step
        self.live: NDArray[np.float32]  # (b, W) log-probabilities, highest first
        self.tokens: NDArray[np.int64]  # (b, W)
        self.parents: NDArray[np.int64]  # (b, W)

    def advance(
        self,
        values: NDArray[np.float32],
        parents: NDArray[np.int64],
        tokens: NDArray[np.int64],
        best: NDArray[np.float32] | None = None,
    ) -> NDArray[np.int64]:
        """Processes the candidates of one step, and sets `live`, `tokens` and `parents`.

        Args:
            values, parents, tokens: arrays of shape (b, 2 W) with the log-probability, parent and
                newest token of each candidate, sorted by descending log-probability.
            best: (b,), one log-probability per sentence. The search for a sentence ends when a live
                hypothesis with log-probability `best` can no longer improve the result. If `best`
                is None, the highest log-probability among the sentence's live hypotheses is used.

        Returns:
            The indices of the sentences that remain in the batch, each from 0 to b - 1.
        """
        n = len(self.links) + 1
        ends = (tokens == EOS_ID) & np.isfinite(values)  # (b, 2W)
        if self.beam == 1:
            ends[:, 1:] = False
        self._finish(ends, values, parents, n)
        first = np.argsort(ends, axis=1, kind="stable")[:, : self.beam]  # at most W of 2 W end
        self.live = np.take_along_axis(values, first, 1)
        self.parents = np.take_along_axis(parents, first, 1)
        self.tokens = np.take_along_axis(tokens, first, 1)
        self._link()
        self._judge(ends, n, self.live[:, 0] if best is None else best)
        return self._leave()

    def _finish(
        self,
        ends: NDArray[np.bool_],
        values: NDArray[np.float32],
        parents: NDArray[np.int64],
        n: int,
    ) -> None:
        """Adds each hypothesis that ends at token n to its sentence's finished hypotheses."""
        ending = np.flatnonzero(ends.any(1) & ~self.done[self.in_batch])  # indices below b
        if not ending.size:
            return
        new = np.zeros((ending.size, ends.shape[1]), dtype=_FOUND)
        new["log_probability"] = values[ending]
        scores = new["log_probability"] / length_penalty(n, self.alpha)
        new["score"] = np.where(ends[ending], scores, -np.inf)
        new["place"], new["tokens"] = parents[ending], n
        sentences = self.in_batch[ending]
        found = np.concatenate((self.finished[sentences], new), axis=1)
        self.finished[sentences] = self._best(found, sentences, finished=True)

    def _best(
        self, found: NDArray[np.void], sentences: NDArray[np.int64], *, finished: bool
    ) -> NDArray[np.void]:
        """Returns the `n_best` best of each sentence's hypotheses, best hypothesis first.

        Maps an array of shape (s, m), with m hypotheses for each of s sentences, to an array of
        shape (s, n_best).
        """
        if self.reads_as is not None:
            self._rule_out_doubles(found, sentences, self.reads_as, finished)
        order = np.argsort(-found["score"], axis=1, kind="stable")[:, : self.n_best]
        return np.take_along_axis(found, order, 1)

    def _rule_out_doubles(
        self,
        found: NDArray[np.void],
        sentences: NDArray[np.int64],
        reads_as: ReadsAs,
        finished: bool,
    ) -> None:
        """Sets a hypothesis's score to -inf if a better hypothesis has the same text."""
        for sentence, row in zip(sentences.tolist(), found, strict=True):
            seen: set[Hashable] = set()
            for index in np.argsort(-row["score"], kind="stable"):
                if row["score"][index] == -np.inf or len(seen) == self.n_best:
                    break
                n, place = int(row["tokens"][index]), int(row["place"][index])
                key = (sentence, n, place, finished)
                if key not in self.read:
                    self.read[key] = reads_as(self._tokens(*key))
                if self.read[key] in seen:
                    row["score"][index] = -np.inf
                seen.add(self.read[key])

    def _link(self) -> None:
        """Records the tokens, parents and log-probabilities of the current step."""
        shape = (len(self.max_lengths), self.beam)
        tokens, parents = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        totals = np.zeros(shape, np.float32)
        tokens[self.in_batch], parents[self.in_batch] = self.tokens, self.parents
        totals[self.in_batch] = self.live
        self.links.append((tokens, parents, totals))

    def _judge(self, ends: NDArray[np.bool_], n: int, best: NDArray[np.float32]) -> None:
        """Marks the sentences whose search is done after n tokens."""
        bounds = best / self.best_penalties[self.in_batch]  # (b,)
        # If no hypothesis is live, and fewer than n_best are finished, both sides are -inf.
        done = bounds <= self.finished["score"][self.in_batch, -1]
        if self.beam == 1:
            done |= ends[:, 0]
        at_limit = (n >= self.max_lengths[self.in_batch]) & ~self.done[self.in_batch]
        if at_limit.any():
            self._cut(at_limit, n)
        self.done[self.in_batch[done | at_limit]] = True

    def _cut(self, at_limit: NDArray[np.bool_], n: int) -> None:
        """Saves the best live hypotheses of sentences whose maximum length is n tokens."""
        sentences = self.in_batch[at_limit]
        cut = np.zeros((sentences.size, self.beam), dtype=_FOUND)
        cut["log_probability"] = self.live[at_limit]
        cut["score"] = cut["log_probability"] / length_penalty(n, self.alpha)
        cut["place"], cut["tokens"] = np.arange(self.beam), n
        self.cut[sentences] = self._best(cut, sentences, finished=False)

    def _leave(self) -> NDArray[np.int64]:
        """Removes finished sentences from the batch, and returns the result of `staying`."""
        kept = staying(self.done[self.in_batch])
        self.in_batch, self.live = self.in_batch[kept], self.live[kept]
        self.tokens, self.parents = self.tokens[kept], self.parents[kept]
        return kept

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Returns up to `n_best` hypotheses for each sentence.

        The list for a sentence is empty if every token was ruled out for the sentence.
        """
        sentences = range(len(self.max_lengths))
        return [self._of(s, finished=True) or self._of(s, finished=False) for s in sentences]

    def _of(self, sentence: int, *, finished: bool) -> list[Hypothesis]:
        """Returns a sentence's finished hypotheses, or the hypotheses cut at the maximum length."""
        found = (self.finished if finished else self.cut)[sentence]
        hypotheses = []
        for score, total, n, place in found[found["score"] > -np.inf].tolist():
            tokens, totals = self._chain(sentence, n, place, finished)
            each = np.diff([*totals, total] if finished else totals, prepend=0.0).tolist()
            hypotheses.append(Hypothesis(tokens, total, score, finished, each))
        return hypotheses

    def _tokens(self, sentence: int, n: int, place: int, finished: bool) -> list[int]:
        return self._chain(sentence, n, place, finished)[0]

    def _chain(
        self, sentence: int, n: int, place: int, finished: bool
    ) -> tuple[list[int], list[float]]:
        """Reconstructs a hypothesis of n tokens by following the links back from index `place`.

        For a finished hypothesis, `place` is the index of the token before EOS, because EOS has no
        link.

        Returns:
            The hypothesis's tokens, and its cumulative log-probability after each token except EOS.
        """
        tokens: list[int] = [EOS_ID] if finished else []
        totals: list[float] = []
        for step_tokens, parents, step_totals in reversed(self.links[: n - len(tokens)]):
            tokens.append(int(step_tokens[sentence, place]))
            totals.append(float(step_totals[sentence, place]))
            place = parents[sentence, place]
        return tokens[::-1], totals[::-1]
