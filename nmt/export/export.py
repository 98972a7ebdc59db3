"""Implements `nmt export`, which converts a model to the format of another program."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch

from nmt.errors import ArgumentError, Note
from nmt.export.ctranslate2 import Quantization, export_ctranslate2
from nmt.runs.model_directory import load_model
from nmt.runs.run_directory import refuse_output
from nmt.storage.atomic import new_directory
from nmt.translator import Translator

Format = Literal["ctranslate2", "huggingface"]

_PACKAGES: dict[Format, str] = {"ctranslate2": "ctranslate2", "huggingface": "transformers"}


def export(
    model: Path, output: Path, format: Format, quantization: Quantization | None, note: Note
) -> None:
    """Converts a model to another format and compares the result with the original.

    The output directory is created atomically, and only if the comparison succeeds.

    Args:
        model: path of a model, checkpoint or run directory.
        output: the output directory, which must be empty or must not exist yet.
        quantization: data type of the weights in CTranslate2, or None for float32.
        note: function that is called with two messages. The first message names the model, and the
            second message states the output directory and the result of the comparison.

    Raises:
        InputError: the format does not support the model's tokenizer or one of its settings.
        ExportError: the exported model's translations differ from the original model's
            translations.
        ArgumentError: the format does not support `quantization`, or `output` belongs to a run.
        ModuleNotFoundError: the format's package is not installed.
        NoModelError: there is no usable model at `model`.
    """
    refuse_output(output)
    if quantization and format != "ctranslate2":
        raise ArgumentError(
            "{quantization} {} is supported only for the ctranslate2 format. Use that format, or "
            "remove {quantization}.",
            quantization,
        )
    if find_spec(package := _PACKAGES[format]) is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    loaded = load_model(model, device=torch.device("cpu"), note=note)
    translator = Translator.of(
        loaded.transformer, loaded.tokenizer, loaded.config, loaded.target_symbols
    )
    with new_directory(output) as folder:
        if format == "ctranslate2":
            found = export_ctranslate2(translator, folder, loaded, quantization or "float32")
        else:
            from nmt.export.huggingface import export_huggingface  # requires an extra

            found = export_huggingface(translator, folder, loaded)
    kind = f"{format}, {quantization}" if quantization else format
    note(f"Wrote {output} ({kind}). {found}")
