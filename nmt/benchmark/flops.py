"""FLOPs by formula: those of the products with weights, and of attention's two products.

A multiply-add counts as two. Norms, softmax, look-ups, dropout, Adam, padding and anything computed
twice are not work, so that a faster way to the same result has the higher rate.

d d_model, h heads, k d_k, v d_v, f d_ff, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np

from nmt.config import Model

Lengths = Sequence[int] | np.ndarray  # tokens of each sentence, the end symbol counted


def training_flops(
    model: Model, vocabulary_size: int, source_lengths: Lengths, target_lengths: Lengths
) -> int:
    """To train on sentence pairs once: three times the forward pass, as backward takes two.

    Each query is counted with every key of its sentence, those that causality hides included, as
    in the usual formulas: of the base model at 25 tokens they are 0.1 %.
    """
    source, target = (np.asarray(side, np.int64) for side in (source_lengths, target_lengths))
    squares = int((source**2).sum()), int((target**2).sum()), int((source * target).sum())
    products = _of_source(model) * int(source.sum()) + _of_target(model, vocabulary_size) * int(
        target.sum()
    )
    return 6 * (products + _of_weighing(model, *squares))


def translation_flops(
    model: Model,
    vocabulary_size: int,
    source_lengths: Lengths,
    target_lengths: Lengths,
    beam: int,
) -> int:
    """To translate: the source once; `beam` times each target token with the keys up to its own."""
    source, target = (np.asarray(side, np.int64) for side in (source_lengths, target_lengths))
    of_source = _of_source(model) * int(source.sum())
    of_target = _of_target(model, vocabulary_size) * int(target.sum())
    encoder = _of_weighing(model, int((source**2).sum()), 0, 0)
    seen = int((target * (target + 1) // 2).sum())
    decoder = _of_weighing(model, 0, seen, int((source * target).sum()))
    return 2 * (of_source + encoder + beam * (of_target + decoder))


def flops_per_token_pair(model: Model, vocabulary_size: int, length: int) -> int:
    """To train on one source and one target token of sentences of `length` tokens."""
    return training_flops(model, vocabulary_size, [length], [length]) // length


def quadratic_length(model: Model, vocabulary_size: int) -> float:
    """Tokens of a sentence at which attention's two products cost as much as all others."""
    products = _of_source(model) + _of_target(model, vocabulary_size)
    return products / _of_weighing(model, 1, 1, 1)


def _of_source(model: Model) -> int:
    """Multiply-adds with weights of a source token: encoder, and the decoder's view of it."""
    d, h = model.d_model, model.heads
    self_attention = d * h * (2 * model.d_k + model.d_v) + h * model.d_v * d
    seen = d * h * (model.d_k + model.d_v)
    encoder_layer = self_attention + 2 * d * model.d_ff
    return model.encoder_layers * encoder_layer + model.decoder_layers * seen


def _of_target(model: Model, vocabulary_size: int) -> int:
    """Multiply-adds with weights of a target token: decoder and logits."""
    d, h = model.d_model, model.heads
    self_attention = d * h * (2 * model.d_k + model.d_v) + h * model.d_v * d
    cross_attention = d * h * model.d_k + h * model.d_v * d
    layer = self_attention + cross_attention + 2 * d * model.d_ff
    return model.decoder_layers * layer + vocabulary_size * d


def _of_weighing(model: Model, encoder: int, decoder: int, cross: int) -> int:
    """Multiply-adds of scores and of weighted sums, for as many pairs of query and key."""
    pairs = model.encoder_layers * encoder + model.decoder_layers * (decoder + cross)
    return model.heads * (model.d_k + model.d_v) * pairs
