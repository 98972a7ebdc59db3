"""Defines the interface that the search engines for PyTorch and CTranslate2 implement.

This module does not import torch, so that exported models can be used without torch.
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

Progress = Callable[[int], object]  # called after each batch with its number of sources


@dataclass(frozen=True)
class SearchInput:
    """The token ids, without EOS, of a source and of the prefix of its translation."""

    tokens: list[int]
    prefix: list[int]
    terms: Terms | None = None  # terms that the translation must contain


@dataclass(frozen=True)
class Hypothesis:
    """The token ids and scores of a translation that was found by beam search or sampling."""

    tokens: list[int]  # including EOS if finished
    log_probability: float  # natural log, summed over `tokens`
    score: float  # log_probability / length_penalty(len(tokens), alpha)
    finished: bool  # False: cut at the maximum length
    token_log_probabilities: list[float] = field(default_factory=list)  # one per token


class Engine(Protocol):
    """Searches for translations of tokenized sources.

    Attributes:
        is_exported: whether the model was exported to CTranslate2. Engines for exported models
            implement only the methods of this protocol.
    """

    is_exported: bool

    @property
    def max_tokens(self) -> int | None:
        """The maximum length of a source or translation in tokens, including EOS.

        None means that the length of sources and translations is unlimited.
        """

    def find(
        self,
        parts: Sequence[SearchInput],
        options: SearchOptions,
        progress: Progress | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first, or its samples if sampling is enabled.

        Args:
            progress: a function that is called after each batch with the number of sources in the
                batch.

        Raises:
            ArgumentError: the engine does not support an option, or memory ran out.
        """

    def next_tokens(self, part: SearchInput, k: int) -> list[tuple[int, float]]:
        """Returns the k most likely tokens after the prefix of `part`, with their probabilities.

        The tokens are sorted by descending probability. The probabilities are normalized over the
        whole vocabulary.
        """

    def cross_attention(self, pairs: Sequence[TokenPair]) -> list[NDArray[np.float32]]:
        """Returns each pair's cross-attention weights (T, S); see `nmt.decoding.alignment`."""
