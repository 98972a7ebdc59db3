"""An nmt model as CTranslate2 reads it, with the same weights.

    python -m recipes.speed.ctranslate2_model MODEL FOLDER

run where `ctranslate2` is installed, writes the model directory MODEL as FOLDER, beside it the
tokenizer. `random` as MODEL stands for the workload's model with its first weights.

Tensors fit as they are: both stack the projections of one input in one matrix, and the table of
positions is ours. Only heads whose d_k and d_v differ are filled up with zeros.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import torch
from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
from ctranslate2.specs.transformer_spec import (
    FeedForwardSpec,
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from torch import Tensor, nn

from nmt.config import Config
from nmt.errors import InputError
from nmt.model.attention import CrossAttention, SelfAttention
from nmt.model.layers import FeedForward
from nmt.model.positions import SinusoidalPositions, sinusoids
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import load_model, new_transformer
from nmt.storage.names import TOKENIZER
from recipes.speed.peers.nmt import configuration
from recipes.speed.workload import BASE, SMALL, Shape

_POSITIONS = 1_024  # rows of the table of sinusoids: a longer sentence is an error there
_SPECIAL = "<pad>", "<s>", "</s>", "<unk>"


def main(argv: Sequence[str] | None = None) -> None:
    """Converts the model named in `argv`."""
    parser = argparse.ArgumentParser(description="Writes an nmt model as CTranslate2 reads it.")
    parser.add_argument("model", help="a model or run directory; random, small")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args(argv)
    shape = {"random": BASE, "small": SMALL}.get(arguments.model)
    if shape:
        convert_random(shape, arguments.folder)
    else:
        convert_directory(Path(arguments.model), arguments.folder)


def convert_random(shape: Shape, folder: Path) -> None:
    """The model that `peers.nmt` translates with."""
    config = configuration(shape, "fp32")
    transformer = new_transformer(config)
    transformer.initialize(1)
    pieces = [*_SPECIAL, *(f"w{number}" for number in range(len(_SPECIAL), shape.vocabulary))]
    convert(transformer, config, pieces, folder)


def convert_directory(model: Path, folder: Path) -> None:
    """A model directory and its tokenizer."""
    loaded = load_model(model, device=torch.device("cpu"))
    size = loaded.config.tokenizer.vocabulary_size
    pieces = loaded.tokenizer.pieces(range(size))
    convert(loaded.transformer, loaded.config, pieces, folder)
    shutil.copyfile(loaded.directory / TOKENIZER, folder / TOKENIZER)


def convert(transformer: Transformer, config: Config, pieces: Sequence[str], folder: Path) -> None:
    """Writes a model.

    Args:
        pieces: of each id, as CTranslate2 is to be given them.

    Raises:
        InputError: it has a window of attention, which CTranslate2 cannot restrict.
    """
    if config.model.attention_window is not None:
        raise InputError("CTranslate2 has no model.attention_window, this model, take another")
    spec = _spec(config)
    positions = transformer.positions
    table = (
        sinusoids(_POSITIONS, config.model.d_model)
        if isinstance(positions, SinusoidalPositions)
        else positions.weight
    )
    for side, layers, norm in (
        (spec.encoder, transformer.encoder, transformer.encoder_norm),
        (spec.decoder, transformer.decoder, transformer.decoder_norm),
    ):
        embeddings = side.embeddings[0] if side is spec.encoder else side.embeddings
        embeddings.weight = _numpy(transformer.embedding)
        side.position_encodings.encodings = _numpy(table)
        if isinstance(norm, nn.LayerNorm):
            _set_norm(side.layer_norm, norm)
        for to, layer in zip(side.layer, layers, strict=True):
            _set_self_attention(to.self_attention, layer.self_attention)
            _set_norm(to.self_attention.layer_norm, layer.self_attention_residual.norm)
            if side is spec.decoder:
                _set_cross_attention(to.attention, layer.cross_attention)
                _set_norm(to.attention.layer_norm, layer.cross_attention_residual.norm)
            _set_feed_forward(to.ffn, layer.feed_forward)
            _set_norm(to.ffn.layer_norm, layer.feed_forward_residual.norm)
    spec.decoder.projection.weight = _numpy(transformer.embedding)
    spec.register_source_vocabulary(list(pieces))
    spec.register_target_vocabulary(list(pieces))
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = "<s>"
    spec.validate()
    spec.optimize()
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def _spec(config: Config) -> TransformerSpec:
    """The form without weights."""
    model = config.model
    options = {"pre_norm": model.norm == "pre", "head_dim": max(model.d_k, model.d_v)}
    return TransformerSpec(
        TransformerEncoderSpec(model.encoder_layers, model.heads, **options),
        TransformerDecoderSpec(model.decoder_layers, model.heads, **options),
    )


def _set_self_attention(spec: MultiHeadAttentionSpec, attention: SelfAttention) -> None:
    sizes = [attention.d_k, attention.d_k, attention.d_v]
    scales = [_query_scale(attention), 1.0, 1.0]
    _set_stacked(spec.linear[0], attention.query_key_value, attention, sizes, scales)
    _set_output(spec.linear[1], attention)


def _set_cross_attention(spec: MultiHeadAttentionSpec, attention: CrossAttention) -> None:
    sizes = [attention.d_k, attention.d_v]
    _set_stacked(
        spec.linear[0], attention.query, attention, [attention.d_k], [_query_scale(attention)]
    )
    _set_stacked(spec.linear[1], attention.key_value, attention, sizes, [1.0, 1.0])
    _set_output(spec.linear[2], attention)


def _query_scale(attention: SelfAttention | CrossAttention) -> float:
    """CTranslate2 divides products by the root of the head's size with its zeros."""
    return (max(attention.d_k, attention.d_v) / attention.d_k) ** 0.5


