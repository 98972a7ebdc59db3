"""torch.compile for training, layer by layer (`training.compile`).

All layers of a stack share their compiled code, so that compiling takes only as long as for one
encoder layer and one decoder layer. Each layer is one node of the autograd graph, so that
DistributedDataParallel averages the gradients of the last layers while the gradients of the first
layers are still being computed. Layers must be compiled before the model is wrapped in
DistributedDataParallel.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

import torch
from torch import nn

from nmt.model.transformer import Transformer

# A layer is compiled once for each combination of: first or later layer (the attention bias is
# already computed for later layers), with dropout or without (in `fast_paths`), and shape of
# micro-batches (`layout.fixed_shape`). torch's default limit is 8.
_VERSIONS = 32


def compile_layers(transformer: Transformer, backend: str = "inductor") -> None:
    """Compiles each layer in place when it is first called; names of weights do not change."""
    torch._dynamo.config.recompile_limit = _VERSIONS
    # Otherwise the buckets of DistributedDataParallel would split each layer into several graphs.
    # Gradients are averaged while others are computed even without that split.
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
    """Runs layers uncompiled in the block, because each call there has another shape."""
    if not is_compiled(transformer):
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def _layers(transformer: Transformer) -> Iterator[nn.Module]:
    return chain(transformer.encoder, transformer.decoder)
