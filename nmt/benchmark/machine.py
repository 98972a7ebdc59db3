"""Measures the speed of matrix multiplication, the memory bandwidth and the peak memory usage."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from nmt.benchmark.gate import Gate
from nmt.config import Model
from nmt.model.kernels.prepacking import Int8Linear, Precision, PrepackedLinear
from nmt.model.kernels.products import has_onednn
from nmt.system import peak_process_memory

_LEAST_TIMINGS, _LEAST_S = 3, 0.1  # minimum number and minimum total of a product's timings
_LEAST_TIMING_S = 0.003  # shorter calls are repeated and timed together
_COPY_BYTES = 128 << 20  # far larger than the caches of a processor
_CPU_ROWS = 4096  # more rows do not increase the FLOP rate of a CPU
_PROBE_SIZE, _GPU_PROBE_SIZE = 512, 4096  # rows and columns of the probe's matrices


@dataclass(frozen=True)
class Product:
    """The name and shape of a matrix product, (rows, inner) @ (inner, columns)."""

    name: str
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        """The number of FLOPs that this matrix product takes."""
        return 2 * self.rows * self.inner * self.columns


@dataclass(frozen=True)
class Ceilings:
    """The highest rates that were measured on a machine, as upper bounds on the speed of nmt."""

    products: list[tuple[Product, float]]  # with FLOPs per second, in the order of the layers
    copy_bytes_per_second: float  # bytes read plus bytes written

    @property
    def best(self) -> float:
        """The FLOPs per second of the fastest matrix product."""
        return max(rate for _, rate in self.products)

    def as_json(self) -> dict[str, Any]:
        """Returns the rates as a JSON object; docs/speed.md lists its keys."""
        return {
            "best_flops_per_second": self.best,
            "copy_bytes_per_second": self.copy_bytes_per_second,
            "products": [
                asdict(product) | {"flops_per_second": rate} for product, rate in self.products
            ],
        }


def model_products(
    model: Model, vocabulary_size: int, rows: int, *, gradients: bool
) -> list[Product]:
    """Returns a model's matrix products of activations and weights, one product per shape.

    Args:
        rows: the number of tokens, which is the number of rows of the activations.
        gradients: whether to include the backward pass's matrix products, which compute the
            gradients of inputs and weights.
    """
    d, h = model.d_model, model.heads
    forward = {
        "query, key, value": (d, h * (2 * model.d_k + model.d_v)),
        "key, value of source": (d, h * (model.d_k + model.d_v)),
        "query": (d, h * model.d_k),
        "attention output": (h * model.d_v, d),
        "feed-forward inner": (d, model.d_ff * (2 if model.feed_forward == "swiglu" else 1)),
        "feed-forward outer": (model.d_ff, d),
        "logits": (d, vocabulary_size),
    }
    found: dict[tuple[int, int, int], Product] = {}
    for name, (inner, columns) in forward.items():
        shapes = {"": (rows, inner, columns)}
        if gradients:
            shapes |= {
                ", gradient of input": (rows, columns, inner),
                ", gradient of weight": (columns, rows, inner),
            }
        for suffix, shape in shapes.items():
            found.setdefault(shape, Product(name + suffix, *shape))
    return list(found.values())


def measured_ceilings(
    model: Model,
    vocabulary_size: int,
    rows: int,
    precision: Precision,
    device: torch.device,
    gate: Gate,
    *,
    gradients: bool,
) -> Ceilings:
    """Measures the FLOP rates of a model's matrix products, and the memory bandwidth.

    Args:
        rows: the number of tokens per matrix product. On a CPU, numbers above 4,096 are reduced to
            4,096.
        precision: the data type of the multiplied matrices.
        gate: the gate that delays each measurement while the machine is slow.
        gradients: whether to include the backward pass's matrix products.
    """
    rows = min(rows, _CPU_ROWS) if device.type == "cpu" else rows
    rates = []
    with torch.inference_mode():
        for product in model_products(model, vocabulary_size, rows, gradients=gradients):
            gate.wait()
            call = _multiplication(product, precision, device)
            rates.append((product, product.flops / least_seconds(call, device)))
        gate.wait()
        source = torch.ones(_COPY_BYTES, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        copying_s = least_seconds(lambda: target.copy_(source), device)
    return Ceilings(rates, 2 * _COPY_BYTES / copying_s)


def _multiplication(
    product: Product, precision: Precision, device: torch.device
) -> Callable[[], object]:
    """Returns a function that computes a matrix product with the kernel that translation uses."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    x = torch.randn(product.rows, product.inner, device=device, dtype=dtype)
    weight = torch.randn(product.columns, product.inner, device=device, dtype=dtype)
    if precision == "int8":
        return partial(Int8Linear(weight, None), x)
    if device.type == "cpu" and has_onednn(dtype):
        return partial(PrepackedLinear(weight, None), x)
    return partial(F.linear, x, weight)


def probe(device: torch.device) -> Callable[[], float]:
    """Returns a function that serves as the probe of a `Gate`.

    The probe times a matrix multiplication twice and returns the higher FLOP rate.
    """
    size = _PROBE_SIZE if device.type == "cpu" else _GPU_PROBE_SIZE
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))

    def rate() -> float:
        with torch.inference_mode():
            return 2 * size**3 / min(seconds(lambda: torch.mm(a, b), device) for _ in range(2))

    return rate


def least_seconds(call: Callable[[], object], device: torch.device) -> float:
    """Returns the minimum duration of a function call in seconds.

    Calls that are too short to be timed separately are timed in groups.
    """
    first = seconds(call, device)  # warms up
    calls = max(1, round(_LEAST_TIMING_S / max(seconds(call, device), 1e-7)))

    def several() -> None:
        for _ in range(calls):
            call()

    times = [first]
    while len(times) <= _LEAST_TIMINGS or sum(times) < _LEAST_S:
        times.append(seconds(several, device))
    return min(times[1:]) / calls


def seconds(call: Callable[[], object], device: torch.device) -> float:
    """Calls a function, and returns the time in seconds until the device has finished its work."""
    synchronize(device)
    began = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - began


def synchronize(device: torch.device) -> None:
    """Waits until the device has finished all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory(device: torch.device) -> int:
    """Returns the peak memory usage in bytes, of torch on a GPU or of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    return peak_process_memory()