def _set_stacked(
    spec: object,
    linear: nn.Linear,
    attention: SelfAttention | CrossAttention,
    sizes: list[int],
    scales: list[float],
) -> None:
    """Projections stacked in `linear`, of heads of these sizes, each times its scale."""
    rows = [attention.heads * size for size in sizes]
    both = zip(linear.weight.split(rows), linear.bias.split(rows), sizes, scales, strict=True)
    parts = [
        (_filled(weight, attention, size) * scale, _filled(bias, attention, size) * scale)
        for weight, bias, size, scale in both
    ]
    spec.weight, spec.bias = (_numpy(torch.cat(part)) for part in zip(*parts, strict=True))


def _filled(rows: Tensor, attention: SelfAttention | CrossAttention, size: int) -> Tensor:
    """(H * size, ...) -> (H * max(d_k, d_v), ...), zeros at the end of each head."""
    heads = rows.unflatten(0, (attention.heads, size))
    zeros = heads.new_zeros(
        attention.heads, max(attention.d_k, attention.d_v) - size, *heads.shape[2:]
    )
    return torch.cat([heads, zeros], dim=1).flatten(0, 1)


def _set_output(spec: object, attention: SelfAttention | CrossAttention) -> None:
    output = attention.output
    spec.weight = _numpy(_filled(output.weight.t(), attention, attention.d_v).t())
    spec.bias = _numpy(output.bias)


def _set_feed_forward(spec: FeedForwardSpec, layer: FeedForward) -> None:
    for to, linear in ((spec.linear_0, layer.inner), (spec.linear_1, layer.outer)):
        to.weight, to.bias = _numpy(linear.weight), _numpy(linear.bias)


def _set_norm(spec: object, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _numpy(norm.weight), _numpy(norm.bias)


def _numpy(tensor: Tensor) -> object:
    return tensor.detach().contiguous().numpy()


if __name__ == "__main__":
    print(f"CTranslate2 {ctranslate2.__version__}")
    main()
