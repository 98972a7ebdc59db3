"""Exports a model to CTranslate2 by means of CTranslate2's `TransformerSpec`.

CTranslate2 requires that d_k and d_v are equal. If d_k and d_v differ, every attention head is
padded with zeros to the larger size. The queries of padded heads are scaled, because CTranslate2
divides attention scores by the square root of the padded size instead of sqrt(d_k).
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Collection, Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.decoding.ctranslate2_search import POSITIONS
from nmt.export.check import Sample, agreement, compare, samples_of
from nmt.export.expressible import refuse_inexpressible
from nmt.model.attention import CrossAttention, SelfAttention
from nmt.model.layers import DecoderLayer, EncoderLayer, FeedForward
from nmt.model.positions import LearnedPositions
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.model.transformer import Transformer
from nmt.reporting.about_model import about_model
from nmt.runs.exported_model import KIND
from nmt.runs.model_directory import LoadedModel
from nmt.storage import manifest
from nmt.storage.names import CONFIG, TOKENIZER
from nmt.translator import Translator

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

# None: any value is supported; dropout is used only in training
_EXPRESSED: dict[str, Collection[Any] | None] = dict.fromkeys(
    ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v", "dropout",
     "attention_dropout", "activation_dropout"),
) | {
    "positions": ("sinusoidal", "learned"), "norm": ("post", "pre"),
    "feed_forward": ("relu", "swish"), "output_bias": (False, True),
}  # fmt: skip

Quantization = Literal["float32", "float16", "bfloat16", "int8", "int8_float32"]


def export_ctranslate2(
    translator: Translator, folder: Path, model: LoadedModel, quantization: Quantization
) -> str:
    """Writes a CTranslate2 model, its tokenizer and a script that translates without nmt.

    Also writes the configuration and a manifest, which `Translator.load` needs. The manifest
    contains information about the original model for `nmt serve`. The exported model's translations
    are compared with the original model's translations. If translations in float32 differ, an error
    is raised, whereas differences that quantization causes are only reported.

    Args:
        translator: the original model in fp32 on a CPU, without prepacked weights.
        folder: an existing, empty directory for the exported files.
        model: the loaded model from which `translator` was created.
        quantization: data type of the weights in the exported files.

    Returns:
        A message with the result of the comparison.

    Raises:
        InputError: CTranslate2 does not support one of the model's settings.
        ExportError: in float32, the exported model differs from the original model.
    """
    refuse_inexpressible(translator.config, _EXPRESSED, "CTranslate2")
    transformer, tokenizer = translator.transformer, translator.tokenizer
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    samples = samples_of(translator)
    with tempfile.TemporaryDirectory(dir=folder) as exact:
        write_ctranslate2(transformer, pieces, Path(exact), "float32")
        results = _translated(translator, samples, Path(exact), "float32")
        found = compare(samples, *results, "ctranslate2")
    write_ctranslate2(transformer, pieces, folder, quantization)
    if quantization != "float32":
        equal, worst = agreement(samples, *_translated(translator, samples, folder, quantization))
        found = (
            f"In float32, {found} In {quantization}, {len(samples) - equal} of the {len(samples)} "
            "translations of random texts differ, and log-probabilities differ by up to "
            f"{worst:.2g}. Measure the effect on BLEU with nmt evaluate."
        )
    (folder / TOKENIZER).write_bytes(tokenizer.model)
    (folder / "translate.py").write_text(_script(translator), encoding="utf-8")
    (folder / CONFIG).write_text(translator.config.to_yaml(), encoding="utf-8")
    never = {*tokenizer.pieces(translator.search.untrained)}
    symbols = [symbol for symbol in tokenizer.symbols if symbol not in never]
    original = about_model(model.directory, model.config)
    del original["examples"]  # example sentences for the microscope, which needs the original model
    facts = {"data_sha256": model.data_sha256, "target_symbols": symbols, "original": original}
    manifest.write(folder, KIND, facts)
    return found


def write_ctranslate2(
    transformer: Transformer, pieces: Sequence[str], folder: Path, quantization: Quantization
) -> None:
    """Writes the files of a CTranslate2 model.

    Args:
        pieces: the piece of each token, in the order of token ids.
    """
    spec = _spec(transformer)
    spec.register_source_vocabulary(list(pieces))
    spec.register_target_vocabulary(list(pieces))
    config = spec.config
    config.bos_token, config.eos_token = pieces[BOS_ID], pieces[EOS_ID]
    config.unk_token = pieces[UNK_ID]
    config.decoder_start_token, config.add_source_eos = config.bos_token, True
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(folder))


def _spec(transformer: Transformer) -> TransformerSpec:
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

    first = next(transformer.decoder_layers()).self_attention
    pre_norm = isinstance(transformer.encoder_norm, nn.LayerNorm)
    is_relu = next(transformer.decoder_layers()).feed_forward.activation is F.relu
    sizes = {
        "num_heads": first.heads, "pre_norm": pre_norm, "head_dim": max(first.d_k, first.d_v),
        "activation": Activation.RELU if is_relu else Activation.SWISH,
    }  # fmt: skip
    encoder = TransformerEncoderSpec(len(transformer.encoder), **sizes)
    decoder = TransformerDecoderSpec(len(transformer.decoder), **sizes, alignment_heads=first.heads)
    spec = TransformerSpec(encoder, decoder)
    table = _positions(transformer)
    for side in (encoder, decoder):
        side.position_encodings.encodings = table
    encoder.embeddings[0].weight = decoder.embeddings.weight = transformer.embedding.detach()
    decoder.projection.weight = transformer.embedding.detach()
    if transformer.output_bias is not None:
        decoder.projection.bias = transformer.output_bias.detach()
    if pre_norm:
        _norm(encoder.layer_norm, transformer.encoder_norm)
        _norm(decoder.layer_norm, transformer.decoder_norm)
    encoder_layers = cast(Iterable[EncoderLayer], transformer.encoder)
    for to, layer in zip(encoder.layer, encoder_layers, strict=True):
        _layer(to, layer)
    for to, decoder_layer in zip(decoder.layer, transformer.decoder_layers(), strict=True):
        _layer(to, decoder_layer)
        _cross_attention(to.attention, decoder_layer.cross_attention)
        _norm(to.attention.layer_norm, decoder_layer.cross_attention_residual.norm)
    return spec


def _layer(to: Any, layer: EncoderLayer | DecoderLayer) -> None:
    """Copies the weights of the sub-layers that encoder and decoder layers have in common."""
    _self_attention(to.self_attention, layer.self_attention)
    _norm(to.self_attention.layer_norm, layer.self_attention_residual.norm)
    _feed_forward(to.ffn, layer.feed_forward)
    _norm(to.ffn.layer_norm, layer.feed_forward_residual.norm)


def _positions(transformer: Transformer) -> Tensor:
    """Returns nmt's position encodings, (positions, D), which differ from CTranslate2's."""
    positions = transformer.positions
    if isinstance(positions, LearnedPositions):
        return positions.weight.detach()
    return positions(torch.arange(POSITIONS), POSITIONS)


def _norm(to: Any, ours: nn.Module) -> None:
    to.gamma, to.beta = (parameter.detach() for parameter in ours.parameters())


def _linear(to: Any, weight: Tensor, bias: Tensor) -> None:
    to.weight, to.bias = weight.detach().contiguous(), bias.detach().contiguous()


def _feed_forward(to: Any, ours: FeedForward) -> None:
    _linear(to.linear_0, ours.inner.weight, ours.inner.bias)
    _linear(to.linear_1, ours.outer.weight, ours.outer.bias)


def _self_attention(to: Any, ours: SelfAttention) -> None:
    query, key, value = ours.query_key_value.projections()
    parts = [_query(ours, *query), _padded(ours, *key), _padded(ours, *value)]
    _linear(to.linear[0], *map(torch.cat, zip(*parts, strict=True)))
    _linear(to.linear[1], _padded_columns(ours), ours.output.bias)


def _cross_attention(to: Any, ours: CrossAttention) -> None:
    key, value = ours.key_value.projections()
    parts = [_padded(ours, *key), _padded(ours, *value)]
    _linear(to.linear[0], *_query(ours, ours.query.weight, ours.query.bias))
    _linear(to.linear[1], *map(torch.cat, zip(*parts, strict=True)))
    _linear(to.linear[2], _padded_columns(ours), ours.output.bias)


def _query(ours: SelfAttention | CrossAttention, *parameters: Tensor) -> list[Tensor]:
    factor = math.sqrt(max(ours.d_k, ours.d_v) / ours.d_k)
    return [tensor * factor for tensor in _padded(ours, *parameters)]


def _padded(ours: SelfAttention | CrossAttention, *parameters: Tensor) -> list[Tensor]:
    """Pads each head's part of a weight, (H * size, D), or of a bias, (H * size,), with zeros."""
    size = max(ours.d_k, ours.d_v)
    padded = []
    for tensor in parameters:
        heads = tensor.unflatten(0, (ours.heads, -1))
        grown = heads.new_zeros(ours.heads, size, *tensor.shape[1:])
        grown[:, : heads.shape[1]] = heads
        padded.append(grown.flatten(0, 1))
    return padded


