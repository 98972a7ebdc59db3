"""Compiles the model's layers with torch.compile for training (`training.compile`).

All layers of a stack share their compiled code, so compiling a model takes only as long as
compiling one encoder layer and one decoder layer. Each compiled layer is one node of the autograd
graph, so DistributedDataParallel averages the gradients of the last layers while the gradients of
the first layers are still being computed.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

import torch
from torch import nn

from nmt.model.transformer import Transformer

# Separate versions of a layer are compiled for the first layer and for the later layers of a stack
# (only the first layer computes the attention bias), for two probabilities of dropout (see
# `fast_paths`), and for each shape of micro-batches (`layout.fixed_shape`). By default, torch
# allows 8 versions.
_VERSIONS = 32


def compile_layers(transformer: Transformer, backend: str = "inductor") -> None:
    """Makes torch compile each layer when it is first called.

    Compilation does not change the names of parameters.
    """
    torch._dynamo.config.recompile_limit = _VERSIONS
    # Otherwise torch would split the graphs of layers at the bucket boundaries of
    # DistributedDataParallel. Communication overlaps with the backward pass even without the split.
    torch._dynamo.config.optimize_ddp = False
    for layer in _layers(transformer):
        layer.compile(backend=backend, dynamic=False)


def uncompile_layers(transformer: Transformer) -> None:
    """Undoes the effect of `compile_layers`, and frees the compiled code."""
    if is_compiled(transformer):
        for layer in _layers(transformer):
            layer._compiled_call_impl = None
        torch._dynamo.reset()


def is_compiled(transformer: Transformer) -> bool:
    """Returns whether `compile_layers` was called for the model."""
    return any(layer._compiled_call_impl is not None for layer in _layers(transformer))


def uncompiled(transformer: Transformer) -> AbstractContextManager[object]:
    """Returns a context manager that disables the compiled layers.

    Use it for code whose input shapes vary between calls, because each new shape would otherwise be
    compiled separately.
    """
    if not is_compiled(transformer):
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def _layers(transformer: Transformer) -> Iterator[nn.Module]:
    return chain(transformer.encoder, transformer.decoder)
