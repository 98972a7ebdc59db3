"""Which source word each word of a translation comes from, by the model's cross-attention.

A word is what stands between white space; words are numbered from 0. Each word of the translation
is linked to the one source word with the most attention: that of the decoder's last layer, averaged
over its heads (and over the models of an ensemble), while the word's tokens are predicted; added up
over the tokens of a source word. What the end symbol gets does not count. In the demo's model this
finds 98% of the links that its dictionary knows, the layer before finds 73%.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.data.layout import by_length, one_per_row
from nmt.data.pair import TokenPair
from nmt.decoding.translation import Links
from nmt.model.transformer import Transformer

_BATCH_TOKENS = 2048  # padded, a side; all layers' attention is in memory at once


@torch.inference_mode()
def cross_attention(
    transformers: Sequence[Transformer], pairs: Sequence[TokenPair]
) -> list[NDArray[np.float32]]:
    """The attention (T, S) of each pair's T target tokens to its S source tokens.

    Each row is that with which the token is predicted, see the module; it sums to 1.

    Args:
        transformers: in evaluation mode.
        pairs: source and target token ids; every source with its end symbol.
    """
    found: list[NDArray[np.float32]] = [np.zeros((0, 0), np.float32)] * len(pairs)
    for some in by_length(pairs, _BATCH_TOKENS):
        batch = one_per_row([pairs[i] for i in some]).to(transformers[0].embedding.device)
        of_models = [
            model.attention_weights(batch.src, batch.tgt_in).cross[-1].float().mean(1)
            for model in transformers
        ]
        weights = torch.stack(of_models).mean(0).cpu().numpy()  # (R, T, S)
        for i, row in zip(some, weights, strict=True):
            src, tgt = pairs[i]
            found[i] = row[: len(tgt), : len(src)]
    return found


def word_of_each_token(
    decode: Callable[[list[int]], str],
    parts: Sequence[list[int]],
    text: str,
    tag: Sequence[int] = (),
) -> list[list[int]]:
    """Which word of a text each of its tokens belongs to, or ends with.

    A token that is nothing but white space belongs to the word before it.

    Args:
        decode: gives the text of token ids.
        parts: the text's tokens, in one part or several.
        text: without white space it is what `decode` gives for all of them.
        tag: tokens with which the text begins, and again each of its other parts that does.
    """
    words = [number for number, word in enumerate(text.split()) for _ in word]  # of each character
    found: list[list[int]] = []
    before = 0
    for number, part in enumerate(parts):
        is_tagged = number > 0 and len(tag) > 0 and part[: len(tag)] == list(tag)
        ids = part[len(tag) :] if is_tagged else part
        # characters, white space left out, that are complete with each token
        complete = np.array([_length(decode(ids[: n + 1])) for n in range(len(ids))], np.int64)
        # the bytes of half a character are several characters until it is whole
        complete = np.minimum.accumulate(complete[::-1])[::-1] + before
        last = np.clip(complete, 1, max(len(words), 1)) - 1
        repeated = found[0][: len(tag)] if is_tagged else []
        found.append(repeated + ([words[at] for at in last] if words else []))
        before = int(complete[-1]) if len(ids) else before
    return found


def _length(text: str) -> int:
    return sum(map(len, text.split()))


def links(weights: NDArray[np.float32], source: Sequence[int], target: Sequence[int]) -> Links:
    """The source word of each word of a translation, in the order of the translation.

    Args:
        weights: attention of at least T target tokens to at least S source tokens.
        source, target: (S), (T), the word that each token belongs to, without end symbols.
    """
    if not source or not target:
        return []
    first = min(source)
    attention = np.zeros((max(target) + 1, max(source) + 1 - first))
    columns = np.asarray(source) - first
    for word, row in zip(target, weights, strict=False):
        np.add.at(attention[word], columns, row[: len(columns)])
    return [(int(attention[word].argmax()) + first, word) for word in sorted(set(target))]
