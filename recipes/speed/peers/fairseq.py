"""fairseq's Transformer and its label-smoothed loss.

Unlike the workload's ids, fairseq's ids are 0 for BOS, 1 for padding and 2 for EOS. Sources are
padded on the left, and targets begin with EOS.
"""

import dataclasses
from argparse import Namespace
from functools import partial

import torch
from torch import Tensor

from recipes.speed.plain_step import Step, plain_step
from recipes.speed.workload import EOS, PAD, Batch, Shape

# since Python 3.11, dataclasses reject unhashable defaults, which fairseq uses
_dataclass = dataclasses.dataclass
dataclasses.dataclass = partial(_dataclass, unsafe_hash=True)
try:
    import fairseq
    from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
    from fairseq.data import Dictionary
    from fairseq.models.transformer.transformer_legacy import TransformerModel, base_architecture
finally:
    dataclasses.dataclass = _dataclass

_PAD = 1


def version() -> str:
    return f"fairseq {fairseq.__version__}"


def training_step(shape: Shape, precision: str) -> Step:
    model = _model(shape).train()

    def loss(batch: Batch) -> Tensor:
        targets = _renumbered(batch.tgt_out)
        previous = _renumbered(batch.tgt_in)
        previous[:, 0] = EOS
        output = model(
            src_tokens=_padded_left(batch.src, batch.src_lengths),
            src_lengths=batch.src_lengths,
            prev_output_tokens=previous,
        )
        log_probabilities = model.get_normalized_probs(output, log_probs=True).flatten(0, 1)
        total, _ = label_smoothed_nll_loss(
            log_probabilities, targets.view(-1, 1), 0.1, ignore_index=_PAD
        )
        return total / batch.target_tokens

    return plain_step(model, loss, precision)


def _model(shape: Shape) -> TransformerModel:
    dictionary = Dictionary()  # fairseq adds four special tokens
    for number in range(shape.vocabulary - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    settings = Namespace(
        share_all_embeddings=True,
        dropout=shape.dropout,
        encoder_embed_dim=shape.d_model,
        encoder_ffn_embed_dim=shape.d_ff,
        encoder_layers=shape.layers,
        encoder_attention_heads=shape.heads,
        decoder_layers=shape.layers,
        decoder_attention_heads=shape.heads,
        max_source_positions=256,
        max_target_positions=256,
    )
    base_architecture(settings)
    torch.manual_seed(1)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    return TransformerModel.build_model(settings, task)


def _renumbered(ids: Tensor) -> Tensor:
    """Exchanges the ids 0 and 1, which are the workload's padding and BOS."""
    return torch.where(ids <= 1, 1 - ids, ids)


def _padded_left(src: Tensor, lengths: Tensor) -> Tensor:
    rows = torch.full_like(src, _PAD)
    for row, ids, length in zip(rows, src, lengths.tolist(), strict=True):
        row[len(row) - length :] = ids[:length]
    assert PAD < _PAD < int(src.max())
    return rows
