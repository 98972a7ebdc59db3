"""The workload, which is the same for all systems: tensors from fixed seeds.

Sentence lengths have a lognormal distribution with a mean of 25 and a maximum of 100 tokens. Token
ids follow Zipf's law, so that ids repeat within a batch as in natural text. Training batches
contain sentences of similar length, with at most 2,400 tokens per side including padding. Sources
to translate are sorted by length. The length of outputs is forced, because a model with random
weights could generate EOS at any step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

PAD, BOS, EOS, UNK = 0, 1, 2, 3
_FIRST = 4  # the smallest id that is not a special token


@dataclass(frozen=True)
class Shape:
    """The sizes of a post-norm model with dropout 0.1 and one matrix for all embeddings."""

    vocabulary: int = 37_000
    d_model: int = 512
    d_ff: int = 2_048
    heads: int = 8
    layers: int = 6  # of the encoder, and of the decoder
    dropout: float = 0.1


BASE = Shape()
SMALL = Shape(vocabulary=400, d_model=32, d_ff=64, heads=2, layers=2)


@dataclass(frozen=True)
class Batch:
    """Sentence pairs to train on, one per row, padded with PAD; all tensors are int64."""

    src: Tensor  # (R, S), sentences ending with EOS
    tgt_in: Tensor  # (R, T), sentences beginning with BOS, without EOS
    tgt_out: Tensor  # (R, T), sentences ending with EOS, without BOS
    src_lengths: Tensor  # (R,)
    tgt_lengths: Tensor  # (R,)

    @property
    def target_tokens(self) -> int:
        """The number of target tokens without padding."""
        return int(self.tgt_lengths.sum())


@dataclass(frozen=True)
class Sources:
    """Sentences to translate, and the length of each translation, including EOS."""

    src: Tensor  # (R, S) int64, sentences ending with EOS, padded with PAD
    src_lengths: Tensor  # (R,)
    output_length: int


def training_batches(
    shape: Shape, *, n: int = 20, tokens: int = 2_400, by_length: bool = True
) -> list[Batch]:
    """Returns batches with at most `tokens` tokens per side, including padding.

    Args:
        shape: sizes of the model, of which only the vocabulary size is used.
        n: number of batches.
        tokens: maximum number of tokens per side, including padding.
        by_length: whether to batch sentences of similar length. If False, sentences are in random
            order, and most of a batch is padding unless the sentences are packed.
    """
    random = np.random.default_rng(1)
    src, tgt = _lengths(random, 60_000)
    order = np.lexsort((src, tgt)) if by_length else random.permutation(len(src))
    *groups, _ = _groups(order, np.maximum(src, tgt), tokens)  # drops the last group
    chosen = [groups[i] for i in random.permutation(len(groups))[:n]]
    return [_batch(random, shape, src[group], tgt[group]) for group in chosen]


def sources(shape: Shape, *, n: int = 200, tokens: int = 1_024, longer: int = 5) -> list[Sources]:
    """Returns `n` sentences in batches; outputs exceed the longest source by `longer` tokens."""
    random = np.random.default_rng(7)
    lengths, _ = _lengths(random, n)
    sentences = [_ended(_ids(random, shape, length - 1)) for length in lengths]
    order = np.argsort(lengths, kind="stable")
    return [
        Sources(
            _rows([sentences[i] for i in group]),
            torch.from_numpy(lengths[group]),
            int(lengths[group].max()) + longer,
        )
        for group in _groups(order, lengths, tokens)
    ]


def _lengths(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns similar source and target lengths for n pairs, including EOS."""
    mean, sigma, least, most = 25.0, 0.6, 3, 100
    src = random.lognormal(np.log(mean) - sigma**2 / 2, sigma, n)
    src = np.clip(np.round(src), least, most).astype(int)
    tgt = np.clip(np.round(src * np.exp(random.normal(0.0, 0.12, n))), least, most).astype(int)
    return src, tgt


def _groups(order: Sequence[int], lengths: np.ndarray, tokens: int) -> Iterator[list[int]]:
    """Splits `order` so that each group's size times its longest sentence is at most `tokens`."""
    group: list[int] = []
    longest = 0
    for index in order:
        longest = max(longest, lengths[index])
        if group and longest * (len(group) + 1) > tokens:
            yield group
            group, longest = [], lengths[index]
        group.append(index)
    yield group


def _ids(random: np.random.Generator, shape: Shape, n: int) -> np.ndarray:
    """Samples token ids; the id of rank r is about 1 / r as likely as the id of rank 1."""
    ranks = np.exp(random.random(n) * np.log(shape.vocabulary - _FIRST)).astype(int)
    return np.clip(ranks + _FIRST - 1, _FIRST, shape.vocabulary - 1)


def _ended(ids: np.ndarray) -> np.ndarray:
    return np.append(ids, EOS)


def _batch(random: np.random.Generator, shape: Shape, src: np.ndarray, tgt: np.ndarray) -> Batch:
    inputs, starts, outputs = [], [], []
    for src_length, tgt_length in zip(src, tgt, strict=True):
        inputs.append(_ended(_ids(random, shape, src_length - 1)))
        outputs.append(_ended(_ids(random, shape, tgt_length - 1)))
        starts.append(np.append([BOS], outputs[-1][:-1]))
    rows = (_rows(side) for side in (inputs, starts, outputs))
    return Batch(*rows, torch.from_numpy(src), torch.from_numpy(tgt))


def _rows(sentences: Sequence[np.ndarray]) -> Tensor:
    tensors = [torch.from_numpy(sentence) for sentence in sentences]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)
