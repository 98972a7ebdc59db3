"""Defines the interface of the Translator's search engines, based on PyTorch or CTranslate2.

This module does not import torch, so that exported models can translate without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from nmt.data.pair import TokenPair
from nmt.decoding.term_banks import Terms

if TYPE_CHECKING:
    from nmt.decoding.options import SearchOptions

Progress = Callable[[int], object]


@dataclass(frozen=True)
class SearchInput:
    """A source and the prefix of its translation, as token ids without EOS."""

    tokens: list[int]
    prefix: list[int]
    terms: Terms | None = None  # terms that the translation must contain


@dataclass(frozen=True)
class Hypothesis:
    """A translation, as token ids, that beam search or sampling has found."""

    tokens: list[int]  # including EOS if finished
    log_probability: float  # natural log, summed over `tokens`
    score: float  # log_probability / length_penalty(len(tokens), alpha)
    finished: bool  # False: cut at the maximum length
    token_log_probabilities: list[float] = field(default_factory=list)  # one per token


class Engine(Protocol):
    """Searches for translations of tokenized sources.

    Attributes:
        is_exported: whether the model was exported. Engines for exported models have only the
            methods of this class.
    """

    is_exported: bool

    @property
    def max_tokens(self) -> int | None:
        """Maximum length of a source or a translation in tokens, including EOS; None: no limit."""

    def find(
        self,
        parts: Sequence[SearchInput],
        options: SearchOptions,
        progress: Progress | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each source, best first, or the samples of each source.

        Args:
            progress: called after each batch with the number of sources in the batch.

        Raises:
            ArgumentError: the engine does not support an option, or memory ran out.
        """

    def next_tokens(self, part: SearchInput, k: int) -> list[tuple[int, float]]:
        """Returns the k most likely tokens after the prefix, each with its probability.

        The tokens are sorted by descending probability. Probabilities are normalized over the whole
        vocabulary.
        """

    def cross_attention(self, pairs: Sequence[TokenPair]) -> list[NDArray[np.float32]]:
        """Returns the attention weights (T, S) of each pair; see `nmt.decoding.alignment`."""
