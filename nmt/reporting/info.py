"""Computes a configuration's size, training cost, learning rate and differences from the paper."""

from typing import Any

import torch

from nmt.benchmark.flops import flops_per_token_pair
from nmt.config import Config
from nmt.reporting.paper_models import besides, differences_from_paper
from nmt.runs.model_directory import new_transformer
from nmt.training.health import rate_warnings
from nmt.training.optimizers import optimizer_flops
from nmt.training.schedule import learning_rate, peak_step

LENGTH = 27  # mean number of tokens per WMT14 sentence, for the FLOPs of attention


def info(config: Config) -> dict[str, Any]:
    """Returns the properties of a configuration as a JSON object.

    The properties are the number of parameters, the training FLOPs, the learning rate, and the
    differences from the paper.
    """
    with torch.device("meta"):
        transformer = new_transformer(config)
    parts: dict[str, int] = {}
    for name, parameter in transformer.named_parameters():
        part = name.split(".")[0].removesuffix("_norm")
        parts[part] = parts.get(part, 0) + parameter.numel()
    settings = config.training
    per_pair = flops_per_token_pair(config.model, config.tokenizer.vocabulary_size, LENGTH)
    of_optimizer = optimizer_flops(transformer, config)
    name, differing = differences_from_paper(config)
    return {
        "vocabulary_size": config.tokenizer.vocabulary_size,
        "parameters": {"total": sum(parts.values())} | parts,
        "flops": {
            "per_token_pair": per_pair,
            "optimizer_per_step": of_optimizer,
            "training": (per_pair * settings.batch_tokens + of_optimizer) * settings.max_steps,
        },
        "learning_rate": {
            "peak": learning_rate(config, peak_step(config)),
            "peak_step": peak_step(config),
            "warmup_steps": settings.warmup_steps,
            "warnings": rate_warnings(config),
        },
        "paper": {"nearest": name, "differences": differing, "besides": besides(config)},
    }


def as_text(content: dict[str, Any]) -> str:
    """Formats the result of `info` as text."""
    parameters, flops, paper = content["parameters"], content["flops"], content["paper"]
    rate = content["learning_rate"]
    lines = [f"vocabulary       {content['vocabulary_size']:>15,}", "parameters"]
    lines += [f"  {part:<15}{count:>15,}" for part, count in parameters.items() if part != "total"]
    lines += [
        f"  {'total':<15}{parameters['total']:>15,}",
        f"training FLOPs   {flops['per_token_pair']:>15,}  for one source token and one target "
        f"token, in sentences of {LENGTH} tokens",
        f"                 {flops['training']:>15.2e}  for a whole run with full batches",
        f"learning rate    {rate['peak']:>15.3e}  peak, at step {rate['peak_step']:,}",
    ]
    if rate["peak_step"] < rate["warmup_steps"]:
        lines[-1] += f", the last step; the warm-up would end at step {rate['warmup_steps']:,}"
    lines += [f"  warning: {warning}" for warning in rate["warnings"]]
    if paper["differences"]:
        lines.append(f"differs from the paper's {paper['nearest']} model in")
    else:
        lines.append(f"settings         those of the paper's {paper['nearest']} model")
    for key, values in paper["differences"].items():
        lines.append(f"  {key:<32}{values['ours']!s:>10}   paper: {values['paper']}")
    lines.append("other differences from the paper")
    lines += [f"  {text}" for text in paper["besides"]]
    return "\n".join(lines)
