"""JoeyNMT's Transformer and its label-smoothed loss."""

from importlib import metadata

import torch
from joeynmt.model import Model, build_model
from joeynmt.vocabulary import Vocabulary
from torch import Tensor

from recipes.speed.plain_step import Step, plain_step
from recipes.speed.workload import BOS, EOS, PAD, UNK, Batch, Shape


def version() -> str:
    return f"JoeyNMT {metadata.version('joeynmt')}"


def training_step(shape: Shape, precision: str) -> Step:
    torch.manual_seed(1)
    model = _model(shape).train()
    model.loss_function = ("crossentropy", 0.1)

    def loss(batch: Batch) -> Tensor:
        total, *_ = model(
            return_type="loss",
            src=batch.src,
            src_mask=(batch.src != PAD)[:, None],
            src_length=batch.src_lengths,
            trg_input=batch.tgt_in,
            trg=batch.tgt_out,
            trg_mask=(batch.tgt_out != PAD)[:, None],
        )
        return total / batch.target_tokens

    return plain_step(model, loss, precision)


def _model(shape: Shape) -> Model:
    side = {
        "type": "transformer",
        "num_layers": shape.layers,
        "num_heads": shape.heads,
        "hidden_size": shape.d_model,
        "ff_size": shape.d_ff,
        "dropout": shape.dropout,
        "layer_norm": "post",
        "activation": "relu",
        "embeddings": {
            "embedding_dim": shape.d_model,
            "scale": True,
            "dropout": shape.dropout,
        },
    }
    config = {
        "encoder": side,
        "decoder": side,
        "tied_embeddings": True,
        "tied_softmax": True,
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "bias_initializer": "zeros",
    }
    vocabulary = _vocabulary(shape.vocabulary)
    return build_model(config, src_vocab=vocabulary, trg_vocab=vocabulary)


def _vocabulary(size: int) -> Vocabulary:
    """Creates a vocabulary without its constructor, whose time is quadratic in the size."""
    vocabulary = object.__new__(Vocabulary)
    vocabulary.specials = ["<pad>", "<s>", "</s>", "<unk>"]
    vocabulary.lang_tags = []
    vocabulary._itos = vocabulary.specials + [f"w{number}" for number in range(size - 4)]
    vocabulary._stoi = {token: index for index, token in enumerate(vocabulary._itos)}
    vocabulary.pad_index, vocabulary.bos_index = PAD, BOS
    vocabulary.eos_index, vocabulary.unk_index = EOS, UNK
    vocabulary.sep_index = None
    return vocabulary
