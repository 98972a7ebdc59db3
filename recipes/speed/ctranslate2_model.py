"""Converts an nmt model to CTranslate2, with the same weights.

    python -m recipes.speed.ctranslate2_model MODEL FOLDER

This script converts the model directory MODEL and its tokenizer, and writes them to FOLDER. The
package `ctranslate2` must be installed. If MODEL is `random`, the script converts the model of the
workload with its initial weights.

Unlike `nmt export`, this script does not check the translations of the converted model, because the
script runs in every visit.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import torch

from nmt.export.ctranslate2 import write_ctranslate2
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import load_model, new_transformer
from nmt.storage.names import TOKENIZER
from recipes.speed.peers.nmt import configuration
from recipes.speed.workload import BASE, SMALL, Shape

_SPECIAL = "<pad>", "<s>", "</s>", "<unk>"


def main(argv: Sequence[str] | None = None) -> None:
    """Converts the model named in `argv`."""
    parser = argparse.ArgumentParser(description="Converts an nmt model to CTranslate2.")
    parser.add_argument("model", help="model directory, run directory, random or small")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args(argv)
    shape = {"random": BASE, "small": SMALL}.get(arguments.model)
    if shape:
        convert_random(shape, arguments.folder)
    else:
        convert_directory(Path(arguments.model), arguments.folder)


def convert_random(shape: Shape, folder: Path) -> None:
    """Converts the model with the same random weights as in `peers.nmt`."""
    transformer = new_transformer(configuration(shape, "fp32"))
    transformer.initialize(1)
    pieces = [*_SPECIAL, *(f"w{number}" for number in range(len(_SPECIAL), shape.vocabulary))]
    write(transformer, pieces, folder)


def convert_directory(model: Path, folder: Path) -> None:
    """Converts a model directory and its tokenizer."""
    loaded = load_model(model, device=torch.device("cpu"))
    pieces = loaded.tokenizer.pieces(range(loaded.tokenizer.vocabulary_size))
    write(loaded.transformer, pieces, folder)
    (folder / TOKENIZER).write_bytes(loaded.tokenizer.model)


def write(transformer: Transformer, pieces: Sequence[str], folder: Path) -> None:
    """Writes a model into a directory, which is created if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    write_ctranslate2(transformer, pieces, folder, "float32")


if __name__ == "__main__":
    print(f"CTranslate2 {ctranslate2.__version__}")
    main()
