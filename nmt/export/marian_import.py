"""Implements `nmt import`, which converts Marian checkpoints of Hugging Face transformers."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nmt.config import Config, validate
from nmt.data.foreign_tokenizer import joint
from nmt.data.tokenizer import MAX_MODEL_BYTES, Tokenizer
from nmt.errors import ArgumentError, InputError, NoModelError, Note, count
from nmt.export.marian_weights import channels, named_weights, permuted
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.runs.model_directory import model_files, new_transformer, save_model
from nmt.runs.run_directory import refuse_output
from nmt.storage.names import GENERATION_CONFIG, HUGGINGFACE_CONFIG, WEIGHTS
from nmt.storage.opening import small_file

_EOS, _UNK, _PAD = "</s>", "<unk>", "<pad>"  # in vocab.json
_SHARED = (  # names of the embedding matrix, of which a file contains one or more
    "model.shared.weight", "lm_head.weight", "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
)  # fmt: skip
_NEVER = -100.0  # a bias that makes the probability of a token 0 in fp32
_VOCABULARY = TypeAdapter(dict[str, int])
_LANGUAGE_TOKEN = re.compile(">>.+<<")
_OPUS_NAME = re.compile("opus-mt-(?:tc-[a-z]+-)?([a-z]{2,3})-([a-z]{2,3})")


class _Settings(BaseModel):
    """The settings in config.json that can affect the model's outputs."""

    model_config = ConfigDict(strict=True)

    model_type: Literal["marian"]
    vocab_size: int
    decoder_vocab_size: int | None = None
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int = Field(ge=1)
    decoder_attention_heads: int = Field(ge=1)
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    activation_function: Literal["relu", "silu", "swish"]
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    max_position_embeddings: int
    scale_embedding: Literal[True]
    static_position_embeddings: Literal[True] = True
    share_encoder_decoder_embeddings: Literal[True] = True
    tie_word_embeddings: Literal[True] = True
    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    pad_token_id: int | None = None
    eos_token_id: int | None = None
    decoder_start_token_id: int | None = None
    num_beams: int = Field(default=4, ge=1)


def import_marian(
    checkpoint: Path,
    output: Path,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    note: Note,
) -> None:
    """Writes a model directory with the weights and the tokenizers of a Marian checkpoint.

    Args:
        checkpoint: directory with config.json, model.safetensors, vocab.json, source.spm and
            target.spm.
        output: the output directory, which must be empty or must not exist yet.
        source_language, target_language: the language codes. If a code is None, it is taken from
            the name of `checkpoint`, such as opus-mt-en-de.
        note: function that is called with a message when the model has been written.

    Raises:
        ArgumentError: the languages are unknown, or `output` belongs to a run.
        InputError: nmt does not support the model, or `checkpoint` is not a directory.
        NoModelError: a file of the checkpoint is missing or damaged.
    """
    refuse_output(output)
    if not checkpoint.is_dir():
        raise InputError(f"There is no directory {checkpoint}. Check the path.")
    found = _OPUS_NAME.fullmatch(checkpoint.resolve().name)
    languages = source_language or (found and found[1]), target_language or (found and found[2])
    if not all(languages):
        raise ArgumentError(
            "The languages of {} are unknown. Add {source_language} and {target_language}.",
            checkpoint,
        )
    settings = _settings(checkpoint)
    ids = _vocabulary(checkpoint / "vocab.json", settings)
    pieces = [piece for piece in ids if piece not in (_EOS, _UNK, _PAD)]
    tokenizer = _tokenizer(checkpoint, pieces)
    content = _content(settings, checkpoint, output, languages, len(pieces) + 4)
    config = validate(content, {}, str(checkpoint / HUGGINGFACE_CONFIG))
    special = {PAD_ID: _PAD, BOS_ID: _PAD, EOS_ID: _EOS, UNK_ID: _UNK}  # decoding begins with PAD
    names = [special[i] for i in sorted(special)] + pieces
    rows = torch.tensor([ids[name] for name in names])
    weights = _weights(checkpoint / WEIGHTS, config, settings.vocab_size, rows)
    origin = hashlib.sha256(str(sorted(ids.items())).encode()).hexdigest()
    facts = {
        "step": 0,
        "tokenizer_sha256": Tokenizer(tokenizer).sha256,
        "data_sha256": origin,
        "target_symbols": [],
        "imported_from": checkpoint.resolve().name,
    }
    save_model(output, config, model_files(tokenizer, None), weights, facts)
    note(f"Wrote {output}: a model from {languages[0]} to {languages[1]}.")


