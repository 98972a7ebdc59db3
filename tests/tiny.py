"""A configuration small enough for tests, and a substitute for slow plots."""

from pathlib import Path
from typing import BinaryIO

from PIL import Image


def tiny_settings(directory: Path) -> dict:
    """Returns the content of a configuration file: 2 + 2 layers and a vocabulary of 400."""
    return {
        "data": {
            "directory": str(directory / "data"),
            "source_language": "en",
            "target_language": "de",
            "max_length": 60,
            "train": [{"demo": {"pairs": 200, "seed": 1}}],
            "validation": [{"demo": {"pairs": 6, "seed": 1}}],
            "test": [{"demo": {"pairs": 20, "seed": 1}}],
        },
        "tokenizer": {"vocabulary_size": 400},
        "model": {
            "encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "d_ff": 64,
            "heads": 2, "d_k": 12, "d_v": 20,
        },
        "training": {
            "run_directory": str(directory / "run"),
            "max_steps": 12, "batch_tokens": 400, "warmup_steps": 10, "checkpoint_every": 4,
            "keep_checkpoints": 3, "average_last": 2, "validate_every": 6, "log_every": 1,
            "deterministic": True,
        },
        "decoding": {"beam": 2, "max_extra_length": 10},
    }  # fmt: skip


def one_pixel(maps: object, output: BinaryIO) -> None:
    """Writes a PNG of one pixel instead of the heat maps that validations plot."""
    Image.new("RGB", (1, 1)).save(output, format="png")