def _padded_columns(ours: SelfAttention | CrossAttention) -> Tensor:
    """Pads each head of the output projection, (D, H * d_v), with columns of zeros."""
    return _padded(ours, ours.output.weight.T)[0].T


def _script(translator: Translator) -> str:
    config, tokenizer = translator.config, translator.tokenizer
    never = [PAD_ID, BOS_ID, *translator.search.untrained]
    values = {
        "NEVER": [[piece] for piece in tokenizer.pieces(never)],
        "BEAM": config.decoding.beam,
        "LENGTH_PENALTY": config.decoding.length_penalty,
        "MAX_SOURCE": translator.max_part,
        "MAX_EXTRA": config.decoding.max_extra_length,
        "MAX_TARGET": translator.transformer.max_length or POSITIONS,
    }
    script = resources.files(__package__).joinpath("translate.txt").read_text(encoding="utf-8")
    return re.sub("@([A-Z_]+)@", lambda found: str(values[found[1]]), script)


def _translated(
    translator: Translator, samples: Sequence[Sample], folder: Path, quantization: Quantization
) -> tuple[list[list[int]], list[list[float]]]:
    """Returns an exported model's greedy translations and log-probabilities for `compare`."""
    import ctranslate2

    supported = ctranslate2.get_supported_compute_types("cpu")
    theirs = ctranslate2.Translator(
        str(folder), compute_type=quantization if quantization in supported else "float32"
    )
    pieces = translator.tokenizer.pieces
    ids = {piece: i for i, piece in enumerate(pieces(range(translator.tokenizer.vocabulary_size)))}
    never = [[piece] for piece in pieces([PAD_ID, BOS_ID, *translator.search.untrained])]
    translations = []
    for sample in samples:  # one per batch, because the maximum length applies to a whole batch
        [result] = theirs.translate_batch(
            [pieces(sample.source)], beam_size=1, max_decoding_length=sample.limit,
            min_decoding_length=0, disable_unk=True, suppress_sequences=never,
        )  # fmt: skip
        translations.append([ids[piece] for piece in result.hypotheses[0]])
    scored = theirs.score_batch(
        [pieces(sample.source) for sample in samples],
        [pieces(sample.content) for sample in samples],
    )  # adds EOS, which a truncated translation lacks
    logs = [
        each.log_probs[: len(sample.tokens)] for sample, each in zip(samples, scored, strict=True)
    ]
    return translations, logs
