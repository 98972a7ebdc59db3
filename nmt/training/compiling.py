"""torch.compile for training, layer by layer (`training.compile`).

All layers of a stack share their compiled code, so that compiling takes as long as for one of each.
Autograd sees one node a layer, so that DistributedDataParallel averages the gradients of the last
layers while those of the first are computed; the model is wrapped after its layers are compiled.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

import torch
from torch import nn

from nmt.model.transformer import Transformer

# The code of a layer is compiled for the first layer and for those after it, which find the bias of
# attention computed, for training and for the check of `fast_paths`, which drops nothing, and for
# each shape of slots (`layout.fixed_shape`); torch's own limit is 8.
_VERSIONS = 32


def compile_layers(transformer: Transformer, backend: str = "inductor") -> None:
    """Compiles each layer in place when it is first called; names of weights stay the same."""
    torch._dynamo.config.recompile_limit = _VERSIONS
    # or DistributedDataParallel's buckets would cut each layer into several graphs; what they gain
    # by that, to average gradients while others are computed, whole layers give already
    torch._dynamo.config.optimize_ddp = False
    for layer in _layers(transformer):
        layer.compile(backend=backend, dynamic=False)


def uncompile_layers(transformer: Transformer) -> None:
    """Undoes `compile_layers`, and frees the compiled code."""
    if is_compiled(transformer):
        for layer in _layers(transformer):
            layer._compiled_call_impl = None
        torch._dynamo.reset()


def is_compiled(transformer: Transformer) -> bool:
    """Returns whether `compile_layers` was called for the model."""
    return any(layer._compiled_call_impl is not None for layer in _layers(transformer))


def uncompiled(transformer: Transformer) -> AbstractContextManager[object]:
    """Runs layers uncompiled in the block, because each call has another shape there."""
    if not is_compiled(transformer):
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def _layers(transformer: Transformer) -> Iterator[nn.Module]:
    return chain(transformer.encoder, transformer.decoder)
