"""Exports post-norm models to `transformers` as Marian models, and pre-norm models as Pegasus."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.config import Config
from nmt.decoding.beam_search import NEVER_GENERATED
from nmt.errors import ExportError, InputError
from nmt.export.check import compare, samples_of
from nmt.export.expressible import refuse_inexpressible
from nmt.export.marian_weights import POSITIONS, channels, named_weights, permuted
from nmt.export.model_card import model_card
from nmt.export.tokenizer_json import tokenizer_json
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import LoadedModel, write_tensors
from nmt.storage.names import GENERATION_CONFIG, HUGGINGFACE_CONFIG, WEIGHTS
from nmt.translator import Translator

_ANY: dict[str, Collection[Any] | None] = dict.fromkeys(
    ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "dropout",
     "attention_dropout", "activation_dropout")
)  # fmt: skip
_SPECIAL = ("pad_token", "bos_token", "eos_token", "unk_token")


def _refuse_inexpressible(config: Config) -> None:
    """Raises InputError if transformers does not support one of the model's settings."""
    model = config.model
    size = (model.d_model // model.heads,)
    # Marian does not save learned positions
    positions = ("sinusoidal",) if model.norm == "post" else ("sinusoidal", "learned")
    expressed = _ANY | {
        "d_k": size, "d_v": size, "positions": positions, "norm": ("post", "pre"),
        "feed_forward": ("relu", "swish"), "output_bias": (False, True),
    }  # fmt: skip
    refuse_inexpressible(config, expressed, "transformers")


def settings_of(config: Config) -> dict[str, Any]:
    """Returns the content of config.json, with all values that can differ from the defaults."""
    model, is_post = config.model, config.model.norm == "post"
    learned = model.positions == "learned"
    return {
        "architectures": ["MarianMTModel" if is_post else "PegasusForConditionalGeneration"],
        "model_type": "marian" if is_post else "pegasus",
        "vocab_size": config.tokenizer.vocabulary_size,
        "d_model": model.d_model,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "encoder_attention_heads": model.heads,
        "decoder_attention_heads": model.heads,
        "encoder_ffn_dim": model.d_ff,
        "decoder_ffn_dim": model.d_ff,
        "activation_function": model.feed_forward,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "max_position_embeddings": config.data.max_length if learned else POSITIONS,
        **_special_ids(),
        "torch_dtype": "float32",
    }


def generation_settings(config: Config) -> dict[str, Any]:
    """Returns the content of generation_config.json, which contains the beam search settings."""
    longest = config.data.max_length
    if config.model.positions != "learned":  # a learned embedding exists for each position only
        longest += config.decoding.max_extra_length
    return _special_ids() | {
        "num_beams": config.decoding.beam,
        "length_penalty": config.decoding.length_penalty,  # transformers has a different formula
        "early_stopping": "never",
        "max_length": longest,
        "suppress_tokens": NEVER_GENERATED,
    }


def _special_ids() -> dict[str, Any]:
    return {
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "pad_token_id": PAD_ID,
        "decoder_start_token_id": BOS_ID,
        "forced_eos_token_id": None,
    }


def weights_of(transformer: Transformer) -> dict[str, Tensor]:
    """Returns the tensors to store in model.safetensors, by name."""
    model = permuted(transformer, channels(transformer.d_model))
    weights = {"final_logits_bias": model.embedding.new_zeros(1, len(model.embedding))}
    weights |= named_weights(model)
    return {name: tensor.detach().clone() for name, tensor in weights.items()}


def export_huggingface(translator: Translator, folder: Path, model: LoadedModel) -> str:
    """Writes a model card and the files that `AutoModelForSeq2SeqLM` and `AutoTokenizer` load.

    Args:
        translator: the original model in fp32 on a CPU, without prepacked weights.
        folder: an existing, empty directory for the exported files.
        model: the loaded model from which `translator` was created.

    Returns:
        A message with the result of the comparison with the original model.

    Raises:
        InputError: transformers does not support the model's tokenizer or one of its settings.
        ExportError: the exported model or its tokenizer differs from the original.
    """
    config, tokenizer = model.config, model.tokenizer
    _refuse_inexpressible(config)
    if config.tokenizer.model is not None:
        raise InputError(
            f"The model's tokenizer, {config.tokenizer.model} (tokenizer.model), normalizes text "
            "in a way that the export to transformers does not support. Export to ctranslate2 "
            "instead."
        )
    ids_and_texts = tokenizer_json(tokenizer).to_str(pretty=True)  # `save` does not raise OSError
    (folder / "tokenizer.json").write_text(ids_and_texts, encoding="utf-8")
    contents = {
        HUGGINGFACE_CONFIG: settings_of(config),
        GENERATION_CONFIG: generation_settings(config),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **dict(zip(_SPECIAL, tokenizer.pieces([PAD_ID, BOS_ID, EOS_ID, UNK_ID]), strict=True)),
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": config.data.max_length,
            "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,
        },
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    weights = weights_of(model.transformer)
    write_tensors(folder / WEIGHTS, weights, {"format": "pt"})
    (folder / "README.md").write_text(model_card(model), encoding="utf-8")
    return _check(translator, folder)


def _check(translator: Translator, folder: Path) -> str:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
    from transformers.utils import logging

    had_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # hides the bar "Loading weights"
    theirs = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    if had_bar:
        logging.enable_progress_bar()
    tokenizer, samples = AutoTokenizer.from_pretrained(folder), samples_of(translator)
    translations, logs = [], []
    for sample in samples:
        source = tokenizer(sample.text, return_tensors="pt").input_ids
        if source[0].tolist() != [*sample.source, EOS_ID]:
            raise ExportError(
                f"tokenizer.json tokenizes {sample.text!r:.60} differently from nmt. Nothing was "
                "exported. Install another version of the tokenizers package."
            )
        found = theirs.generate(source, num_beams=1, max_length=1 + sample.limit)[0, 1:]
        translations.append([token for token in found.tolist() if token != EOS_ID])
        labels = torch.tensor([sample.tokens])
        read = torch.cat((labels.new_full((1, 1), BOS_ID), labels[:, :-1]), 1)
        with torch.inference_mode():
            scores = theirs(input_ids=source, decoder_input_ids=read).logits.log_softmax(-1)
        logs.append(scores[0].gather(1, labels[0, :, None])[:, 0].tolist())
    return compare(samples, translations, logs, "huggingface")
