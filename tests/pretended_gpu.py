"""Emulates a GPU on a CPU: CUDA graphs, and the current device of each thread.

Like a real CUDA graph, a graph repeats the captured operations on the same memory, without running
Python again. Repeating them raises an error if some of that memory was freed.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

OWN = 1  # the device of the models; a new thread's current device is 0


@dataclass(frozen=True)
class Place:
    """The location of a tensor in memory."""

    storage: int
    address: int
    dtype: torch.dtype
    form: tuple[int, torch.Size, tuple[int, ...]]  # offset, size, stride

    @classmethod
    def of(cls, tensor: Tensor) -> "Place":
        storage = tensor.untyped_storage()
        form = tensor.storage_offset(), tensor.shape, tensor.stride()
        return cls(storage._cdata, storage.data_ptr(), tensor.dtype, form)


class Recording(TorchDispatchMode):
    """Records the operations of a block and can repeat them."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self.own: dict[int, torch.UntypedStorage] = {}  # created in the block
        self.others: dict[int, StorageWeakRef] = {}  # not kept alive by a graph

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for tensor in _tensors((args, kwargs)):
            storage = tensor.untyped_storage()
            if storage._cdata not in self.own:
                self.others.setdefault(storage._cdata, StorageWeakRef(storage))
        places = tree_map_only(Tensor, Place.of, (args, kwargs))
        found = func(*args, **kwargs)
        for tensor in _tensors(found):
            storage = tensor.untyped_storage()
            if storage._cdata not in self.others:
                self.own.setdefault(storage._cdata, storage)
        self.operations.append((func, *places, tree_map_only(Tensor, Place.of, found)))
        return found

    def repeat(self) -> None:
        """Repeats the operations in the same memory; raises AssertionError if any was freed."""
        for func, args, kwargs, outputs in self.operations:
            inputs = {each.storage for each in tree_leaves((args, kwargs)) if _is_place(each)}
            written = [each for each in tree_leaves(outputs) if _is_place(each)]
            if not func._schema.is_mutable and all(each.storage in inputs for each in written):
                continue  # a view launches no kernel
            args, kwargs = tree_map_only(Place, self._tensor, (args, kwargs))
            found = func(*args, **kwargs)
            if not func._schema.is_mutable:
                for tensor, place in zip(_tensors(found), written, strict=True):
                    self._tensor(place).copy_(tensor)

    def _tensor(self, place: Place) -> Tensor:
        storage = self.own.get(place.storage)
        if storage is None:
            weak = self.others[place.storage]
            storage = torch.UntypedStorage._new_with_weak_ptr(weak.cdata)
            assert storage is not None, "the graph reads memory that was freed"
        assert storage.data_ptr() == place.address, "the graph reads memory that was replaced"
        return torch.empty(0, dtype=place.dtype).set_(storage, *place.form)


def _tensors(tree: Any) -> list[Tensor]:
    return [each for each in tree_leaves(tree) if isinstance(each, Tensor)]


def _is_place(leaf: object) -> bool:
    return isinstance(leaf, Place)


@dataclass
class Gpu:
    """The emulated GPU.

    Attributes:
        calls: names of the operations so far, each with its device.
        free: number of bytes that `mem_get_info` reports as free.
        pools: memory pools in which graphs were captured.
    """

    calls: list[tuple[str, int]] = field(default_factory=list)
    free: int = 1 << 40
    pools: set[int] = field(default_factory=set)

    def count(self, what: str) -> int:
        return sum(name == what for name, _ in self.calls)

    @property
    def devices(self) -> set[int]:
        return {device for _, device in self.calls}


def pretend(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Makes decoding treat a CPU as a GPU."""
    gpu, thread = Gpu(), threading.local()

    def number(device: object) -> int:
        device = torch.device(device) if isinstance(device, str) else device
        return OWN if getattr(device, "type", "") == "cpu" else device.index

    def current() -> int:
        return getattr(thread, "device", 0)

    class Stream:
        def __init__(self, device: object = None):
            self.device = current() if device is None else number(device)
            gpu.calls.append(("stream", self.device))

        def wait_stream(self, other: "Stream") -> None:
            gpu.calls.append(("wait", other.device))

    firsts: dict[int, SimpleNamespace] = {}  # the default stream of each device

    def current_stream(device: object = None) -> Any:
        of, entered = (
            current() if device is None else number(device),
            getattr(thread, "stream", None),
        )
        if entered and entered.device == of:
            return entered
        first = SimpleNamespace(device=of, wait_stream=lambda other: None)
        return firsts.setdefault(of, first)

    class Event:
        device: int | None = None

        def record(self, stream: Any = None) -> None:
            self.device = (stream or current_stream()).device
            gpu.calls.append(("record", self.device))

        def synchronize(self) -> None:
            assert self.device is not None
            gpu.calls.append(("synchronize", self.device))

    @contextmanager
    def on(device: object) -> Iterator[None]:
        before, thread.device = current(), number(device)
        try:
            yield
        finally:
            thread.device = before

    @contextmanager
    def on_stream(stream: Stream) -> Iterator[None]:
        before, thread.stream = getattr(thread, "stream", None), stream
        try:
            with on(SimpleNamespace(type="cuda", index=stream.device)):
                yield
        finally:
            thread.stream = before

    class CUDAGraph:
        recording: Recording | None = None
        memory: int

        def replay(self) -> None:
            assert self.recording
            gpu.calls.append(("replay", OWN))  # on the device of the capture
            self.recording.repeat()

        def pool(self) -> int:
            return self.memory

    default: list[Stream] = []

    @contextmanager
    def graph(captured: CUDAGraph, pool=None, stream=None, capture_error_mode="global"):
        if stream is None:  # like torch, one stream for all devices
            default[:] = default or [Stream()]
            stream = default[0]
        if capture_error_mode != "thread_local":  # a loader's thread allocates pinned memory
            raise RuntimeError("operation not permitted when stream is capturing")
        captured.memory = len(gpu.pools) if pool is None else pool
        gpu.pools.add(captured.memory)
        with on_stream(stream), Recording() as captured.recording:
            gpu.calls.append(("capture", current()))
            yield

    replaced: dict[str, Any] = {
        "device": on, "Stream": Stream, "current_stream": current_stream, "Event": Event,
        "stream": on_stream, "CUDAGraph": CUDAGraph, "graph": graph,
        "mem_get_info": lambda device: (gpu.free, gpu.free),
    }  # fmt: skip
    for name, value in replaced.items():
        monkeypatch.setattr(torch.cuda, name, value)
    is_gpu: Callable[[torch.device], bool] = lambda device: True  # noqa: E731
    for module in (
        "model.devices", "decoding.buffer_pool", "decoding.beam_search", "decoding.batched_search",
        "decoding.sampling", "training.validation",
    ):  # fmt: skip
        monkeypatch.setattr(f"nmt.{module}.is_gpu", is_gpu)
    return gpu
