"""This project as `nmt train` arranges sentences: of any length, several packed into a row."""

from nmt.data import layout
from nmt.training.train import _CPU_ROW
from recipes.speed.peers import nmt
from recipes.speed.plain_step import Step
from recipes.speed.workload import Batch, Shape

BY_LENGTH = False


def version() -> str:
    return f"{nmt.version()}, packed rows"


def training_step(shape: Shape, precision: str) -> Step:
    return nmt.training_step(shape, precision, packed)


def packed(batch: Batch) -> layout.Batch:
    """The same pairs, packed as while training."""
    sides = (batch.src, batch.src_lengths), (batch.tgt_out, batch.tgt_lengths)
    src, tgt = ([ids[:n].numpy() for ids, n in zip(*side, strict=True)] for side in sides)
    return layout.packed(list(zip(src, tgt, strict=True)), _CPU_ROW)
