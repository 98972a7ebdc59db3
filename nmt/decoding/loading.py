"""Loads models for translation on a device, and converts them to the chosen precision."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch

from nmt.errors import ArgumentError, Note
from nmt.model.devices import avoid_cudnn, is_gpu, supports_bf16
from nmt.model.kernels.prepacking import Precision, prepack
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import LoadedModel, load_model


def load_models(
    path: str | Path,
    device: str | None,
    precision: Precision | None,
    ensemble: Sequence[str | Path],
    shortlist: bool,
    note: Note,
) -> list[LoadedModel]:
    """Loads a single model or all models of an ensemble; see `Translator.load`."""
    chosen = choose_device(device)
    if shortlist and chosen.type != "cpu":
        raise ArgumentError(
            "{shortlist} is supported only on a CPU, but {device} is {}. Set {device} to cpu.",
            chosen,
        )
    is_bf16 = precision == "bf16" or (precision is None and is_gpu(chosen))
    if is_bf16 and not supports_bf16(chosen):
        note(
            f"nmt: warning: The precision is bf16, but {chosen} has no instructions for bf16. "
            "Translation can take 20 times as long as with fp32. Choose the precision fp32."
        )
    models: list[LoadedModel] = []
    for each in (path, *ensemble):
        model = load_model(Path(each), device=chosen, note=note)
        if models and model.tokenizer.sha256 != models[0].tokenizer.sha256:
            raise ArgumentError(
                "{} and the {ensemble} model {} have different vocabularies. Use models that were "
                "trained on the same prepared data.", path, each,
            )  # fmt: skip
        if shortlist and not models and not model.shortlist:
            raise ArgumentError(
                "Model {} has no shortlist. Remove {shortlist}, or set data.shortlist to true, "
                "prepare the data again and train a new model.", path,
            )  # fmt: skip
        set_precision(model.transformer, chosen, precision)
        models.append(model)
    return models


def set_precision(
    transformer: Transformer, device: torch.device, precision: Precision | None
) -> None:
    """Converts a model to the given precision; see `Translator.load`."""
    if precision is not None and precision not in get_args(Precision):
        raise ArgumentError(
            "{precision}: Unknown precision {}. Choose one of: {}.",
            precision,
            ", ".join(get_args(Precision)),
        )
    if device.type == "cpu":
        try:
            prepack(transformer, precision or "fp32")
        except ValueError:
            raise ArgumentError(
                "This build of torch does not support {precision} {}. Choose fp32 or bf16.",
                precision,
            ) from None
    elif precision == "int8":
        raise ArgumentError(
            "{precision} int8 is supported only on a CPU, but {device} is {}. Choose bf16 or fp32.",
            device,
        )
    elif precision != "fp32":
        transformer.to(torch.bfloat16)


def choose_device(name: str | None) -> torch.device:
    """Returns the device with the given name.

    If `name` is None, returns a GPU if one is available, and the CPU otherwise.

    Raises:
        ArgumentError: the device does not exist.
    """
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()  # "meta" tensors have no data
    except (
        RuntimeError, AssertionError, NotImplementedError, ModuleNotFoundError, TypeError
    ):  # fmt: skip
        here = ", ".join(["cpu", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))])
        raise ArgumentError(
            "{device} {} is not available on this machine. Choose one of: {}.", name, here
        ) from None
    if is_gpu(device):
        avoid_cudnn()
    return device
