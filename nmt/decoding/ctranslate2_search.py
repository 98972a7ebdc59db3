"""Decodes with a model that was exported to CTranslate2, as `BatchedSearch` does in PyTorch.

With greedy search, an exported model generates the same translations as the original model. With
beam search, the translations of an exported model and of the original model occasionally differ,
because CTranslate2 uses a different stopping rule.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nmt.data.pair import TokenPair
from nmt.decoding.engine import Hypothesis, Progress, SearchInput
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import length_penalty
from nmt.errors import NoModelError
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.runs.exported_model import ExportedModel, refuse_unsupported

if TYPE_CHECKING:
    from ctranslate2 import AsyncTranslationResult, TranslationResult

POSITIONS = 4096  # length of the sinusoidal position table; CTranslate2 rejects longer texts
_BATCH = 32  # maximum number of parts of similar length per batch


def refuse_search(options: SearchOptions) -> None:
    """Raises ArgumentError if `options` contains an option that exported models do not support."""
    refuse_unsupported(sample=options.sample, mbr=options.mbr, glossary=options.glossary)


class CTranslate2Search:
    """Implements `Engine` for a model that was exported to CTranslate2.

    The hypotheses of an exported model have no `token_log_probabilities`, and their scores do not
    include the log-probabilities of prefix tokens.
    """

    is_exported = True

    def __init__(self, model: ExportedModel):
        self.translator, self.defaults = model.translator, model.config.decoding
        has_table = model.config.model.positions == "learned"
        self.max_tokens = model.config.data.max_length if has_table else POSITIONS
        tokenizer = model.tokenizer
        self._pieces = np.array(tokenizer.pieces(range(tokenizer.vocabulary_size)), object)
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        symbols = tokenizer.symbol_ids.items()
        untrained = [i for symbol, i in symbols if symbol not in model.target_symbols]
        self._never = [[self._pieces[i]] for i in (PAD_ID, BOS_ID, *untrained)]

    def find(
        self,
        parts: Sequence[SearchInput],
        options: SearchOptions,
        progress: Progress | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.find`."""
        refuse_search(options)
        order = sorted(range(len(parts)), key=lambda i: len(parts[i].tokens), reverse=True)
        found: list[list[Hypothesis]] = [[] for _ in parts]
        started = self._started(order, lambda some: self._start([parts[i] for i in some], options))
        for some, results in started:
            batch = [parts[i] for i in some]
            for i, each in zip(some, self._of_batch(batch, results, options), strict=True):
                found[i] = each
            if progress:
                progress(len(some))
        return found

    def next_tokens(self, part: SearchInput, k: int) -> list[tuple[int, float]]:
        """See `Engine.next_tokens`."""
        source, prefix = [self._as_pieces(part.tokens)], [self._as_pieces(part.prefix)]
        never = {piece for [piece] in self._never} | {self._pieces[UNK_ID]}
        [result] = self.translator.translate_batch(
            source, prefix, num_hypotheses=min(k + len(never), len(self._pieces)), beam_size=1,
            return_alternatives=True, return_scores=True, return_end_token=True, length_penalty=0,
            min_decoding_length=0, max_input_length=0, max_decoding_length=len(part.prefix) + 1,
        )  # fmt: skip
        # CTranslate2 excludes EOS from the alternatives and from their normalization
        [scored] = self.translator.score_batch(source, prefix, max_input_length=0)
        end = math.exp(scored.log_probs[-1])
        found = [
            (self._ids[piece], math.exp(score) * (1 - end))
            for (*_, piece), score in zip(result.hypotheses, result.scores, strict=True)
            if piece not in never
        ]
        return sorted([*found, (EOS_ID, end)], key=lambda each: -each[1])[:k]

    def cross_attention(self, pairs: Sequence[TokenPair]) -> list[NDArray[np.float32]]:
        """See `Engine.cross_attention`.

        Decodes each source with a prefix that consists of all target tokens except the last token.
        """
        order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].target), reverse=True)
        found: list[NDArray[np.float32]] = [np.zeros((0, 0), np.float32)] * len(pairs)

        def start(some: Sequence[int]) -> "list[AsyncTranslationResult]":
            return self.translator.translate_batch(
                [self._as_pieces(pairs[i].source[:-1]) for i in some],
                [self._as_pieces(pairs[i].target[:-1]) for i in some],
                beam_size=1, max_input_length=0, min_decoding_length=0, return_attention=True,
                max_decoding_length=len(pairs[some[0]].target), return_end_token=True,
                asynchronous=True,
            )  # fmt: skip

        for some, results in self._started(order, start):
            for i, result in zip(some, results, strict=True):
                weights = np.array(result.attention[0], np.float32)[: len(pairs[i].target)]
                # CTranslate2 omits the attention to EOS, which is 1 minus the sum of the row
                found[i] = np.c_[weights, 1 - weights.sum(1)]
        return found

    def _as_pieces(self, tokens: Sequence[int] | NDArray[np.integer]) -> list[str]:
        pieces: list[str] = self._pieces[tokens].tolist() if len(tokens) else []
        return pieces

    def _started(
        self,
        order: Sequence[int],
        start: "Callable[[Sequence[int]], list[AsyncTranslationResult]]",
    ) -> "Iterator[tuple[Sequence[int], list[TranslationResult]]]":
        """Divides `order` into batches, and yields each batch with its results.

        Each thread of CTranslate2 decodes a different batch. For small models, this is several
        times faster than distributing one batch over all threads. Only one batch waits in the
        queue, because the program cannot exit before all started batches have been decoded.
        """
        threads = self.translator.num_translators
        size = min(_BATCH, max(1, -(-len(order) // threads)))
        waiting: deque[tuple[Sequence[int], list[AsyncTranslationResult]]] = deque()
        for begin in range(0, len(order), size):
            some = order[begin : begin + size]
            waiting.append((some, start(some)))
            if len(waiting) > threads:
                some, results = waiting.popleft()
                yield some, [each.result() for each in results]
        for some, results in waiting:
            yield some, [each.result() for each in results]

    def _start(
        self, parts: Sequence[SearchInput], options: SearchOptions
    ) -> "list[AsyncTranslationResult]":
        """Starts to decode one batch.

        CTranslate2 has one length limit per batch, which is set to the highest limit of any part.
        """
        return self.translator.translate_batch(
            [self._as_pieces(part.tokens) for part in parts],
            [self._as_pieces(part.prefix) for part in parts],
            beam_size=options.width(self.defaults.beam), num_hypotheses=options.n_best,
            length_penalty=self._alpha(options), no_repeat_ngram_size=options.no_repeat_ngram or 0,
            max_batch_size=options.batch_tokens or 0, batch_type="tokens", max_input_length=0,
            min_decoding_length=0, max_decoding_length=max(map(self._limit, parts)),
            disable_unk=True, suppress_sequences=self._never,
            return_scores=True, return_end_token=True, asynchronous=True,
        )  # fmt: skip

    def _of_batch(
        self,
        parts: Sequence[SearchInput],
        results: "Sequence[TranslationResult]",
        options: SearchOptions,
    ) -> list[list[Hypothesis]]:
        """Returns the same hypotheses as if each part had been decoded separately.

        If a translation exceeds the limit of its part, the part is decoded again in its own batch.
        """
        limits = [self._limit(part) for part in parts]
        found = []
        for part, limit, result in zip(parts, limits, results, strict=True):
            if max(map(len, result.hypotheses)) > limit < max(limits):
                result = self._start([part], options)[0].result()
            found.append(self._hypotheses(result, self._alpha(options)))
        return found

    def _alpha(self, options: SearchOptions) -> float:
        alpha = options.length_penalty
        return self.defaults.length_penalty if alpha is None else alpha

    def _limit(self, part: SearchInput) -> int:
        """Returns the maximum length of a part's translation; see `BatchedSearch.limit`."""
        longest = max(len(part.tokens), len(part.prefix)) + self.defaults.max_extra_length
        return min(max(longest, len(part.prefix) + 1), self.max_tokens)

    def _hypotheses(self, result: "TranslationResult", alpha: float) -> list[Hypothesis]:
        hypotheses = []
        for pieces, score in zip(result.hypotheses, result.scores, strict=True):
            try:
                tokens = [self._ids[piece] for piece in pieces]
            except KeyError as error:
                raise NoModelError(
                    f"The model generated the token {error}, which its tokenizer does not have. "
                    "Export the model again."
                ) from None
            total = score * len(tokens) ** alpha  # undoes CTranslate2's length normalization
            ours = total / length_penalty(len(tokens), alpha)
            hypotheses.append(Hypothesis(tokens, total, ours, tokens[-1:] == [EOS_ID]))
        return sorted(hypotheses, key=lambda each: each.score, reverse=True)
