"""LayerNorm with an emulated GPU kernel and the autocast of GPUs."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.data.layout import packed
from nmt.model.kernels import layer_norm as layer_norms
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import new_transformer
from tests.model.test_transformer import random_pairs


@pytest.fixture
def as_on_a_gpu(monkeypatch) -> None:
    """Emulates autocast to fp32, and a kernel whose weights must have the dtype of the input."""
    kernel = F.layer_norm

    def gpu_layer_norm(x, shape, weight, bias, epsilon) -> Tensor:
        if torch.is_autocast_enabled("cpu"):
            x, weight, bias = x.float(), weight.float(), bias.float()
        assert x.dtype == weight.dtype == bias.dtype
        if x.dtype == torch.bfloat16:  # a GPU sums over tokens in fp32
            return layer_norms._LowPrecisionLayerNorm.apply(
                x, weight.float(), bias.float(), epsilon
            )
        return kernel(x, shape, weight, bias, epsilon)

    monkeypatch.setattr(F, "layer_norm", gpu_layer_norm)
    monkeypatch.setattr(layer_norms, "_is_on_cpu", lambda x: False)


class Conversions(TorchDispatchMode):
    """Counts the tensors that are converted to another dtype, by their shape."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[int, ...]] = Counter()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function is torch.ops.aten._to_copy.default:
            self.counts[tuple(arguments[0].shape)] += 1
        return function(*arguments, **options or {})


@pytest.mark.parametrize("order", ["post", "pre"])
def test_no_norm_converts_the_residual_stream(as_on_a_gpu, settings, order: str):
    """Only the fp32 sums of embeddings and their gradients are converted, once per side."""
    model: Transformer = new_transformer(settings(model__norm=order, model__dropout=0.0)).train()
    model.initialize(1)
    batch = packed(random_pairs(20), 23)
    counts = {}
    for dtype in (torch.float32, torch.bfloat16):
        with Conversions() as seen, torch.autocast("cpu", torch.bfloat16, dtype == torch.bfloat16):
            hidden = model(batch.src, batch.tgt_in)
            hidden.sum().backward()
        assert hidden.dtype == dtype
        width = hidden.shape[-1]
        counts[dtype] = sum(n for shape, n in seen.counts.items() if shape[2:] == (width,))
    assert counts[torch.float32] == 0
    assert counts[torch.bfloat16] == 2 * 2  # source and target, and their gradients


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_bf16_norm_is_as_accurate_as_its_rounding_and_without_bias(request, device: str):
    """Compares with float64, for 10,000 tokens whose gradients mostly have the same sign: torch's
    CPU kernel sums in bf16 and would lose most of such a sum.
    """
    if device == "gpu":
        request.getfixturevalue("as_on_a_gpu")
    torch.manual_seed(0)
    ours, exact = layer_norms.LayerNorm(64), torch.nn.LayerNorm(64, dtype=torch.float64)
    with torch.no_grad():
        ours.weight.normal_(1, 0.1)
        ours.bias.normal_(0, 0.1)
        exact.load_state_dict(ours.state_dict())
    x = torch.randn(100, 100, 64).bfloat16().requires_grad_()
    gradient = (torch.randn(100, 100, 64) + 0.3).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        y = ours(x)
        y.backward(gradient)
    same = x.detach().double().requires_grad_()
    expected = exact(same)
    expected.backward(gradient.double())
    assert ours.weight.grad.dtype == ours.bias.grad.dtype == torch.float32
    pairs = [(y, expected), (x.grad, same.grad)]
    pairs += [(p.grad, q.grad) for p, q in zip(ours.parameters(), exact.parameters(), strict=True)]
    for found, wanted in pairs:
        error = found.detach().double() - wanted.detach()
        assert error.norm() < 2**-8 * wanted.detach().norm()
        assert abs(error.mean()) < 2**-10 * wanted.detach().abs().mean()


def test_a_bf16_norm_of_no_rows_has_a_gradient():
    """The micro-batches of a step may be empty."""
    norm, x = layer_norms.LayerNorm(8), torch.empty(0, 8, dtype=torch.bfloat16).requires_grad_()
    norm(x).sum().backward()
    assert x.grad.shape == (0, 8) and not norm.weight.grad.any()
