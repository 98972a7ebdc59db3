"""Searches for translations of tokenized sources, in batches of sources of similar length.

A source is either a sentence or, if a text exceeds the maximum length, a part of the text.

In array shapes, B is the number of sources in a batch, W the number of hypotheses or samples per
source, and S the source length.
"""

import sys
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.config import Decoding
from nmt.data.pair import TokenPair
from nmt.data.shortlist import Shortlist
from nmt.data.tokenizer import with_eos
from nmt.decoding.alignment import cross_attention
from nmt.decoding.beam_search import (
    NEVER_GENERATED,
    ReadsAs,
    StepCallback,
    StepInterface,
    search_step_by_step,
    take_turns,
    to_device,
)
from nmt.decoding.buffer_pool import DecodeBufferPool
from nmt.decoding.constraints import ForcedPrefix, NoRepeatedNgrams, Without
from nmt.decoding.engine import Hypothesis, Progress, SearchInput
from nmt.decoding.ensemble import Ensemble
from nmt.decoding.options import SearchOptions
from nmt.decoding.sampling import random_numbers, sample
from nmt.decoding.shortlisted import Shortlisted
from nmt.decoding.term_banks import TermBanks
from nmt.errors import ArgumentError, count, is_out_of_memory
from nmt.model.devices import as_current, is_gpu
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID
from nmt.model.stepper import Stepper
from nmt.model.transformer import Transformer

# Maximum number of tokens in a batch. In the base model, the keys and values of a token take 24 KB
# in fp32 and 12 KB in bf16, so the keys and values of a batch take 0.4 GB on a CPU and 1.6 GB on a
# GPU. In smaller models, fixed costs dominate the time of a decoding step. On a CPU, the batches of
# smaller models therefore contain as many tokens as fit in the same amount of memory, up to
# _MOST_CPU_BATCH_TOKENS.
_CPU_BATCH_TOKENS, _MOST_CPU_BATCH_TOKENS = 16_384, 49_152
_CPU_CACHE_FLOATS = _CPU_BATCH_TOKENS * 6 * 2 * 512
_GPU_BATCH_TOKENS = 131_072

# number of batches in flight: the GPU computes a step of one batch while the host ranks the
# candidates of the other batch
_GPU_BATCHES = 2

# maximum number of samples per row; more samples would be slower, because each sample also computes
# attention scores for the keys of all other samples in its row
_ROW_SAMPLES = 8
_FIRST_SEED = 1

_MOST_TIMES_WIDER = 4  # maximum factor by which required terms widen the beam


