"""Sockeye's Transformer and default loss, in eager mode (Sockeye's trainer traces the model)."""

import sockeye
import torch
from sockeye import constants, data_io, encoder, transformer
from sockeye.loss import CrossEntropyLoss
from sockeye.model import ModelConfig, SockeyeModel, initialize_parameters
from torch import Tensor

from recipes.speed.plain_step import Step, plain_step
from recipes.speed.workload import Batch, Shape

_LONGEST = 256


def version() -> str:
    return f"Sockeye {sockeye.__version__}"


def training_step(shape: Shape, precision: str) -> Step:
    torch.manual_seed(1)
    model = SockeyeModel(_config(shape)).train()
    model.apply(initialize_parameters)
    criterion = CrossEntropyLoss(label_smoothing=0.1)

    def loss(batch: Batch) -> Tensor:
        output = model(
            batch.src.int()[..., None],
            _lengths(batch.src_lengths),
            batch.tgt_in.int()[..., None],
            batch.tgt_lengths.int(),
        )
        value, _ = criterion(output, {constants.TARGET_LABEL_NAME: batch.tgt_out.int()})
        return value

    return plain_step(model, loss, precision)


def _lengths(lengths: Tensor) -> Tensor:
    """Returns lengths with a second column, the number of prefix tokens, which is 0."""
    return torch.stack([lengths, torch.zeros_like(lengths)], dim=1).int()


def _config(shape: Shape) -> ModelConfig:
    side = transformer.TransformerConfig(
        model_size=shape.d_model,
        attention_heads=shape.heads,
        feed_forward_num_hidden=shape.d_ff,
        act_type="relu",
        num_layers=shape.layers,
        dropout_attention=0.0,
        dropout_act=0.0,
        dropout_prepost=shape.dropout,
        positional_embedding_type=constants.FIXED_POSITIONAL_EMBEDDING,
        preprocess_sequence="",
        postprocess_sequence="drn",  # post-norm: dropout, residual, normalization
        max_seq_len_source=_LONGEST,
        max_seq_len_target=_LONGEST,
        depth_key_value=shape.d_model,
    )
    embedding = encoder.EmbeddingConfig(shape.vocabulary, shape.d_model, shape.dropout)
    size, bucket = shape.vocabulary, (_LONGEST, _LONGEST)
    statistics = data_io.DataStatistics(
        1, 0, 1, 1, 0, 0, *bucket, size, size, 1.0, 0.1, [bucket], [1], [1.0]
    )
    return ModelConfig(
        config_data=data_io.DataConfig(statistics, _LONGEST, _LONGEST, 1, 1),
        vocab_source_size=size,
        vocab_target_size=size,
        config_embed_source=embedding,
        config_embed_target=embedding,
        config_encoder=side,
        config_decoder=side,
        weight_tying_type=constants.WEIGHT_TYING_SRC_TRG_SOFTMAX,
    )
