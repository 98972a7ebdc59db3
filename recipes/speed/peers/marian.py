"""Hugging Face's `MarianMTModel`, with the label-smoothed loss of its `Trainer`."""

import torch
import transformers
from torch import Tensor
from transformers import MarianConfig, MarianMTModel
from transformers.trainer_pt_utils import LabelSmoother

from recipes.speed.plain_step import Step, plain_step
from recipes.speed.workload import BOS, EOS, PAD, Batch, Shape


def version() -> str:
    return f"Hugging Face Marian {transformers.__version__}"


def training_step(shape: Shape, precision: str) -> Step:
    model = MarianMTModel(_config(shape)).train()
    smoother = LabelSmoother(epsilon=0.1)

    def loss(batch: Batch) -> Tensor:
        output = model(
            input_ids=batch.src,
            attention_mask=(batch.src != PAD).long(),
            decoder_input_ids=batch.tgt_in,
            use_cache=False,
        )
        labels = batch.tgt_out.masked_fill(batch.tgt_out == PAD, smoother.ignore_index)
        return smoother(output, labels)

    return plain_step(model, loss, precision)


def _config(shape: Shape) -> MarianConfig:
    """Returns a configuration with default attention, and dropout as in the other systems."""
    torch.manual_seed(1)
    return MarianConfig(
        vocab_size=shape.vocabulary,
        d_model=shape.d_model,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        dropout=shape.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
