"""Aligns the words of a translation with those of its source, using cross-attention weights.

Words are separated by white space and numbered from 0. Each word of the translation is linked to
the source word that receives the most attention in the decoder's last layer, at the steps that
predict the tokens of the translated word. The attention is averaged over heads and over the models
of an ensemble, and summed over the tokens of each source word. Attention to EOS is ignored. With
the demo model, attention in the last layer finds 98% of the links that the demo's dictionary
implies; attention in the second-to-last layer finds 73%.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nmt.data.pair import TokenPair
from nmt.decoding.translation import Links

if TYPE_CHECKING:
    from nmt.model.transformer import Transformer

_BATCH_TOKENS = 2048  # maximum tokens per side, with padding; limits attention memory


def cross_attention(
    transformers: Sequence["Transformer"], pairs: Sequence[TokenPair]
) -> list[NDArray[np.float32]]:
    """Returns each pair's attention weights (T, S) from target tokens to source tokens.

    Row i contains the weights at the step that predicts target token i. Each row sums to 1.

    Args:
        transformers: one or more models, in evaluation mode.
        pairs: source and target token ids; every source ends with EOS.
    """
    import torch  # imported here, because exported models are aligned without torch

    from nmt.data.layout import by_length, one_per_row

    found: list[NDArray[np.float32]] = [np.zeros((0, 0), np.float32)] * len(pairs)
    for some in by_length(pairs, _BATCH_TOKENS):
        batch = one_per_row([pairs[i] for i in some]).to(transformers[0].embedding.device)
        with torch.inference_mode():
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
    """Returns the word index of each token in each part of a text.

    A token that contains only white space belongs to the word before it.

    Args:
        decode: converts token ids to text.
        parts: the token ids of each part of the text.
        text: the whole text, which equals the joined decoded parts except for white space.
        tag: tokens of the target-language tag at the start of the text; later parts may repeat the
            tag.
    """
    words = [number for number, word in enumerate(text.split()) for _ in word]  # per character
    found: list[list[int]] = []
    before = 0
    for number, part in enumerate(parts):
        is_tagged = number > 0 and len(tag) > 0 and part[: len(tag)] == list(tag)
        ids = part[len(tag) :] if is_tagged else part
        # number of non-space characters up to and including each token
        complete = np.array([_length(decode(ids[: n + 1])) for n in range(len(ids))], np.int64)
        # an incomplete UTF-8 character may decode to several characters
        complete = np.minimum.accumulate(complete[::-1])[::-1] + before
        last = np.clip(complete, 1, max(len(words), 1)) - 1
        repeated = found[0][: len(tag)] if is_tagged else []
        found.append(repeated + ([words[at] for at in last] if words else []))
        before = int(complete[-1]) if len(ids) else before
    return found


def _length(text: str) -> int:
    return sum(map(len, text.split()))


def links(weights: NDArray[np.float32], source: Sequence[int], target: Sequence[int]) -> Links:
    """Returns the link (source word, target word) of each target word, in order.

    Args:
        weights: (at least T, at least S), the attention weights of each target token (row) over the
            source tokens (columns). Additional rows and columns, such as those of EOS, are ignored.
        source: (S), the word index of each source token except EOS.
        target: (T), the word index of each target token except EOS.
    """
    if not source or not target:
        return []
    first = min(source)
    attention = np.zeros((max(target) + 1, max(source) + 1 - first))
    columns = np.asarray(source) - first
    for word, row in zip(target, weights, strict=False):
        np.add.at(attention[word], columns, row[: len(columns)])
    return [(int(attention[word].argmax()) + first, word) for word in sorted(set(target))]