def _settings(checkpoint: Path) -> _Settings:
    """Reads config.json, and the beam size from generation_config.json if that file exists.

    Raises:
        InputError: nmt does not support a setting of the checkpoint. The message has one line per
            unsupported setting.
        NoModelError: config.json or generation_config.json is damaged.
    """
    path, generation = checkpoint / HUGGINGFACE_CONFIG, checkpoint / GENERATION_CONFIG
    content = _object(path)
    if os.path.lexists(generation):
        beam = _object(generation).get("num_beams")
        content |= {} if beam is None else {"num_beams": beam}
    problems = []
    for name in ("attention_heads", "ffn_dim"):
        sides = content.get(f"encoder_{name}"), content.get(f"decoder_{name}")
        if sides[0] != sides[1]:
            problems.append(
                f"{path}: encoder_{name} is {sides[0]!r:.40}, but decoder_{name} is "
                f"{sides[1]!r:.40}. nmt import supports only equal values."
            )
    if content.get("decoder_vocab_size") not in (None, content.get("vocab_size")):
        problems.append(
            f"{path}: decoder_vocab_size differs from vocab_size. nmt import supports only models "
            "with a shared vocabulary."
        )
    try:
        settings = _Settings.model_validate(content)
    except ValidationError as error:
        unsupported = [
            f"{path}: {'.'.join(map(str, each['loc']))}: {each['msg']}. nmt import does not "
            "support this model."
            for each in error.errors()
        ]
        raise InputError(*unsupported, *problems) from None
    if problems:
        raise InputError(*problems)
    if settings.d_model % settings.encoder_attention_heads:
        raise NoModelError(
            f"{path} is damaged: d_model is not a multiple of encoder_attention_heads. Download "
            "the model again."
        )
    return settings


def _object(path: Path) -> dict[str, Any]:
    content = _json(path)
    if not isinstance(content, dict):
        raise NoModelError(f"{path} contains no settings. Download the model again.")
    return content


def _json(path: Path) -> Any:
    try:
        return json.loads(_content_of(path))
    except (ValueError, RecursionError):
        raise NoModelError(f"{path} is not valid JSON. Download the model again.") from None


def _content_of(path: Path) -> bytes:
    try:
        return small_file(path, MAX_MODEL_BYTES)
    except FileNotFoundError:
        raise NoModelError(
            f"{path} does not exist. Specify a directory with all files of a Marian checkpoint."
        ) from None


def _vocabulary(path: Path, settings: _Settings) -> dict[str, int]:
    """Reads vocab.json, and returns a dictionary from tokens to ids, sorted by id."""
    size = settings.vocab_size
    try:
        ids = _VOCABULARY.validate_python(_json(path), strict=True)
    except ValidationError:
        raise NoModelError(
            f"{path} does not map tokens to ids. Download the model again."
        ) from None
    if len(ids) != size or sorted(ids.values()) != list(range(len(ids))):
        raise NoModelError(
            f"{path} must contain {count(size, 'token')} (vocab_size in {HUGGINGFACE_CONFIG}) with "
            f"the ids 0 to {size - 1}. Download the model again."
        )
    if missing := {_EOS, _UNK, _PAD} - ids.keys():
        raise NoModelError(f"{path} has no token {min(missing)}. Download the model again.")
    expected = {"pad_token_id": _PAD, "decoder_start_token_id": _PAD, "eos_token_id": _EOS}
    for name, token in expected.items():
        if (found := getattr(settings, name)) not in (None, ids[token]):
            raise InputError(
                f"{path}: the id of {token} is {ids[token]}, but {name} in {HUGGINGFACE_CONFIG} is "
                f"{found}. nmt import supports only models in which both ids are equal."
            )
    if language := next(filter(_LANGUAGE_TOKEN.fullmatch, ids), None):
        raise InputError(
            f"{path} has the target-language token {language}, but nmt import does not support "
            "models with several target languages. Use a model for a single language pair."
        )
    return dict(sorted(ids.items(), key=lambda item: item[1]))


