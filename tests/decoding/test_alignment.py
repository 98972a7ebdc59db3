"""Word alignment by attention, from given weights with known links."""

import numpy as np
import pytest
import torch

from nmt.data.pair import Pair
from nmt.decoding import alignment
from nmt.decoding.alignment import cross_attention, links, word_of_each_token
from nmt.model.special_ids import EOS_ID

PIECES = {
    4: "▁the",
    5: "▁li",
    6: "ons",
    7: "▁",
    8: "▁sleep",
    9: ".",
    10: b"\xe6",
    11: b"\xbc",
    12: b"\xa2",
}


def decode(ids: list[int]) -> str:
    """Decodes each byte of an incomplete character to one character, as SentencePiece does."""
    pieces = [PIECES[i] for i in ids]
    data = b"".join(p if isinstance(p, bytes) else p.replace("▁", " ").encode() for p in pieces)
    return data.decode(errors="surrogateescape").removeprefix(" ")


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([4, 5, 6, 8, 9], [0, 1, 1, 2, 2]),
        ([5, 10, 11, 12, 6, 8], [0, 0, 0, 0, 0, 1]),  # a character of three bytes
        ([4, 10, 11, 12, 8], [0, 0, 0, 0, 1]),
        ([4, 7, 10, 11, 12, 7], [0, 0, 1, 1, 1, 1]),
        ([7, 4], [0, 0]),
        ([], []),
        ([7], []),
    ],
)
def test_the_word_of_each_token(ids, words):
    assert word_of_each_token(decode, [ids], decode(ids)) == [words]


def test_the_word_of_each_token_in_parts():
    """A part may end inside a word, or next to a word that is joined without a space."""
    parts = [[4, 5], [6, 8], [], [4]]
    assert word_of_each_token(decode, parts, "the lions sleep the") == [[0, 1], [1, 2], [], [3]]
    assert word_of_each_token(decode, parts, "the lions sleepthe") == [[0, 1], [1, 2], [], [2]]


def test_a_tag_that_each_part_repeats_is_one_word_of_the_text():
    parts = [[4, 5, 6], [4, 8], [4, 5, 6]]  # "the" is the tag
    text = "the lions sleep lions"
    assert word_of_each_token(decode, parts, text, [4]) == [[0, 1, 1], [0, 2], [0, 3, 3]]


def test_each_word_is_linked_to_the_word_with_most_attention():
    weights = np.array([
        # the   li   ons  sleep  </s>
        [0.40, 0.25, 0.25, 0.10, 0.00],  # adds up the two tokens of a source word
        [0.20, 0.00, 0.00, 0.30, 0.50],  # ignores EOS
        [0.40, 0.05, 0.05, 0.35, 0.15],  # adds up the tokens of the target word: 0.60 < 0.65
        [1.00, 0.00, 0.00, 0.00, 0.00],  # the row that predicts EOS
    ], np.float32)  # fmt: skip
    assert links(weights, [0, 1, 1, 2], [0, 1, 1]) == [(1, 0), (2, 1)]
    assert links(weights, [7, 8, 8, 9], [3, 4, 4]) == [(8, 3), (9, 4)]
    assert links(weights, [], [0]) == links(weights, [0], []) == []


class MadeUp:
    """A model in whose last layer target token n attends to source token n."""

    def __init__(self, share: float = 1.0):
        self.share = share
        self.embedding = torch.zeros(1)

    def attention_weights(self, src, tgt_in):
        (B, S), T = src.tokens.shape, tgt_in.tokens.shape[1]
        wanted = torch.eye(T, S)
        heads = torch.stack((wanted * 2 * self.share, wanted * 0))  # their mean is `share`
        last = heads.expand(B, 2, T, S)
        return type("Weights", (), {"cross": [torch.ones(B, 2, T, S), last]})


def test_attention_is_the_last_layers_mean_over_heads_and_models():
    sizes = [(3, 4), (1, 1), (6, 2)]
    pairs = [Pair(np.array([5] * s + [EOS_ID]), np.array([5] * t)) for s, t in sizes]
    found = cross_attention([MadeUp(1.0), MadeUp(0.5)], pairs)  # type: ignore[list-item]
    for (src, tgt), weights in zip(pairs, found, strict=True):
        np.testing.assert_allclose(weights, 0.75 * np.eye(len(tgt), len(src)))
    assert cross_attention([MadeUp()], []) == []  # type: ignore[list-item]
    assert alignment.links(found[0], [0, 1, 2], [0, 1, 1]) == [(0, 0), (1, 1)]
