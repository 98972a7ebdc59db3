"""This project: the step of `nmt train` and the search of `nmt translate`."""

from collections.abc import Callable
from pathlib import Path

import torch

import nmt
from nmt.benchmark.translating import random_transformer
from nmt.config import Config, load
from nmt.cpu_memory import keep_freed_memory
from nmt.data import layout
from nmt.data.pair import Pair
from nmt.decoding.beam_search import search
from nmt.decoding.constraints import Without
from nmt.model.stepper import Stepper
from nmt.model.tokens import Tokens
from nmt.runs.model_directory import new_transformer
from nmt.training.distributed import Ranks
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer
from nmt.training.step import optimizer_step
from recipes.speed.plain_step import Step
from recipes.speed.workload import EOS, Batch, Shape, Sources

CONFIG = Path(__file__).parents[3] / "configs" / "transformer_base.yaml"

CPU = torch.device("cpu")


def version() -> str:
    return f"nmt {nmt.__version__}"


def training_step(
    shape: Shape, precision: str, of_batch: Callable[[Batch], layout.Batch] | None = None
) -> Step:
    """Returns a function that runs a training step, including schedule, finite check and Adam."""
    of_batch = of_batch or one_per_row
    keep_freed_memory()
    config = configuration(shape, precision)
    transformer = new_transformer(config)
    transformer.initialize(1)
    module = TransformerLoss(transformer.train(), config.training.label_smoothing)
    optimizer = new_optimizer(module, config)
    ranks = Ranks(0, 1, torch.device("cpu"))
    number = 0

    def step(batch: Batch) -> float:
        nonlocal number
        number += 1
        micro_batches = [(0, of_batch(batch))]
        result = optimizer_step(
            module, module, optimizer, micro_batches, number, batch.target_tokens, config, ranks
        )
        return result.loss

    return step


def translation(shape: Shape, precision: str) -> Callable[[Sources, int], list[int]]:
    """Returns a function that translates with the same random weights as the other system."""
    keep_freed_memory()
    transformer = random_transformer(configuration(shape, "fp32"), "cpu", precision)

    def translate(batch: Sources, beam: int) -> list[int]:
        length = batch.output_length
        with torch.inference_mode():
            steps = Without(Stepper(transformer, batch.src, beam, length), [EOS])
            found = search(steps, [length] * len(batch.src), beam=beam, alpha=0.6)
        return [len(hypotheses[0].tokens) for hypotheses in found]

    return translate


def configuration(shape: Shape, precision: str) -> Config:
    """Returns the paper's base model with the workload's shape."""
    d_k = shape.d_model // shape.heads
    return load(
        CONFIG,
        [
            f"tokenizer.vocabulary_size={shape.vocabulary}",
            f"model.encoder_layers={shape.layers}",
            f"model.decoder_layers={shape.layers}",
            f"model.d_model={shape.d_model}",
            f"model.d_ff={shape.d_ff}",
            f"model.heads={shape.heads}",
            f"model.d_k={d_k}",
            f"model.d_v={d_k}",
            f"model.dropout={shape.dropout}",
            f"training.precision={precision}",
        ],
    )


def one_per_row(batch: Batch) -> layout.Batch:
    """Returns a batch with one pair per row, as in the workload."""
    return layout.Batch(Tokens.of_rows(batch.src), Tokens.of_rows(batch.tgt_in), batch.tgt_out)


def packed(batch: Batch, shape: layout.Shape, device: torch.device = CPU) -> layout.Batch:
    """Returns a batch with the same pairs, several per row."""
    sides = (batch.src, batch.src_lengths), (batch.tgt_out, batch.tgt_lengths)
    src, tgt = ([ids[:n].numpy() for ids, n in zip(*side, strict=True)] for side in sides)
    pairs = list(map(Pair, src, tgt))
    return layout.pack(pairs, shape, is_pinned=device.type == "cuda").to(device)
