"""§3.4: the geometry of words in the embedding matrix of a trained model."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt.demo_language import demo_pairs
from nmt.demo_language.alignment import words
from nmt.demo_language.lexicon import NOUNS
from nmt.errors import InputError
from nmt.translator import Translator

SHOWN = ["man", "dog", "book", "red", "bought", "yesterday", "Mann", "rot"]
_SPACE_SIGN = "▁"


@dataclass(frozen=True)
class Words:
    """The pieces of a vocabulary that are whole words, with their embeddings."""

    names: list[str]
    vectors: Tensor  # (words, D) float32

    def at(self, name: str) -> int | None:
        """Returns the index of a word, or None if the word is not a single piece."""
        return self.names.index(name) if name in self.names else None

    def neighbours(self, vector: Tensor, without: set[int]) -> list[int]:
        """Returns the indices of all words except `without`, sorted by decreasing similarity."""
        cosines = torch.cosine_similarity(self.vectors, vector[None])
        return [i for i in cosines.argsort(descending=True).tolist() if i not in without]


def whole_words(translator: Translator, known: Collection[str]) -> Words:
    """Returns the words of `known` that are single pieces of a model's vocabulary."""
    vectors = translator.transformer.embedding.detach().float().cpu()
    pieces = translator.tokenizer.pieces(range(len(vectors)))
    found = [i for i, piece in enumerate(pieces) if piece[:1] == _SPACE_SIGN and piece[1:] in known]
    return Words([pieces[i][1:] for i in found], vectors[found])


def words_of_demo(sentences: int = 5_000) -> set[str]:
    """Returns the words of the first sentences of the demo's training text."""
    pairs = demo_pairs(sentences, 1, "train")
    return {word for pair in pairs for text in (pair.source, pair.target) for word in words(text)}


def noun_pairs(vocabulary: Words) -> list[tuple[int, int]]:
    """Returns the indices of English singulars and plurals that are both single pieces."""
    pairs = [(vocabulary.at(noun.english), vocabulary.at(noun.english_plural)) for noun in NOUNS]
    return [(s, p) for s, p in pairs if s is not None and p is not None and s != p]


def plural_hits(vocabulary: Words, pairs: list[tuple[int, int]], use_offset: bool) -> float:
    """Returns the share of nouns whose plural is nearest to the singular plus an offset.

    The offset of a noun is the mean difference between plural and singular over all other nouns.
    If `use_offset` is false, the offset is zero.
    """
    singular, plural = (vocabulary.vectors[list(side)] for side in zip(*pairs, strict=True))
    differences = plural - singular
    others = (differences.sum(0) - differences) / (len(pairs) - 1)
    searched = singular + others if use_offset else singular
    hits = sum(
        vocabulary.neighbours(vector, without={s})[0] == p
        for vector, (s, p) in zip(searched, pairs, strict=True)
    )
    return hits / len(pairs)


def plane(vocabulary: Words, pairs: list[tuple[int, int]]) -> Tensor:
    """Projects singulars, followed by plurals, onto a plane: (2 * pairs, 2).

    The first axis is the mean difference between plural and singular. The second axis is the
    direction orthogonal to the first axis with the largest variance.
    """
    singular, plural = (vocabulary.vectors[list(side)] for side in zip(*pairs, strict=True))
    first = torch.nn.functional.normalize((plural - singular).mean(0), dim=0)
    points = torch.cat([singular, plural])
    points = points - points.mean(0)
    rest = points - (points @ first)[:, None] * first
    second = torch.linalg.svd(rest, full_matrices=False)[2][0]
    return torch.stack([points @ first, points @ second], dim=1)


def draw_embeddings(translator: Translator, axes: Any) -> list[str]:
    """Plots nouns and their plurals in a plane; returns nearest neighbors and the hit rates."""
    vocabulary = whole_words(translator, words_of_demo())
    pairs = noun_pairs(vocabulary)
    if len(pairs) < 3:
        raise InputError(
            "In the vocabulary of the model (--model), fewer than 3 of the demo's nouns are single "
            "tokens. Specify a run that was trained with configs/demo.yaml."
        )
    points = plane(vocabulary, pairs)
    ends = points.view(2, len(pairs), 2)  # singular or plural, noun, axis
    shown = apart(ends[..., 1], float(ends[..., 1].max() - ends[..., 1].min()) / 32)
    for number in shown:
        start, end = ends[:, number].tolist()
        axes.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "->", "color": "C0"})
        for at, point, side in zip(pairs[number], (start, end), (-1, 1), strict=True):
            axes.annotate(vocabulary.names[at], point, xytext=(4 * side, 0), fontsize=8,
                          textcoords="offset points", va="center",
                          ha="left" if side > 0 else "right")  # fmt: skip
    axes.update_datalim(ends[:, shown].flatten(0, 1).tolist())
    axes.margins(0.15)
    axes.autoscale_view()
    axes.set(title="Embeddings: from singular to plural", ylabel="direction of most variance",
             xlabel="along the mean of plural − singular")  # fmt: skip
    return [*_neighbour_lines(vocabulary), *_plural_lines(vocabulary, pairs)]


def apart(heights: Tensor, distance: float) -> list[int]:
    """Returns nouns whose labels do not overlap.

    Args:
        heights: positions of each noun's two labels, (2, nouns).
    """
    chosen: list[int] = []
    for number in range(heights.shape[1]):
        gaps = (heights[:, chosen] - heights[:, number, None]).abs()
        if bool((gaps > distance).all()):
            chosen.append(number)
    return chosen


def _neighbour_lines(vocabulary: Words) -> list[str]:
    lines = []
    for name in SHOWN:
        if (at := vocabulary.at(name)) is not None:
            near = vocabulary.neighbours(vocabulary.vectors[at], without={at})[:5]
            lines.append(f"near {name}: " + ", ".join(vocabulary.names[i] for i in near))
    return lines


def _plural_lines(vocabulary: Words, pairs: list[tuple[int, int]]) -> list[str]:
    found, near = (plural_hits(vocabulary, pairs, use_offset) for use_offset in (True, False))
    return [
        f"{len(pairs)} nouns: the plural is nearest to singular + mean difference for {found:.0%}, "
        f"nearest to the singular for {near:.0%}"
    ]