def _tokenizer(checkpoint: Path, pieces: Sequence[str]) -> bytes:
    """Returns the content of a tokenizer file with the source and target SentencePiece models."""
    source, target = checkpoint / "source.spm", checkpoint / "target.spm"
    try:
        return joint(_content_of(source), _content_of(target), pieces)
    except ValueError as error:
        raise NoModelError(
            f"At least one of {source} and {target.name} cannot be used: {error}. Download the "
            "model again."
        ) from None


def _content(
    settings: _Settings,
    checkpoint: Path,
    output: Path,
    languages: tuple[str | None, str | None],
    vocabulary_size: int,
) -> dict[str, Any]:
    """Returns the content of the imported model's configuration."""
    d_head = settings.d_model // settings.encoder_attention_heads
    return {
        "data": {
            "directory": f"{output}-data",
            "source_language": languages[0],
            "target_language": languages[1],
            "max_length": settings.max_position_embeddings,
            "train": [],
        },
        "tokenizer": {
            "vocabulary_size": vocabulary_size,
            "model": str(checkpoint / "source.spm"),
        },
        "model": {
            "encoder_layers": settings.encoder_layers,
            "decoder_layers": settings.decoder_layers,
            "d_model": settings.d_model,
            "d_ff": settings.encoder_ffn_dim,
            "heads": settings.encoder_attention_heads,
            "d_k": d_head,
            "d_v": d_head,
            "dropout": settings.dropout,
            "attention_dropout": settings.attention_dropout,
            "activation_dropout": settings.activation_dropout,
            "feed_forward": "relu" if settings.activation_function == "relu" else "swish",
            "output_bias": True,
        },
        "training": {"run_directory": f"{output}-run"},
        "decoding": {"beam": settings.num_beams},
    }


def _weights(path: Path, config: Config, size: int, rows: Tensor) -> dict[str, Tensor]:
    """Reads the weights and converts them to the names, channel order and token ids of nmt.

    Args:
        size: number of tokens in the checkpoint's vocabulary.
        rows: (V,) int64, the token id in the checkpoint for each token id of nmt.

    Raises:
        NoModelError: the file is missing or damaged, a tensor is missing, or a tensor has an
            unexpected shape or values that are not finite.
    """
    if not path.is_file():
        raise NoModelError(
            f"{path} does not exist. If the checkpoint contains pytorch_model.bin instead, load "
            "the checkpoint with MarianMTModel.from_pretrained, and save it with save_pretrained."
        )
    with torch.device("meta"):  # incorrect settings may need too much memory
        expected = named_weights(new_transformer(config))
    found: dict[str, Tensor] = {}
    try:
        with safe_open(path, "pt") as file:
            for name, weight in expected.items():
                stored = {*file.keys()}.intersection(_SHARED if name in _SHARED else [name])
                tensor = file.get_tensor(min(stored, default=name))
                if not tensor.is_floating_point():
                    raise ValueError(f"{name} contains values that are not floating-point numbers")
                theirs = tensor.float()
                if name in (*_SHARED, "final_logits_bias") and size in theirs.shape:
                    theirs = theirs.index_select(theirs.shape.index(size), rows)
                if theirs.shape != weight.shape or not theirs.isfinite().all():
                    raise ValueError(f"{name} has an unexpected shape or non-finite values")
                found[name] = theirs
    except (SafetensorError, ValueError) as error:
        raise NoModelError(
            f"{path} is damaged or does not match {HUGGINGFACE_CONFIG}: {error}. Download the "
            "model again."
        ) from None
    model = new_transformer(config).requires_grad_(False)
    for name, weight in named_weights(model).items():
        weight.copy_(found[name])
    assert model.output_bias is not None
    model.embedding[PAD_ID] = 0
    model.output_bias[PAD_ID] = _NEVER  # because Marian has only one of the tokens PAD and BOS
    order = channels(model.d_model).argsort()
    return dict(permuted(model, order).state_dict())
