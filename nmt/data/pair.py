"""Defines a sentence pair with its columns, as it passes from the corpus to the batch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Pair(Generic[T]):
    """A source and its target, as text or as token ids.

    Iterating over a pair yields its source and its target.

    Attributes:
        columns: further values of the pair, by column name: one number for the whole pair, or a
            sequence with one number per target token, including EOS. `nmt prepare` stores every
            column with the sentences, and `layout` puts it into the batch. Only the corpus that
            reads a column and the code that uses it know its name.
    """

    source: T
    target: T
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[T]:
        yield self.source
        yield self.target


TextPair = Pair[str]
TokenPair = Pair[np.ndarray]  # (S,) and (T,) integers, EOS included
