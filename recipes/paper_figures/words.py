"""§3.4: what the embedding matrix of a trained model knows of words."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt.decoding.translator import Translator
from nmt.demo_language.lexicon import NOUNS
from nmt.errors import InputError

SHOWN = ["man", "dog", "book", "red", "bought", "yesterday", "Mann", "rot"]
IN_PICTURE = 14  # nouns
_SPACE_SIGN = "▁"


@dataclass(frozen=True)
class Words:
    """Those pieces of a vocabulary that are whole words, and their embeddings."""

    names: list[str]
    vectors: Tensor  # (words, D) float32

    def at(self, name: str) -> int | None:
        """The number of a word; None: it is no piece of its own."""
        return self.names.index(name) if name in self.names else None

    def neighbours(self, vector: Tensor, without: set[int]) -> list[int]:
        """The numbers of all words but `without`, the most similar (by cosine) first."""
        cosines = torch.cosine_similarity(self.vectors, vector[None])
        return [i for i in cosines.argsort(descending=True).tolist() if i not in without]


def whole_words(translator: Translator) -> Words:
    """The words of a model's vocabulary: letters after a space. Many are words' beginnings too."""
    vectors = translator.transformer.embedding.detach().float().cpu()
    pieces = translator.tokenizer.pieces(range(len(vectors)))
    found = [
        i for i, piece in enumerate(pieces) if piece[:1] == _SPACE_SIGN and piece[1:].isalpha()
    ]
    return Words([pieces[i][1:] for i in found], vectors[found])


def noun_pairs(words: Words) -> list[tuple[int, int]]:
    """The numbers of English singulars and their plurals, where both are pieces."""
    pairs = [(words.at(noun.english), words.at(noun.english_plural)) for noun in NOUNS]
    return [(s, p) for s, p in pairs if s is not None and p is not None and s != p]


def plural_hits(words: Words, pairs: list[tuple[int, int]], use_offset: bool) -> float:
    """The share of nouns whose plural is the nearest word to singular + (plural - singular).

    The difference is the mean over all other nouns, never the noun's own; without `use_offset` it
    is left out: the share of plurals that are nearest to their singular anyway.
    """
    singular, plural = (words.vectors[list(side)] for side in zip(*pairs, strict=True))
    differences = plural - singular
    others = (differences.sum(0) - differences) / (len(pairs) - 1)
    searched = singular + others if use_offset else singular
    hits = sum(
        words.neighbours(vector, without={s})[0] == p
        for vector, (s, p) in zip(searched, pairs, strict=True)
    )
    return hits / len(pairs)


def plane(words: Words, pairs: list[tuple[int, int]]) -> Tensor:
    """Singulars, then plurals, seen in a plane: (2 * pairs, 2).

    The first axis is the mean difference of plural and singular; the second, at right angles to it,
    the direction in which the words differ most.
    """
    singular, plural = (words.vectors[list(side)] for side in zip(*pairs, strict=True))
    first = torch.nn.functional.normalize((plural - singular).mean(0), dim=0)
    points = torch.cat([singular, plural])
    points = points - points.mean(0)
    rest = points - (points @ first)[:, None] * first
    second = torch.linalg.svd(rest, full_matrices=False)[2][0]
    return torch.stack([points @ first, points @ second], dim=1)


def draw_words(translator: Translator, axes: Any) -> list[str]:
    """Nouns and their plurals in a plane; returns neighbours and how often the plural is found."""
    words = whole_words(translator)
    pairs = noun_pairs(words)
    if len(pairs) < 2:
        raise InputError("no nouns of the demo language in its vocabulary, --model, name a run of "
                         "configs/demo.yaml")  # fmt: skip
    drawn = pairs[:: max(1, len(pairs) // IN_PICTURE)][:IN_PICTURE]
    points = plane(words, pairs)
    for pair in drawn:
        number = pairs.index(pair)
        start, end = points[number], points[number + len(pairs)]
        axes.annotate("", xy=end.tolist(), xytext=start.tolist(),
                      arrowprops={"arrowstyle": "->", "color": "C0", "alpha": 0.6})  # fmt: skip
        for at, point in zip(pair, (start, end), strict=True):
            side = "left" if at == pair[1] else "right"
            axes.annotate(words.names[at], point.tolist(), fontsize=8, ha=side, va="center")
    shown = torch.stack([points[pairs.index(p) + i * len(pairs)] for p in drawn for i in (0, 1)])
    axes.scatter(shown[:, 0], shown[:, 1], s=6, color="C0")
    axes.margins(0.15)
    axes.set(title="Embeddings: from singular to plural", ylabel="direction of most variance",
             xlabel="along the mean of plural − singular")  # fmt: skip
    return [*_neighbour_lines(words), *_plural_lines(words, pairs)]


def _neighbour_lines(words: Words) -> list[str]:
    lines = []
    for name in SHOWN:
        if (at := words.at(name)) is not None:
            near = words.neighbours(words.vectors[at], without={at})[:5]
            lines.append(f"near {name}: " + ", ".join(words.names[i] for i in near))
    return lines


def _plural_lines(words: Words, pairs: list[tuple[int, int]]) -> list[str]:
    found, near = (plural_hits(words, pairs, use_offset) for use_offset in (True, False))
    return [
        f"{len(pairs)} nouns: the plural is nearest to singular + mean difference for {found:.0%}, "
        f"nearest to the singular for {near:.0%}"
    ]
