"""Matrix products on a CPU: fp32 with oneDNN, prepacked weights, int8."""

import pytest
import torch
from torch import nn

from nmt.model.kernels import prepacking, products
from nmt.model.kernels.prepacking import Int8Linear, prepack
from nmt.model.kernels.products import Linear, matmul, matmul_of_transposed
from nmt.model.stepper import Stepper
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import new_transformer


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (300, 64, 33), (0, 4, 2), (3, 0, 2)])
def test_products_equal_those_of_float64(shape):
    n, k, m = shape
    a, b = random(n, k), random(k, m)
    for left, right in ((a, b), (a.t().contiguous().t(), b.t().contiguous().t())):
        product = matmul(left, right)
        expected = (a.double() @ b.double()).float()
        torch.testing.assert_close(product, expected, atol=1e-5, rtol=1e-5)
        of_transposed = matmul_of_transposed(left.t(), right)
        torch.testing.assert_close(of_transposed, expected, atol=1e-5, rtol=1e-5)


def test_a_linear_layer_under_autocast_is_torchs_with_fp32_gradients():
    ours, torchs, x = Linear(6, 3), nn.Linear(6, 3), random(2, 5, 6).requires_grad_()
    torchs.load_state_dict(ours.state_dict())
    found = []
    for layer in (ours, torchs):
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
        gradients = torch.autograd.grad((y.float() ** 2).sum(), (x, layer.weight, layer.bias))
        assert y.dtype == torch.bfloat16 and {g.dtype for g in gradients} == {torch.float32}
        found.append([y, *gradients])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("shape", [(4, 6), (2, 5, 6), (1, 1, 6), (0, 6)])
def test_a_linear_layer_is_torchs(shape):
    """Values and gradients are equal, for strided inputs too."""
    ours, torchs = Linear(6, 3), nn.Linear(6, 3)
    torchs.load_state_dict(ours.state_dict())
    for x in (random(*shape), random(*shape[:-1], 12)[..., ::2]):
        found = []
        for layer in (ours, torchs):
            given = x.detach().requires_grad_()
            y = layer(given)
            gradients = torch.autograd.grad((y * y).sum(), (given, layer.weight, layer.bias))
            found.append([y, *gradients])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_without_the_operator_everything_goes_by_torchs_products(monkeypatch):
    layer, x = Linear(6, 3), random(4, 6)
    fast = layer(x)
    monkeypatch.setattr(products, "has_onednn", lambda dtype: False)
    monkeypatch.setattr(products, "onednn_linear", None)
    torch.testing.assert_close(layer(x), fast, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(matmul(x, x.t()), x @ x.t())


def test_what_the_bits_hold_exactly_is_multiplied_exactly():
    """Weights and activations are chosen so that int8 represents them exactly."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(-127, 128, (5, 40), generator=generator).float()
    weight[:, 0] = 127.0
    weight *= torch.tensor([1.0, 0.5, 0.25, 2.0, 4.0])[:, None]
    levels = 255 if prepacking._HAS_VNNI else 127
    x = torch.randint(0, levels + 1, (9, 40), generator=generator).float()
    x[0, :2] = torch.tensor([0.0, levels])
    bias = torch.arange(5.0)
    assert torch.equal(Int8Linear(weight, bias)(x), x @ weight.t() + bias)


def test_each_row_of_a_matrix_has_its_own_scale():
    weight, x = random(2, 64), random(5, 64)
    weight[1] *= 1000
    found, expected = Int8Linear(weight, None)(x), x @ weight.t()
    assert ((found - expected).abs().amax(0) < 0.03 * expected.abs().amax(0)).all()


def logits(transformer: Transformer, steps: int = 3) -> torch.Tensor:
    src = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]])
    stepper = Stepper(transformer, src, 2, steps)
    tokens, parents = torch.full((2, 2), 1), torch.tensor([[0, 1], [0, 1]])
    with torch.inference_mode():
        return torch.stack([stepper.step(tokens + 3 * i, parents).float() for i in range(steps)])


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.05), ("int8", 0.1)]
)
def test_a_packed_model_computes_what_it_did(settings, precision, tolerance):
    transformer = Transformer(settings().model, 50, 30).eval()
    transformer.initialize(1)
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            if name.endswith("bias"):
                parameter.copy_(random(*parameter.shape))
    expected = logits(transformer)
    prepack(transformer, precision)
    found = logits(transformer)
    if precision != "bf16" or products.has_onednn(torch.bfloat16):
        assert not any(type(module) in (nn.Linear, Linear) for module in transformer.modules())
    assert (found - expected).abs().max() <= tolerance * expected.abs().max()


def test_int8_that_this_torch_does_not_have_is_told(settings, monkeypatch):
    def missing(*_):
        raise RuntimeError("Didn't find engine")

    monkeypatch.setattr(prepacking.Int8Linear, "__init__", missing)
    with pytest.raises(ValueError, match="int8"):
        prepack(new_transformer(settings()), "int8")


def test_without_the_operator_a_model_is_not_packed(settings, monkeypatch):
    monkeypatch.setattr(prepacking, "has_onednn", lambda dtype: dtype == torch.float32)
    transformer = new_transformer(settings())
    prepack(transformer, "bf16")
    assert {p.dtype for p in transformer.parameters()} == {torch.bfloat16}
    assert any(type(module) is Linear for module in transformer.modules())