class BatchedSearch:
    """Implements `Engine` for a PyTorch model or an ensemble of PyTorch models.

    Attributes:
        max_tokens: the maximum sequence length in tokens that the positional encodings of all
            models support, or None if the length is unlimited.
        batches_at_once: the number of batches that are decoded concurrently.
        out_of_memory: the remedy that an out-of-memory message suggests. The default remedy names
            search options, so callers that do not offer these options must replace the remedy.
    """

    is_exported = False

    def __init__(
        self,
        transformers: list[Transformer],
        defaults: Decoding,
        reads_as: ReadsAs,
        untrained: Sequence[int] = (),
        shortlist: Shortlist | None = None,
        symbols: Collection[int] = (),
    ):
        """
        Args:
            defaults: the values to use for search options that are None.
            reads_as: see `search`.
            untrained: the ids of symbols that are never generated, because the training targets do
                not contain them.
            shortlist: selects the tokens that may be generated for a batch; supported only on a
                CPU. If `shortlist` is None, all tokens may be generated.
            symbols: the ids of symbols to add to every batch's shortlist. `symbols` must include
                all ids in `untrained`.
        """
        self.untrained, self.shortlist, self.symbols = untrained, shortlist, symbols
        self.transformers, self.defaults, self.reads_as = transformers, defaults, reads_as
        self.device = transformers[0].embedding.device
        on_gpu = is_gpu(self.device)
        self.buffers = [DecodeBufferPool(each) for each in transformers] if on_gpu else []
        self.batches_at_once = _GPU_BATCHES if on_gpu else 1
        self.out_of_memory = "Lower {batch_tokens} or {beam}."
        self.max_tokens = min((t.max_length for t in transformers if t.max_length), default=None)

    def find(
        self,
        parts: Sequence[SearchInput],
        options: SearchOptions,
        progress: Progress | None = None,
        on_step: StepCallback | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first, or its samples if sampling is enabled.

        Args:
            progress: a function that is called after each batch with the number of sources in the
                batch.
            on_step: a function that is called at every decoding step of every batch with the step's
                candidates; see `StepCallback`.
        """
        copies = -(-options.samples // _ROW_SAMPLES) or 1  # number of rows per source
        beam = -(-options.samples // copies) or options.width(self.defaults.beam)
        found: list[list[list[Hypothesis]]] = [[[]] * copies for _ in parts]
        rows = [(index, copy) for index in range(len(parts)) for copy in range(copies)]

        under_way: set[int] = set()  # index of the first row of each batch in flight

        def search_batch(batch: list[int]) -> Generator[None, None, None]:
            some = [rows[at] for at in batch]
            of_some = yield from self._search(
                batch[0],
                under_way,
                [parts[index] for index, _ in some],
                [copy for _, copy in some],
                _width(parts[some[0][0]], beam),
                options,
                on_step,
            )
            for (index, copy), hypotheses in zip(some, of_some, strict=True):
                found[index][copy] = hypotheses
            if progress:
                progress(sum(copy == 0 for _, copy in some))

        batches = self._batches([parts[index] for index, _ in rows], beam, options)
        # uses the model's own precision, even if a training loop has enabled autocast
        with as_current(self.device), torch.autocast(self.device.type, enabled=False):
            take_turns(map(search_batch, batches), self.batches_at_once)
        each = [[one for row in part for one in row] for part in found]
        return [part[: options.samples or None] for part in each]

    @torch.inference_mode()
    def next_tokens(self, part: SearchInput, k: int) -> list[tuple[int, float]]:
        """See `Engine.next_tokens`."""
        src = torch.from_numpy(with_eos(part.tokens)[None]).long().to(self.device)
        steps = self.started(src, 1, len(part.prefix) + 1)
        for token in [BOS_ID, *part.prefix]:
            last = torch.tensor([[token]], device=self.device)
            logits = steps.step(last, torch.zeros_like(last))[0, 0]  # (V)
        p = logits.float().softmax(-1)
        never = [*NEVER_GENERATED, *self.untrained]
        p[never] = -1.0
        top = p.topk(min(k, len(p) - len(never)))
        return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))

    def cross_attention(self, pairs: Sequence[TokenPair]) -> list[NDArray[np.float32]]:
        """See `Engine.cross_attention`."""
        return cross_attention(self.transformers, pairs)

    def started(
        self, src: Tensor, width: int, max_length: int, shortlisted: Shortlisted | None = None
    ) -> StepInterface:
        """Returns the initial decoder state for `src`, (B, S) sources with EOS and padding."""
        only = shortlisted.tensor if shortlisted else None
        members = [Stepper(each, src, width, max_length, only) for each in self.transformers]
        return self._as_one(members, shortlisted)

    @contextmanager
    def _started(
        self, src: Tensor, width: int, max_length: int, shortlisted: Shortlisted | None
    ) -> Iterator[StepInterface]:
        """Yields the initial decoder state, which uses pooled buffers and CUDA graphs on a GPU."""
        if not self.buffers:
            yield self.started(src, width, max_length, shortlisted)
            return
        with ExitStack() as stack:
            steppers = [pool.stepper(src, width, max_length) for pool in self.buffers]
            yield self._as_one([stack.enter_context(stepper) for stepper in steppers])

    def _as_one(
        self, members: Sequence[StepInterface], shortlisted: Shortlisted | None = None
    ) -> StepInterface:
        steps = members[0] if len(members) == 1 else Ensemble(members)
        untrained = shortlisted.places(self.untrained) if shortlisted else self.untrained
        return Without(steps, untrained) if untrained else steps

    def _shortlisted(self, parts: Sequence[SearchInput]) -> Shortlisted | None:
        """Returns the shortlist for a batch, or None if the search does not use shortlists."""
        if not self.shortlist:
            return None
        source = [token for part in parts for token in (*part.tokens, EOS_ID)]
        always = {*self.symbols, *(token for part in parts for token in part.prefix)}
        always |= {token for p in parts if p.terms for term in p.terms.phrases for token in term}
        return Shortlisted(self.shortlist.candidates(source, always))

    def limit(self, part: SearchInput) -> int:
        """Returns the maximum length of a part's translation in tokens, including EOS."""
        longest = max(len(part.tokens), len(part.prefix)) + self.defaults.max_extra_length
        return min(max(longest, len(part.prefix) + 1), self.max_tokens or sys.maxsize)

    @property
    def default_batch_tokens(self) -> int:
        """The maximum number of tokens in a batch if `SearchOptions.batch_tokens` is None."""
        if self.device.type != "cpu":
            return _GPU_BATCH_TOKENS
        layers = [
            layer.self_attention for each in self.transformers for layer in each.decoder_layers()
        ]
        floats = sum(layer.heads * (layer.d_k + layer.d_v) for layer in layers)  # per token
        return min(max(_CPU_BATCH_TOKENS, _CPU_CACHE_FLOATS // floats), _MOST_CPU_BATCH_TOKENS)

    def _batches(
        self, parts: Sequence[SearchInput], beam: int, options: SearchOptions
    ) -> Iterator[list[int]]:
        """Groups sources of similar length into batches, and yields each batch's source indices.

        Only sources with the same beam width are in one batch, so that no source's beam width is
        changed because of other sources.
        """
        bound = options.batch_tokens or self.default_batch_tokens
        widths = [_width(part, beam) for part in parts]
        order = sorted(
            range(len(parts)), key=lambda i: (widths[i], len(parts[i].tokens)), reverse=True
        )
        for width, alike in groupby(order, key=widths.__getitem__):
            some = list(alike)
            while some:
                longest = parts[some[0]]
                tokens = len(longest.tokens) + 1 + width * self.limit(longest)
                n = max(1, bound // tokens)
                yield some[:n]
                some = some[n:]

    def _search(
        self,
        number: int,
        under_way: set[int],
        parts: list[SearchInput],
        copies: list[int],
        width: int,
        options: SearchOptions,
        on_step: StepCallback | None,
    ) -> Generator[None, None, list[list[Hypothesis]]]:
        """Decodes one batch, and retries once if GPU memory runs out.

        Before the retry, waits until no other batch is in flight, and frees all unused buffers.

        Args:
            number: a number that identifies this batch.
            under_way: the numbers that identify all batches in flight.
        """
        for is_last in (not self.buffers, True):
            under_way.add(number)
            try:
                return (yield from self._attempt(parts, copies, width, options, on_step))
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                if is_last:
                    longest = max(len(part.tokens) for part in parts)
                    raise ArgumentError(
                        "Out of memory on {} while translating {} of up to {} tokens with beam {}. "
                        + self.out_of_memory,
                        self.device, count(len(parts), "sentence"), longest, width,
                    ) from None  # fmt: skip
            finally:
                under_way.discard(number)
            # outside `except`: the exception's traceback would keep tensors alive
            while under_way:
                yield
            for pool in self.buffers:
                pool.drop_unused()
        raise AssertionError("the last attempt returns or raises")

    @torch.inference_mode()
    def _attempt(
        self,
        parts: list[SearchInput],
        copies: list[int],
        width: int,
        options: SearchOptions,
        on_step: StepCallback | None,
    ) -> Generator[None, None, list[list[Hypothesis]]]:
        """Decodes one batch as a generator that yields whenever it must wait for the device."""
        longest = max(len(part.tokens) for part in parts)
        rows = [[*part.tokens, EOS_ID] + [PAD_ID] * (longest - len(part.tokens)) for part in parts]
        limits = [self.limit(part) for part in parts]
        alpha = options.length_penalty
        if alpha is None:
            alpha = self.defaults.length_penalty
        src = to_device(self.device, np.array(rows))  # (B, S)
        shortlisted = self._shortlisted(parts)
        with self._started(src, width, max(limits), shortlisted) as free:
            reads_as = self.reads_as
            if shortlisted:
                parts = [
                    replace(
                        p,
                        prefix=shortlisted.places(p.prefix),
                        terms=p.terms and p.terms.among(shortlisted.tokens),
                    )
                    for p in parts
                ]
                reads_as, on_step = (
                    shortlisted.reading(reads_as),
                    shortlisted.on_step_of_search(on_step),
                )
            steps = self._constrained(free, parts, options)
            if options.samples:
                found = sample(
                    steps, limits, _numbers(parts, copies, width, max(limits), options),
                    options.distribution, alpha=alpha, device=self.device,
                )  # fmt: skip
            else:
                found = yield from search_step_by_step(
                    steps, limits, beam=width, alpha=alpha, n_best=options.n_best,
                    reads_as=reads_as if options.n_best > 1 else None, device=self.device,
                    on_step=on_step, banks=_banks(parts, limits, width),
                )  # fmt: skip
            return shortlisted.whole(found) if shortlisted else found

    def _constrained(
        self, steps: StepInterface, parts: list[SearchInput], options: SearchOptions
    ) -> StepInterface:
        if any(part.prefix for part in parts):
            steps = ForcedPrefix(steps, [part.prefix for part in parts], self.device)
        if options.no_repeat_ngram:
            steps = NoRepeatedNgrams(steps, options.no_repeat_ngram)
        return steps


def _width(part: SearchInput, beam: int) -> int:
    """Returns a part's beam width, which grows with the number of required terms."""
    if not part.terms:
        return beam
    times = min(len(part.terms.phrases) + 1, _MOST_TIMES_WIDER)
    return max(beam * times, part.terms.tokens + 1)


def _banks(parts: list[SearchInput], limits: list[int], width: int) -> TermBanks | None:
    terms = [part.terms for part in parts if part.terms]
    return TermBanks(terms, limits, width) if terms else None


def _numbers(
    parts: list[SearchInput], copies: list[int], width: int, length: int, options: SearchOptions
) -> NDArray[np.float64]:
    """Generates the (B, W, length) random numbers for `sample` from the sources and the seed."""
    seed = _FIRST_SEED if options.seed is None else options.seed
    each = [
        [random_numbers(seed, part.tokens, copy * width + w, length) for w in range(width)]
        for part, copy in zip(parts, copies, strict=True)
    ]
    return np.array(each)
