"""The operations that a GPU rejects, and the operations for which the host waits.

Kernels for the CPU and for "meta" tensors accept some arguments that CUDA kernels reject. The rules
are those of ATen's CUDA kernels (torch 2.13), and the error messages are worded as in torch.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from recipes.speed.simulated.device import SimulatedGpu

aten = torch.ops.aten

# operations whose result shape, or a number that the host needs, depends on values
_READ_BY_THE_HOST = {
    "_local_scalar_dense", "_unique2", "equal", "is_nonzero", "masked_select", "nonzero",
    "unique_consecutive", "unique_dim",
}  # fmt: skip
# (name, argument positions): arguments that must have the same type
_OF_ONE_TYPE = {
    "addmm": (0, 1, 2), "baddbmm": (0, 1, 2), "bmm": (0, 1), "mm": (0, 1), "addbmm": (0, 1, 2),
    "gather": (0, "out"), "index_add": (0, 3), "index_add_": (0, 3), "index_copy": (0, 3),
    "index_copy_": (0, 3), "index_put": (0, 2), "index_put_": (0, 2), "index_select": (0, "out"),
    "masked_scatter_": (0, 2), "native_layer_norm": (0, 2, 3),
    "native_layer_norm_backward": (0, 1, 5, 6), "scatter": (0, 3), "scatter_": (0, 3),
    "scatter_add": (0, 3), "scatter_add_": (0, 3), "searchsorted": (0, 1),
    "_softmax": (0, "out"), "_log_softmax": (0, "out"),
}  # fmt: skip


def tensors_of(values: Iterable[Any]) -> list[Tensor]:
    """Returns the tensors in the arguments or results of an operation, including those in lists."""
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += tensors_of(value)
    return found


def check(func: Any, args: Any, kwargs: Any, on_cpu: Sequence[Tensor]) -> None:
    """Raises RuntimeError if a GPU would reject a call of `func` with these devices and types.

    Args:
        on_cpu: the arguments on the CPU. A tensor without dimensions (a number) is
            allowed, except in a list or as a keyword argument.
    """
    name = _name(func)
    far = [each for each in on_cpu if each.dim() or not any(each is one for one in args)]
    if far and not _copies_indices(name):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"cuda:0 and cpu! (in {func})"
        )
    places = _OF_ONE_TYPE.get(name, ())
    given = [kwargs.get(at) if isinstance(at, str) else _at(args, at) for at in places]
    _of_one_type(func, given)
    if name == "_fused_adam_":
        for of_parameter in zip(*args[:4], strict=True):
            _of_one_type(func, of_parameter)
        steps = [*args[5], kwargs.get("grad_scale"), kwargs.get("found_inf")]
        _of_one_type(func, [torch.empty((), dtype=torch.float32), *steps])


def waits(func: Any, args: Any, kwargs: Any) -> str | None:
    """Returns the reason why the host waits in `func`, or None if the host does not wait."""
    name = _name(func)
    if name in _READ_BY_THE_HOST:
        return name
    if name == "repeat_interleave" and kwargs.get("output_size") is None:
        return name
    if _copies_indices(name):
        indices = [index for index in args[1] if index is not None]
        if any(index.device.type == "cpu" for index in indices):
            return f"{name} with an index on the CPU"
        is_mask = any(index.dtype in (torch.bool, torch.uint8) for index in indices)
        if is_mask and not (name == "index_put_" and args[2].numel() == 1):  # masked_fill
            return f"{name} with a mask"
    return None


def attention_by(gpu: "SimulatedGpu", otherwise: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns a function that computes `F.scaled_dot_product_attention` with a bias as on a GPU.

    Of CUDA's fused kernels, only the memory-efficient kernel accepts a bias. This kernel does not
    store the attention weights. The rows of the bias must begin at multiples of 8 elements.
    """

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if query.device.type != "cuda":
            return otherwise(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
        _of_one_type("scaled_dot_product_attention", [query, key, value])
        bias = attn_mask
        if bias is not None and bias.dtype != torch.bool:
            _of_one_type("scaled_dot_product_attention", [query, bias])
        if gpu.has_values:
            return aten._scaled_dot_product_attention_math(
                query, key, value, bias, dropout_p, is_causal, None, scale=scale
            )[0]
        if bias is not None:
            missing = -bias.shape[-1] % 8
            if missing or bias.stride(-2) % 8:
                bias = F.pad(bias, (0, missing))[..., : bias.shape[-1]]
            bias = bias.expand(*query.shape[:-1], key.shape[-2])
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, True, dropout_p, is_causal, scale=scale
        )[0]

    return attention


def _name(func: Any) -> str:
    return func._schema.name.removeprefix("aten::")


def _at(args: Any, place: int) -> Any:
    return args[place] if place < len(args) else None


def _of_one_type(func: object, values: Any) -> None:
    types = [value.dtype for value in values if isinstance(value, Tensor)]
    if len(set(types)) > 1:
        found = ", ".join(str(each).removeprefix("torch.") for each in types)
        raise RuntimeError(f"{func}: expected tensors of the same dtype, but got {found}")


def _copies_indices(name: str) -> bool:
    """Returns whether an indexing operation itself copies its indices to the device."""
    return name in ("index", "index_put", "index_put_", "_unsafe_index", "_index_put_impl_")
