"""This project with packed sequences: rows contain several sentences, as in `nmt train`."""

from functools import partial

from nmt.data import layout
from nmt.training.loading import CPU_ROW
from recipes.speed.peers import nmt
from recipes.speed.plain_step import Step
from recipes.speed.workload import Shape

BY_LENGTH = False


def version() -> str:
    return f"{nmt.version()}, packed rows"


def training_step(shape: Shape, precision: str) -> Step:
    return nmt.training_step(
        shape, precision, partial(nmt.packed, shape=layout.Shape(CPU_ROW, CPU_ROW))
    )
