"""What a configuration amounts to: parameters, FLOPs, learning rate, and the paper beside it."""

from typing import Any

import torch

from nmt.config import Config, Model
from nmt.runs.model_directory import new_transformer
from nmt.training.health import rate_warning
from nmt.training.schedule import peak_learning_rate

LENGTH = 27  # tokens a sentence at which attention's FLOPs are counted; WMT14's mean

# Vaswani et al. (2017), §5 and Table 3, EN-DE, whose vocabulary is of "about 37000" pieces;
# averaging by steps is §6.1's ten minutes at their speed, precision that of footnote 5
PAPER_BASE: dict[str, Any] = {
    "model.encoder_layers": 6, "model.decoder_layers": 6, "model.d_model": 512,
    "model.d_ff": 2048, "model.heads": 8, "model.d_k": 64, "model.d_v": 64,
    "model.dropout": 0.1, "model.attention_dropout": 0.0, "model.activation_dropout": 0.0,
    "model.positions": "sinusoidal", "model.norm": "post", "model.attention_window": None,
    "tokenizer.vocabulary_size": 37_000, "tokenizer.bpe_dropout": 0.0,
    "training.max_steps": 100_000, "training.batch_tokens": 25_000,
    "training.warmup_steps": 4000, "training.learning_rate_factor": 1.0,
    "training.label_smoothing": 0.1, "training.gradient_clip": None,
    "training.average_last": 5, "training.checkpoint_every": 1500, "training.precision": "fp32",
    "decoding.beam": 4, "decoding.length_penalty": 0.6, "decoding.max_extra_length": 50,
}  # fmt: skip
PAPER_BIG: dict[str, Any] = PAPER_BASE | {
    "model.d_model": 1024, "model.d_ff": 4096, "model.heads": 16, "model.dropout": 0.3,
    "training.max_steps": 300_000, "training.average_last": 20, "training.checkpoint_every": 600,
}  # fmt: skip
# EN-FR has other pieces (§5.1), and its big model less dropout (§6.1)
_EN_FR_BASE = PAPER_BASE | {"tokenizer.vocabulary_size": 32_000}
_EN_FR_BIG = PAPER_BIG | {"tokenizer.vocabulary_size": 32_000, "model.dropout": 0.1}


def info(config: Config) -> dict[str, Any]:
    """The figures of a configuration for programs; see the README for the keys."""
    with torch.device("meta"):
        transformer = new_transformer(config)
    parts: dict[str, int] = {}
    for name, parameter in transformer.named_parameters():
        part = name.split(".")[0].removesuffix("_norm")
        parts[part] = parts.get(part, 0) + parameter.numel()
    settings = config.training
    factor = settings.learning_rate_factor
    per_pair = flops_per_token_pair(config.model, config.tokenizer.vocabulary_size)
    name, differing = differences_from_paper(config)
    return {
        "vocabulary_size": config.tokenizer.vocabulary_size,
        "parameters": {"total": sum(parts.values())} | parts,
        "flops": {
            "per_token_pair": per_pair,
            "training": per_pair * settings.batch_tokens * settings.max_steps,
        },
        "learning_rate": {
            "peak": peak_learning_rate(
                config.model.d_model, settings.warmup_steps, factor, settings.max_steps
            ),
            "peak_step": min(settings.warmup_steps, settings.max_steps),
            "warmup_steps": settings.warmup_steps,
            "warning": rate_warning(config),
        },
        "paper": {"nearest": name, "differences": differing},
    }


def flops_per_token_pair(model: Model, vocabulary_size: int, length: int = LENGTH) -> int:
    """FLOPs to train on one source and one target token: three times those of the forward pass.

    A multiply-add counts as two; norms, softmax and embedding look-ups are left out.

    Args:
        length: tokens a sentence, for attention, whose cost grows with it.
    """
    d, h = model.d_model, model.heads
    self_attention = d * h * (2 * model.d_k + model.d_v) + h * model.d_v * d
    feed_forward = 2 * d * model.d_ff
    looking = length * h * (model.d_k + model.d_v)  # scores, and the weighted sum of values
    encoder_layer = self_attention + feed_forward + looking
    cross_memory = d * h * (model.d_k + model.d_v)
    cross_attention = d * h * model.d_k + h * model.d_v * d + looking
    decoder_layer = self_attention + looking + cross_attention + cross_memory + feed_forward
    multiply_adds = (
        model.encoder_layers * encoder_layer
        + model.decoder_layers * decoder_layer
        + vocabulary_size * d
    )
    return 3 * 2 * multiply_adds


def differences_from_paper(config: Config) -> tuple[str, dict[str, dict[str, Any]]]:
    """The nearer of "base" and "big", and by dotted key where the configuration departs from it.

    The paper's models are those of EN-FR for that pair, and of EN-DE for every other.
    """
    is_en_fr = (config.data.source_language, config.data.target_language) == ("en", "fr")
    base, big = (_EN_FR_BASE, _EN_FR_BIG) if is_en_fr else (PAPER_BASE, PAPER_BIG)
    found = []
    for name, paper in (("base", base), ("big", big)):
        differing = {}
        for key, value in paper.items():
            section, setting = key.split(".")
            ours = getattr(getattr(config, section), setting)
            if ours != value:
                differing[key] = {"ours": ours, "paper": value}
        found.append((name, differing))
    return min(found, key=lambda entry: len(entry[1]))


def as_text(content: dict[str, Any]) -> str:
    """`info` for a person to read."""
    parameters, flops, paper = content["parameters"], content["flops"], content["paper"]
    rate = content["learning_rate"]
    lines = [f"vocabulary       {content['vocabulary_size']:>15,}", "parameters"]
    lines += [f"  {part:<15}{count:>15,}" for part, count in parameters.items() if part != "total"]
    lines += [
        f"  {'total':<15}{parameters['total']:>15,}",
        f"FLOPs            {flops['per_token_pair']:>15,}  to train on one source and one target "
        f"token (length {LENGTH})",
        f"                 {flops['training']:>15.2e}  in the whole run at most",
        f"learning rate    {rate['peak']:>15.3e}  at its peak, step {rate['peak_step']:,}",
    ]
    if rate["peak_step"] < rate["warmup_steps"]:
        lines[-1] += f", the last; the warm-up of {rate['warmup_steps']:,} would take it higher"
    if rate["warning"]:
        lines.append(f"  warning: {rate['warning']}")
    if not paper["differences"]:
        return "\n".join([*lines, f"settings         as the paper's {paper['nearest']} model"])
    lines.append(f"differs from the paper's {paper['nearest']} model in")
    for key, values in paper["differences"].items():
        lines.append(f"  {key:<32}{values['ours']!s:>10}   paper: {values['paper']}")
    return "\n".join(lines)
