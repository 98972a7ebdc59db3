"""Simulates a GPU on a CPU: tensors are on "cuda:0", and the cost of operations is logged.

The behavior of a program on a GPU depends on `tensor.device`, on autocast's rules for CUDA, and on
the time at which a copy is complete. This module simulates all three of these.

Inside the block of a `SimulatedGpu`, tensors on "cuda:0" have their values in CPU memory. Tensors
can also have no values ("meta"), so that a step of the big model takes seconds and no memory. The
block

* rejects operations that a GPU rejects because of the devices or types of their tensors (`rules`);
* logs where the host waits for the device: blocking copies, `.item()`, indexing by a mask;
* delays non-blocking copies to the host: the values of a copy are garbage until the program waits
  for an event that it has recorded after the copy;
* counts kernels, and the bytes of live tensors, rounded up to multiples of 512 as in torch's
  allocator.

Every ATen operation other than a view counts as one kernel, as in eager mode. The update by a fused
optimizer also counts as one kernel. Streams, several devices, NCCL, CUDA graphs and compiled code
are not simulated.
"""

import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch._dynamo  # reads `torch.cuda`; must not be imported inside the block
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import TorchDispatchMode

import nmt
from recipes.speed.simulated import rules

DEVICE = torch.device("cuda", 0)
_GARBAGE = 0x7F  # value of each byte before its copy is complete
_ROUNDED_TO = 512  # bytes, to whose multiples sizes are rounded up
_MEMORY = 80 << 30  # bytes of GPU memory
_PROGRAM = str(Path(nmt.__file__).parent) + os.sep
aten = torch.ops.aten


