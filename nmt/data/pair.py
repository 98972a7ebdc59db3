"""Defines sentence pairs, which can have additional columns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Pair(Generic[T]):
    """A source sentence and its target sentence, as text or as token ids.

    Iterating over a pair yields its source and its target.

    Attributes:
        columns: maps column names to additional values of the pair. A value is either one number
            for the whole pair or a sequence with one number per target token, including EOS. `nmt
            prepare` stores all columns with the sentences, and `layout` copies all columns to the
            batch.
    """

    source: T
    target: T
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[T]:
        yield self.source
        yield self.target


TextPair = Pair[str]
TokenPair = Pair[np.ndarray]  # (S,) and (T,) integers, including EOS
