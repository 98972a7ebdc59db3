"""The simulated GPU: operations that it refuses, waits of the host, and asynchronous copies."""

import pytest
import torch
import torch.nn.functional as F

from recipes.speed.simulated.device import SimulatedGpu

BF16 = torch.bfloat16


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype, device="cuda")


REFUSED = {
    "devices": lambda: ones(2) + torch.ones(2),
    "devices of a list": lambda: torch.stack([ones(1)[0], torch.tensor(1.0)]),
    "index_copy_": lambda: ones(2).index_copy_(0, ones(1).long(), ones(1, dtype=BF16)),
    "scatter_": lambda: ones(2).scatter_(0, ones(1).long(), ones(1, dtype=BF16)),
    "gather": lambda: torch.gather(ones(2), 0, ones(1).long(), out=ones(1, dtype=BF16)),
    "mm": lambda: ones(2, 2) @ ones(2, 2, dtype=BF16),
    "linear": lambda: F.linear(ones(2, 2), ones(2, 2), ones(2, dtype=BF16)),
    "layer_norm": lambda: F.layer_norm(ones(2, 4, dtype=BF16), (4,), ones(4), ones(4)),
    "attention": lambda: F.scaled_dot_product_attention(
        *[ones(1, 1, 2, 8, dtype=BF16)] * 3, attn_mask=ones(1, 1, 2, 2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("has_values", [True, False])
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_gpu_refuses(name: str, has_values: bool):
    with (
        SimulatedGpu(has_values=has_values),
        pytest.raises(RuntimeError, match=r"same d(evice|type)"),
    ):
        REFUSED[name]()


WAITS = {
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0] > 0),
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "list as index": lambda x: x[[0, 1]],
    "tensor of numbers": lambda x: torch.tensor([1.0], device="cuda"),
    "to the host": lambda x: x.cpu(),
    "to the device": lambda x: torch.ones(2).to("cuda", non_blocking=True),
    "into memory that is not page-locked": lambda x: torch.ones(2).copy_(x, non_blocking=True),
}
NO_WAITS = {
    "fill": lambda x: x.view(1, 2).__setitem__((..., 0), -torch.inf),
    "masked_fill": lambda x: x.masked_fill_(x > 0, 0.0),
    "index": lambda x: x[torch.arange(2, device="cuda")],
    "to the host": lambda x: x.to("cpu", non_blocking=True),
    "to the device": lambda x: torch.ones(2).pin_memory().to("cuda", non_blocking=True),
    "where": lambda x: torch.where(x > 0, x, 0.0),
}


@pytest.mark.parametrize("name", WAITS)
def test_where_the_host_waits(gpu, name: str):
    x = ones(2)
    gpu.restart()
    WAITS[name](x)
    assert len(gpu.implicit_waits) >= 1


@pytest.mark.parametrize("name", NO_WAITS)
def test_where_the_host_does_not_wait(gpu, name: str):
    x = ones(2)
    gpu.restart()
    NO_WAITS[name](x)
    assert gpu.waits == []


def test_a_copy_arrives_when_an_event_after_it_is_waited_for(gpu):
    early, copied, late = torch.cuda.Event(), torch.cuda.Event(), ones(3)
    early.record()
    there = torch.empty(3, pin_memory=True).copy_(late, non_blocking=True)
    copied.record()
    early.synchronize()
    assert there.tolist() != [1.0] * 3
    copied.synchronize()
    assert there.tolist() == [1.0] * 3


def test_bytes_are_those_of_living_tensors(gpu):
    x = ones(1000)
    view = x[1:]  # needs no memory
    assert gpu.bytes == gpu.peak == 4096
    y = x + 1
    del x, y
    assert (gpu.bytes, gpu.peak) == (4096, 8192)
    del view
    assert gpu.bytes == 0
    assert gpu.kernels == {"ones": 1, "add": 1}