class GpuTensor(Tensor):
    """A tensor on the simulated GPU; `inner` is a tensor on the CPU or on "meta"."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "GpuTensor":
        made = Tensor._make_subclass(
            cls, inner, dispatch_device=True, device_for_backend_keys=DEVICE
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.prim.device.default:
            return DEVICE
        raise RuntimeError(f"{func} was called outside the block of the simulated GPU.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied
        return copied

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __repr__(self, **_: Any) -> str:
        return f"GpuTensor({tuple(self.shape)}, {self.dtype})"


@dataclass(frozen=True)
class Wait:
    """A point at which the host waited for the device."""

    what: str  # description of the operation
    place: str  # file:line of the program
    callers: tuple[str, ...]  # names of the functions on the stack, innermost first
    is_explicit: bool = False  # whether the program waited for an event or stream

    def __str__(self) -> str:
        return f"{self.place} {self.what}"


class SimulatedGpu(TorchDispatchMode):
    """A context manager that simulates a GPU in its block.

    Attributes:
        waits: points at which the host waited for the device, in order.
        kernels: number of kernels by operation.
        bytes, peak: current and maximum bytes of tensors on the device.
    """

    def __init__(self, *, has_values: bool):
        """If `has_values` is False, no values are computed, and the host reads zeros."""
        super().__init__()
        self.has_values, self.host = has_values, torch.device("cpu" if has_values else "meta")
        self.waits: list[Wait] = []
        self.kernels: Counter[str] = Counter()
        self.bytes = self.peak = 0
        self._storages: dict[int, weakref.ref] = {}
        self._copies: list[tuple[Tensor, Tensor]] = []  # pending copies to the host
        self._issued = 0  # number of copies to the host so far
        self._stack = ExitStack()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing in the block is compiled, and checking this takes time

    def __enter__(self):
        self._stack.enter_context(_cuda(self))
        self._stack.enter_context(self._on())
        return self

    def __exit__(self, *error):
        self._stack.close()

    @contextmanager
    def _on(self) -> Iterator[None]:
        super().__enter__()
        try:
            yield
        finally:
            super().__exit__(None, None, None)

    def restart(self) -> None:
        """Resets the counts, and sets the peak to the bytes of the live tensors."""
        self.waits, self.kernels, self.peak = [], Counter(), self.bytes

    @property
    def implicit_waits(self) -> list[Wait]:
        """Returns the waits that were not requested by an event or a stream."""
        return [wait for wait in self.waits if not wait.is_explicit]

    def wait(self, what: str, copies: int | None = None, *, is_explicit: bool = False) -> None:
        """Logs a wait for `copies` copies of the device, or for all copies if `copies` is None."""
        self.waits.append(Wait(what, *_caller(), is_explicit))
        done = len(self._copies) - self._issued + (self._issued if copies is None else copies)
        for there, values in self._copies[: max(0, done)]:
            there.copy_(values)
        del self._copies[: max(0, done)]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.prim.device.default:
            return DEVICE
        kwargs = kwargs or {}
        tensors = rules.tensors_of((*args, *kwargs.values()))
        target = kwargs.get("device")
        to_here = target is not None and torch.device(target).type == "cuda"
        if not (to_here or any(type(each) is GpuTensor for each in tensors)):
            return func(*args, **kwargs)
        if _is_composite(func):  # inference mode does not decompose these operations earlier
            with self._on():
                return func.decompose(*args, **kwargs)
        if func is aten._to_copy.default or func is aten.copy_.default:
            return self._copied(func, args, kwargs)
        rules.check(func, args, kwargs, [each for each in tensors if type(each) is not GpuTensor])
        if what := rules.waits(func, args, kwargs):
            self.wait(what)
        if func is aten._local_scalar_dense.default and not self.has_values:
            return torch.zeros((), dtype=args[0].dtype).item()
        return self._computed(func, args, kwargs)

    def _computed(self, func, args, kwargs) -> Any:
        """Calls an operation on the inner tensors, and puts the results on the device."""
        outer: dict[int, Tensor] = {}

        def inner(tensor: Tensor) -> Tensor:
            if type(tensor) is GpuTensor:
                outer[id(tensor.inner)] = tensor
                return tensor.inner
            return tensor if self.has_values else tensor.to(self.host)

        args, kwargs = _mapped(inner, args), _mapped(inner, kwargs)
        if kwargs.get("device") is not None:
            kwargs["device"] = self.host
        found = func(*args, **kwargs)
        self._count(func, args, found)
        return _mapped(
            lambda each: outer[id(each)] if id(each) in outer else self._new(each), found
        )

    def _new(self, inner: Tensor) -> GpuTensor:
        storage = inner.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            size = -(-storage.nbytes() // _ROUNDED_TO) * _ROUNDED_TO
            self._storages[key] = weakref.ref(storage, lambda _: self._freed(key, size))
            self.bytes += size
            self.peak = max(self.peak, self.bytes)
        return GpuTensor(inner)

    def _freed(self, key: int, size: int) -> None:
        del self._storages[key]
        self.bytes -= size

    def _count(self, func, args, found) -> None:
        """Counts a kernel, unless the operation only created a view or allocated memory."""
        if func.is_view:
            return
        name, schema = func._schema.name.removeprefix("aten::"), func._schema
        before, after = (
            {each.untyped_storage()._cdata for each in rules.tensors_of(side)}
            for side in (args, [found])
        )
        is_view = not schema.is_mutable and after <= before
        if not (is_view or "empty" in name):
            self.kernels[name] += 1

    def _copied(self, func, args, kwargs) -> Tensor:
        """Calls `_to_copy` or `copy_` within the device, or between device and host."""
        is_new = func is aten._to_copy.default
        source = args[0] if is_new else args[1]
        is_from_here = to_here = type(source) is GpuTensor
        if not is_new:
            to_here = type(args[0]) is GpuTensor
        elif kwargs.get("device") is not None:
            to_here = kwargs["device"].type == "cuda"
        if is_from_here == to_here:
            return self._computed(func, args, kwargs)
        if to_here:
            return self._sent(func, source, args, kwargs)
        return self._fetched(func, source, args, kwargs)

    def _sent(self, func, source: Tensor, args, kwargs) -> Tensor:
        """Copies to the device; the host waits unless the memory is page-locked."""
        if source.numel() and not (_is_non_blocking(args, kwargs) and source.is_pinned()):
            self.wait(f"copy of {tuple(source.shape)} to the device")
        self.kernels["copy to the device"] += 1
        if args[0] is source:
            return self._new(func(source, **kwargs | {"device": self.host}))
        args[0].inner.copy_(source)
        return args[0]

    def _fetched(self, func, source: GpuTensor, args, kwargs) -> Tensor:
        """Copies to the host, immediately or, if the copy is non-blocking, later."""
        self.kernels["copy to the host"] += 1
        if self.has_values:
            values = source.inner.detach().clone()
        else:
            values = torch.zeros(source.shape, dtype=source.dtype)
        is_new, blocks = args[0] is source, not _is_non_blocking(args, kwargs)
        there = func(values, **kwargs) if is_new else args[0]
        if is_new and not blocks:  # torch allocates page-locked memory
            there = there.pin_memory()
        if blocks or not there.is_pinned():
            self.wait(f"copy of {tuple(source.shape)} to the host")
            return there.copy_(values)
        self._copies.append((there, values))
        self._issued += 1
        if there.numel():
            there.view(-1).view(torch.uint8).fill_(_GARBAGE)
        return there


def _is_non_blocking(args, kwargs) -> bool:
    """Returns the argument `non_blocking` of `_to_copy` or `copy_`."""
    return bool(kwargs.get("non_blocking", args[2] if len(args) > 2 else False))


@cache
def _is_composite(func) -> bool:
    key = "CompositeImplicitAutograd"
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)


def _mapped(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Returns `value` with the function applied to each tensor in it."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)([_mapped(change, each) for each in value])
    if isinstance(value, dict):
        return {key: _mapped(change, each) for key, each in value.items()}
    return value


def _caller() -> tuple[str, tuple[str, ...]]:
    """Returns the innermost program line on the stack, and the names of all functions."""
    place, names = "", []
    frame = sys._getframe(2)
    while frame:
        path = frame.f_code.co_filename
        if not place and path.startswith(_PROGRAM):
            place = f"nmt/{path.removeprefix(_PROGRAM)}:{frame.f_lineno}"
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return place, tuple(names)


class _Event:
    """An event; `synchronize` waits for the copies to the host that began before the event."""

    def __init__(self, gpu: SimulatedGpu):
        self._gpu, self._copies = gpu, 0

    def record(self, stream: object = None) -> None:
        self._copies = self._gpu._issued

    def synchronize(self) -> None:
        self._gpu.wait("event", self._copies, is_explicit=True)

    def query(self) -> bool:
        self._gpu.wait("event", self._copies, is_explicit=True)
        return True


@contextmanager
def _cuda(gpu: SimulatedGpu) -> Iterator[None]:
    """Replaces the parts of `torch.cuda` that the program uses."""

    def nothing(*args: object, **kwargs: object) -> None:
        pass

    @contextmanager
    def block(*args: object, **kwargs: object) -> Iterator[None]:
        yield

    def graph(*args: object, **kwargs: object) -> None:
        raise RuntimeError("A simulated GPU captures no graphs.")

    def synchronize(*args: object) -> None:
        gpu.wait("device", is_explicit=True)

    stream = SimpleNamespace(synchronize=synchronize, wait_stream=nothing)
    stands_in: dict[str, Callable] = {
        "is_available": lambda: True,
        "is_bf16_supported": lambda *args, **kwargs: True,
        "device_count": lambda: 1,
        "get_device_name": lambda device=None: "simulated GPU",
        "mem_get_info": lambda device=None: (_MEMORY - gpu.bytes, _MEMORY),
        "max_memory_reserved": lambda device=None: gpu.peak,
        "manual_seed": torch.default_generator.manual_seed,
        "Event": lambda *args, **kwargs: _Event(gpu),
        "Stream": lambda *args, **kwargs: stream,
        "current_stream": lambda device=None: stream,
        "CUDAGraph": SimpleNamespace,
        "graph": graph,
        "synchronize": synchronize,
        "device": block,
        "stream": block,
        "set_device": nothing,
        "_lazy_init": nothing,
    }
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    lifts = torch._C._only_lift_cpu_tensors()
    attention = rules.attention_by(gpu, F.scaled_dot_product_attention)
    with (
        patch.multiple(torch.cuda, **stands_in),
        patch.object(F, "scaled_dot_product_attention", attention),
        patch.object(_foreach_utils, "_foreach_supported_types", [Tensor, GpuTensor]),
    ):
        # `inner` is moved when a module is converted; `torch.tensor` copies explicitly; a backward
        # pass runs in this thread, so that the program's lines are on the stack
        torch.__future__.set_swap_module_params_on_conversion(True)
        torch._C._set_only_lift_cpu_tensors(True)
        try:
            with torch.autograd.set_multithreading_enabled(False):
                yield
        finally:
            torch.__future__.set_swap_module_params_on_conversion(swaps)
            torch._C._set_only_lift_cpu_tensors(lifts)
