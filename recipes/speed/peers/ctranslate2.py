"""CTranslate2 with this project's weights; supports translation only."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import torch

from nmt.data.workers import run_apart
from nmt.export.ctranslate2 import write_ctranslate2
from nmt.runs.model_directory import new_transformer
from recipes.speed.peers.nmt import configuration
from recipes.speed.workload import Shape, Sources

# CTranslate2 does not support bf16 on a CPU
_COMPUTE_TYPES = {"fp32": "float32", "int8": "int8"}


def version() -> str:
    return f"CTranslate2 {ctranslate2.__version__}"


def translation(shape: Shape, precision: str) -> Callable[[Sources, int], list[int]]:
    """Returns a function that translates a batch, in one part per thread.

    On a CPU, this is faster than computing each operation with several threads.
    """
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        # in another process, because the peak memory of this process is measured
        run_apart(_convert, shape, Path(folder))
        translator = ctranslate2.Translator(
            folder,
            device="cpu",
            compute_type=_COMPUTE_TYPES[precision],
            inter_threads=threads,
            intra_threads=1,
        )
    torch.set_num_threads(threads)  # for the probe; CTranslate2 has set the number to 1

    def translate(batch: Sources, beam: int) -> list[int]:
        results = translator.translate_batch(
            _tokens(batch),
            max_batch_size=-(-len(batch.src) // threads),
            beam_size=beam,
            length_penalty=0.6 if beam > 1 else 1.0,
            min_decoding_length=batch.output_length,
            max_decoding_length=batch.output_length,
            max_input_length=0,
            disable_unk=True,
            suppress_sequences=[["<pad>"], ["<s>"]],
            return_scores=True,
        )
        return [len(result.hypotheses[0]) for result in results]

    return translate


def _convert(shape: Shape, folder: Path) -> None:
    """Converts the model with the same random weights as in `peers.nmt`."""
    transformer = new_transformer(configuration(shape, "fp32"))
    transformer.initialize(1)
    pieces = [
        "<pad>",
        "<s>",
        "</s>",
        "<unk>",
        *(f"w{number}" for number in range(4, shape.vocabulary)),
    ]
    write_ctranslate2(transformer, pieces, folder, "float32")


def _tokens(batch: Sources) -> list[list[str]]:
    """Returns sources without EOS, because CTranslate2 adds EOS itself."""
    return [
        [f"w{number}" for number in ids[: length - 1].tolist()]
        for ids, length in zip(batch.src, batch.src_lengths.tolist(), strict=True)
    ]
