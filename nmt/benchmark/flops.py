"""Calculates the FLOPs of a model's matrix multiplications, including attention.

A multiply-add counts as two FLOPs. The counts exclude normalization, softmax, embedding lookups,
rotary position embeddings, dropout, the optimizer, padding and recomputation. Because the counts do
not depend on the implementation, a faster implementation always has a higher FLOP rate.
`nmt.training.optimizers.optimizer_flops` returns the FLOPs of the Muon optimizer.

In the formulas, d is d_model and h is the number of attention heads.
"""

from collections.abc import Sequence

import numpy as np

from nmt.config import Model

Lengths = Sequence[int] | np.ndarray  # the number of tokens of each sentence, including EOS


def training_flops(
    model: Model, vocabulary_size: int, source_lengths: Lengths, target_lengths: Lengths
) -> int:
    """Returns the FLOPs of a training step on sentence pairs of the given lengths.

    The FLOPs of a training step are three times the FLOPs of its forward pass.

    As is common in FLOP counts, each query is assumed to attend to all keys of its sentence,
    including keys that the causal mask hides. For sentences of 25 tokens, the hidden keys account
    for 0.1% of the base model's FLOPs.
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
    """Returns the FLOPs of a translation with beam search, without padding.

    The encoder is counted once per source token, and the decoder is counted once per target token
    and hypothesis in the beam. In the decoder's self-attention, each token attends to the target
    tokens up to and including its own position.
    """
    source, target = (np.asarray(side, np.int64) for side in (source_lengths, target_lengths))
    of_source = _of_source(model) * int(source.sum())
    of_target = _of_target(model, vocabulary_size) * int(target.sum())
    encoder = _of_weighing(model, int((source**2).sum()), 0, 0)
    seen = int((target * (target + 1) // 2).sum())
    decoder = _of_weighing(model, 0, seen, int((source * target).sum()))
    return 2 * (of_source + encoder + beam * (of_target + decoder))


def flops_per_token_pair(model: Model, vocabulary_size: int, length: int) -> int:
    """Returns the training FLOPs of a pair of `length`-token sentences, divided by `length`."""
    return training_flops(model, vocabulary_size, [length], [length]) // length


def _of_source(model: Model) -> int:
    """Returns the multiply-adds per source token.

    The count includes the projection of the encoder's output to keys and values for
    cross-attention.
    """
    d, h = model.d_model, model.heads
    self_attention = d * h * (2 * model.d_k + model.d_v) + h * model.d_v * d
    seen = d * h * (model.d_k + model.d_v)
    encoder_layer = self_attention + _of_feed_forward(model)
    return model.encoder_layers * encoder_layer + model.decoder_layers * seen


def _of_target(model: Model, vocabulary_size: int) -> int:
    """Returns the multiply-adds per target token, in the decoder and in the output projection."""
    d, h = model.d_model, model.heads
    self_attention = d * h * (2 * model.d_k + model.d_v) + h * model.d_v * d
    cross_attention = d * h * model.d_k + h * model.d_v * d
    layer = self_attention + cross_attention + _of_feed_forward(model)
    return model.decoder_layers * layer + vocabulary_size * d


def _of_feed_forward(model: Model) -> int:
    """Returns the multiply-adds per token in one feed-forward network."""
    matrices = 3 if model.feed_forward == "swiglu" else 2
    return matrices * model.d_model * model.d_ff


def _of_weighing(model: Model, encoder: int, decoder: int, cross: int) -> int:
    """Returns the multiply-adds that attention takes for scores and weighted sums.

    Args:
        encoder, decoder, cross: the number of query-key pairs per layer in the encoder's
            self-attention, in the decoder's self-attention and in cross-attention.
    """
    pairs = model.encoder_layers * encoder + model.decoder_layers * (decoder + cross)
    return model.heads * (model.d_k + model.d_v) * pairs
