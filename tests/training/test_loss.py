"""The chunked loss against torch's cross-entropy in float64 and against Szegedy's formula."""

import pytest
import torch
import torch.nn.functional as F

from nmt.model.special_ids import PAD_ID
from nmt.training import loss as losses
from nmt.training.loss import smoothed_cross_entropy


def random_case(n: int = 1300, d: int = 16, v: int = 50):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(n, d, generator=generator, requires_grad=True)
    embedding = torch.randn(v, d, generator=generator, requires_grad=True)
    targets = torch.randint(1, v, (n,), generator=generator)
    targets[::7] = PAD_ID
    return hidden, embedding, targets


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("chunk_rows", [100, 10_000])
def test_values_and_gradients_equal_torchs_in_float64(monkeypatch, epsilon: float, chunk_rows: int):
    hidden, embedding, targets = random_case()
    monkeypatch.setattr(losses, "_CHUNK_BYTES", chunk_rows * 4 * len(embedding))
    loss, nll = smoothed_cross_entropy(hidden, embedding, targets, epsilon)
    (3 * loss).backward()
    wide = hidden.detach().double().requires_grad_(), embedding.detach().double().requires_grad_()
    logits = wide[0] @ wide[1].T
    options = {"ignore_index": PAD_ID, "reduction": "sum"}
    expected = F.cross_entropy(logits, targets, label_smoothing=epsilon, **options)
    (3 * expected).backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert nll.item() == pytest.approx(F.cross_entropy(logits, targets, **options).item(), rel=1e-5)
    for narrow, reference in zip((hidden, embedding), wide, strict=True):
        torch.testing.assert_close(narrow.grad.double(), reference.grad, atol=1e-4, rtol=1e-4)


def test_smoothing_is_spread_over_the_whole_vocabulary_the_label_included():
    hidden, embedding, targets = random_case(n=4, v=5)
    epsilon = 0.2
    logs = (hidden @ embedding.T).log_softmax(-1)
    by_hand = 0.0
    for row, label in enumerate(targets.tolist()):
        for token in range(5):
            mass = epsilon / 5 + (1 - epsilon) * (token == label)
            by_hand -= mass * logs[row, token].item() * (label != PAD_ID)
    loss, _ = smoothed_cross_entropy(hidden, embedding, targets, epsilon)
    assert loss.item() == pytest.approx(by_hand, rel=1e-5)


def test_bf16_products_stay_close():
    hidden, embedding, targets = random_case()
    exact, _ = smoothed_cross_entropy(hidden, embedding, targets, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        low, _ = smoothed_cross_entropy(hidden, embedding, targets, 0.1)
    assert low.dtype == torch.float32
    assert low.item() == pytest.approx(exact.item(), rel=5e-3)


def test_a_label_beyond_all_probability_has_a_finite_loss():
    hidden = torch.full((1, 1), 1000.0, requires_grad=True)
    embedding = torch.tensor([[0.0], [1.0], [-1.0]], requires_grad=True)
    loss, nll = smoothed_cross_entropy(hidden, embedding, torch.tensor([2]), 0.1)
    loss.backward()
    assert 80 < nll.item() < 100
    assert hidden.grad.isfinite().all() and hidden.grad.item() > 1


def test_no_targets_cost_nothing_and_have_zero_gradients():
    hidden, embedding, _ = random_case(n=3)
    loss, nll = smoothed_cross_entropy(hidden, embedding, torch.zeros(3, dtype=torch.long), 0.1)
    loss.backward()
    assert loss.item() == nll.item() == 0
    assert not hidden.grad.any()
    assert not embedding.grad.any()


@pytest.mark.parametrize("tokens", [1, 128, 25_600, 26_624, 100_000])
def test_a_gpu_has_few_large_chunks_of_whole_tiles(tokens: int):
    """37,000 logits in bf16 of some 6,400 tokens each; 512 MiB hold 7,254."""
    size = losses._chunk_size(tokens, 37_000 * 2, torch.device("cuda"))
    assert size % 128 == 0 and size <= 7254
    assert -(-tokens // size) == -(-tokens // 7254)
    assert losses._chunk_size(tokens, 37_000 * 2, torch.device("cpu")) == 1813
