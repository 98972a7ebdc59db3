"""The chunked loss, compared with torch's cross-entropy in float64 and Szegedy's formula."""

import pytest
import torch
import torch.nn.functional as F

from nmt.model.special_ids import PAD_ID
from nmt.training import loss as losses
from nmt.training.loss import smoothed_cross_entropy


@pytest.mark.parametrize("chunk_rows", [100, 10_000])
def test_a_weight_of_2_counts_a_token_twice_and_a_weight_of_0_never(monkeypatch, chunk_rows: int):
    """Compares with torch's cross-entropy in float64, with hidden states that occur 0, 1 or 2
    times.
    """
    hidden, embedding, targets = random_case()
    monkeypatch.setattr(losses, "_CHUNK_BYTES", chunk_rows * 4 * len(embedding))
    counts = torch.arange(len(targets)) % 3
    loss, nll = smoothed_cross_entropy(hidden, embedding, targets, 0.1, counts.float())
    loss.backward()
    wide = hidden.detach().double().requires_grad_(), embedding.detach().double().requires_grad_()
    logits = wide[0].repeat_interleave(counts, 0) @ wide[1].T
    options = {"ignore_index": PAD_ID, "reduction": "sum"}
    labels = targets.repeat_interleave(counts)
    expected = F.cross_entropy(logits, labels, label_smoothing=0.1, **options)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert nll.item() == pytest.approx(F.cross_entropy(logits, labels, **options).item(), rel=1e-5)
    for narrow, reference in zip((hidden, embedding), wide, strict=True):
        torch.testing.assert_close(narrow.grad.double(), reference.grad, atol=1e-4, rtol=1e-4)
    assert not hidden.grad[counts == 0].any()


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


def trained_case(label_logit: float):
    """Returns hidden states, embedding and labels like those of a model in training: labels follow
    Zipf's law, and all logits have a common part.
    """
    generator = torch.Generator().manual_seed(0)
    v, d, n = 3000, 64, 2000
    embedding = torch.randn(v, d, generator=generator) / d**0.5
    embedding += 0.3 * torch.randn(d, generator=generator) / d**0.5
    frequency = 1 / torch.arange(1.0, v + 1)
    targets = torch.multinomial(frequency, n, replacement=True, generator=generator)
    hidden = torch.randn(n, d, generator=generator) + 0.3 * torch.randn(d, generator=generator)
    size = label_logit + 0.3 * torch.randn(n, 1, generator=generator)
    hidden += size * F.normalize(embedding[targets])
    return hidden.bfloat16().float(), embedding, targets


def values_and_gradients(function, hidden: torch.Tensor, embedding: torch.Tensor):
    """Returns loss, nll and the gradients of hidden states and embedding, all in float64."""
    hidden, embedding = hidden.clone().requires_grad_(), embedding.clone().requires_grad_()
    loss, nll = function(hidden, embedding)
    loss.backward()
    return loss.item(), nll.item(), hidden.grad.double(), embedding.grad.double()


def unchunked(targets: torch.Tensor):
    """Returns torch's linear layer with its cross-entropy, which autocast runs in fp32."""

    def losses(hidden: torch.Tensor, embedding: torch.Tensor):
        logits = F.linear(hidden, embedding)
        options = {"ignore_index": PAD_ID, "reduction": "sum"}
        loss = F.cross_entropy(logits, targets, label_smoothing=0.1, **options)
        return loss, F.cross_entropy(logits, targets, **options)

    return losses


@pytest.mark.parametrize("low", [True, False], ids=["bf16", "fp32"])
@pytest.mark.parametrize(("label_logit", "nll"), [(5, 4), (7.8, 1.9), (10.7, 0.6), (14.3, 0.1)])
def test_gradients_are_as_exact_as_plain_autocasts_and_unbiased(label_logit, nll, low):
    """Covers all stages of training, up to labels so likely that bf16's spacing near their
    probability matters.
    """
    hidden, embedding, targets = trained_case(label_logit)
    exact = values_and_gradients(unchunked(targets), hidden.double(), embedding.double())
    assert exact[1] / targets.count_nonzero() == pytest.approx(nll, rel=0.1)
    stream = hidden.bfloat16() if low else hidden
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        plain = values_and_gradients(unchunked(targets), stream, embedding)
        ours = values_and_gradients(
            lambda *inputs: smoothed_cross_entropy(*inputs, targets, 0.1), stream, embedding
        )
    for gradient, torchs, reference in zip(ours[2:], plain[2:], exact[2:], strict=True):
        bound = 1.3 * relative_error(torchs, reference) + 1e-6  # for rounding in fp32
        assert relative_error(gradient, reference) < bound
    sums = [each[2].sum(0) for each in (ours, plain, exact)]
    bound = 1.3 * relative_error(sums[1], sums[2]) + 1e-6
    assert relative_error(sums[0], sums[2]) < bound
    # adding a vector to all rows of the embedding changes no loss: the rows' gradients sum to 0
    assert ours[3].sum(0).norm() < 1.3 * plain[3].sum(0).norm()
    tolerance = 1e-4 if low else 1e-6
    for value, torchs, reference in zip(ours[:2], plain[:2], exact[:2], strict=True):
        assert abs(value / reference - 1) < 1.3 * abs(torchs / reference - 1) + tolerance


def relative_error(value: torch.Tensor, reference: torch.Tensor) -> float:
    return ((value - reference).norm() / reference.norm()).item()


@pytest.mark.parametrize("label_logit", [8.5, 10.1, 10.4, 11.5])
def test_bf16_has_the_nll_of_a_probable_label_exactly(label_logit: float):
    """Rounded to bf16, a probability of 0.9 would be 0.8984, in the same way for all tokens."""
    _, embedding, _ = trained_case(0)
    hidden = (label_logit * F.normalize(embedding[5:6])).bfloat16()
    targets = torch.tensor([5])
    with torch.autocast("cpu", torch.bfloat16):
        _, nll = smoothed_cross_entropy(hidden, embedding, targets, 0.1)
        _, expected = unchunked(targets)(hidden, embedding)
    assert nll.item() == pytest.approx(expected.item(), rel=3e-3)


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
    """512 MiB hold the bf16 logits of 7,254 tokens, with a vocabulary of 37,000."""
    size = losses._chunk_size(tokens, 37_000 * 2, torch.device("cuda"))
    assert size % 128 == 0 and size <= 7254
    assert -(-tokens // size) == -(-tokens // 7254)
    assert losses._chunk_size(tokens, 37_000 * 2, torch.device("cpu")) == 1813
