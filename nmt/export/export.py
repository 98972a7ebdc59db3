"""`nmt export`: a model as a directory of another program's format."""

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


def export(
    model: Path, output: Path, format: Format, quantization: Quantization | None, note: Note
) -> None:
    """Writes a model in another format, whole or not at all, after comparing it with ours.

    Args:
        model: a model, checkpoint or run directory.
        output: must not exist.
        quantization: of CTranslate2's weights; None: float32.
        note: is told which model of a run is used, and what the comparison has found.

    Raises:
        InputError: the format cannot express the model.
        ExportError: its translations differ from ours.
        ArgumentError: an extra is missing, `quantization` is not the format's, or `output` is
            among a run's own files.
        NoModelError: no sound model.
    """
    refuse_output(output)
    if quantization and format != "ctranslate2":
        raise ArgumentError("only for ctranslate2, {quantization} {}, leave it out", quantization)
    _refuse_missing(format)
    loaded = load_model(model, device=torch.device("cpu"), note=note)
    translator = Translator(
        loaded.transformer, loaded.tokenizer, loaded.config, loaded.target_symbols
    )
    with new_directory(output) as folder:
        if format == "ctranslate2":
            found = export_ctranslate2(translator, folder, quantization or "float32")
        else:
            from nmt.export.huggingface import export_huggingface  # needs the extra

            found = export_huggingface(translator, folder, loaded)
        note(f"{format}: {found}")


def _refuse_missing(format: Format) -> None:
    try:
        if format == "ctranslate2":
            import ctranslate2  # noqa: F401
        else:
            import transformers  # noqa: F401
    except ImportError:
        package = {"ctranslate2": "ctranslate2", "huggingface": "transformers"}[format]
        raise ArgumentError(
            "{} is not installed, {format} {}, pip install 'nmt[{}]'", package, format, format
        ) from None
