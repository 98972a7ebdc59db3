"""The model, compared with the paper's equations in `tests.model.paper`."""

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt.config import Config
from nmt.data.layout import Tokens, one_per_row, packed
from nmt.data.pair import Pair, TokenPair
from nmt.model.layers import DecoderLayer, EncoderLayer
from nmt.model.special_ids import EOS_ID
from nmt.model.transformer import Transformer
from nmt.training.loss import TransformerLoss
from tests.model.paper import PaperTransformer, dropping, new_model, pairs_in, sites

VARIANTS = {
    "post": {},
    "pre": {"model__norm": "pre"},
    "learned": {"model__positions": "learned"},
    "window": {"model__attention_window": 5, "model__encoder_layers": 1},
}
RATES = {"dropout": 0.125, "attention_dropout": 0.25, "activation_dropout": 0.375}
DROPPING = {f"model__{name}": rate for name, rate in RATES.items()}


def in_float64(config: Config, seed: int = 3) -> Transformer:
    """Returns a float64 model with noise added to all parameters."""
    torch.manual_seed(seed)
    model = new_model(config, seed)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return model.double()


def some_pairs(*lengths: tuple[int, int]) -> list[TokenPair]:
    rng = np.random.default_rng(1)

    def sentence(length: int) -> np.ndarray:
        return np.append(rng.integers(4, 400, length - 1), EOS_ID).astype(np.int32)

    return [Pair(sentence(source), sentence(target)) for source, target in lengths]


LENGTHS = [(9, 4), (1, 6), (3, 12), (7, 7), (2, 1), (5, 3)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_losses_and_gradients_are_those_of_the_equations(settings, variant: str):
    config = settings(**VARIANTS[variant])
    ours = in_float64(config).eval()
    paper = PaperTransformer(ours.state_dict(), config.model)
    batch = packed(some_pairs(*LENGTHS), capacity=14)
    assert int(batch.src.segments.max()) > 1  # a row has several pairs
    assert bool((batch.tgt_out == 0).any())  # there is padding
    with torch.no_grad():
        hidden = ours(batch.src, batch.tgt_in)
        for row, segments in enumerate(batch.tgt_in.segments):
            for segment in range(1, int(segments.max()) + 1):
                own = segments == segment
                source = batch.src.tokens[row, batch.src.segments[row] == segment]
                expected = paper.logits(source.tolist(), batch.tgt_out[row, own].tolist())
                # the model's table of sines and cosines is float32
                torch.testing.assert_close(
                    ours.logits(hidden[row, own]), expected, atol=1e-5, rtol=1e-5
                )
    loss, nll = TransformerLoss(ours, 0.3)(batch)
    expected_loss, expected_nll = paper.loss(pairs_in(batch), 0.3)
    assert loss.item() == pytest.approx(expected_loss.item(), rel=1e-6)
    assert nll.item() == pytest.approx(expected_nll.item(), rel=1e-6)
    assert_same_gradients(ours, loss, paper, expected_loss)


def assert_same_gradients(
    ours: Transformer, loss: Tensor, paper: PaperTransformer, expected: Tensor
) -> None:
    names, parameters = zip(*ours.named_parameters(), strict=True)
    assert set(names) == set(paper.weights)
    found = torch.autograd.grad(loss, parameters)
    by_hand = torch.autograd.grad(expected, [paper.weights[name] for name in names])
    for name, a, b in zip(names, found, by_hand, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_stands_where_the_paper_and_the_settings_say(settings, norm: str):
    config = settings(**DROPPING, model__norm=norm)
    model = in_float64(config).train()
    source, target = 60, 50  # different, so that shapes identify the site
    batch = one_per_row(some_pairs((source, target)))
    with dropping(model) as factors:
        model(batch.src, batch.tgt_in)
    expected = sites(config.model, source, target)
    assert [tuple(factor.shape[1:]) for factor in factors] == [shape for _, shape in expected]
    for factor, (rate, _) in zip(factors, expected, strict=True):
        kept = factor[factor != 0]
        torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - RATES[rate])))
        if rate == "dropout":  # elsewhere, inputs have zeros too
            share = len(kept) / factor.numel()
            assert share == pytest.approx(1 - RATES[rate], abs=0.05)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_losses_and_gradients_with_dropout_are_those_of_the_equations(settings, norm: str):
    """Applies the model's masks where the paper does, before the residual is added."""
    config = settings(**DROPPING, model__norm=norm)
    ours = in_float64(config).train()
    batch = one_per_row(some_pairs((9, 7)))
    with dropping(ours) as factors:
        loss, _ = TransformerLoss(ours, 0.1)(batch)
    masks = iter(factors)
    paper = PaperTransformer(ours.state_dict(), config.model, lambda x, _: x * next(masks)[0])
    expected, _ = paper.loss(pairs_in(batch), 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert next(masks, None) is None
    assert_same_gradients(ours, loss, paper, expected)


def test_dropout_is_off_in_evaluation_and_at_rate_0(settings):
    batch = one_per_row(some_pairs(*LENGTHS))
    evaluated, off = in_float64(settings(**DROPPING)).eval(), dict.fromkeys(DROPPING, 0.0)
    for model in (evaluated, in_float64(settings(**off)).train()):
        with dropping(model) as factors, torch.no_grad():
            first, second = (model(batch.src, batch.tgt_in) for _ in range(2))
        assert factors == []
        assert torch.equal(first, second)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_layers_start_from_scaled_embeddings_and_positions(settings, positions: str):
    """The input is E[token] * sqrt(d_model) + PE[position in the sentence] on both sides."""
    config = settings(model__positions=positions)
    model = in_float64(config).eval()
    paper = PaperTransformer(model.state_dict(), config.model)
    batch = packed(some_pairs(*LENGTHS), capacity=14)
    inputs: dict[type, Tensor] = {}

    def remember(module, arguments):
        inputs.setdefault(type(module), arguments[0])  # only of the first layer

    for module in model.modules():
        if isinstance(module, EncoderLayer | DecoderLayer):
            module.register_forward_pre_hook(remember)
    model(batch.src, batch.tgt_in)
    places = paper.positions(12)
    for kind, side in ((EncoderLayer, batch.src), (DecoderLayer, batch.tgt_in)):
        real = side.segments != 0
        tokens, position = side.tokens[real], side.positions[real]
        expected = model.embedding[tokens] * 32**0.5 + places[position]
        torch.testing.assert_close(inputs[kind][real], expected, atol=1e-6, rtol=1e-6)


def test_the_order_of_the_source_counts_through_positions_alone(settings):
    model = in_float64(settings()).eval()
    batch = one_per_row(some_pairs((8, 5)))
    order = torch.tensor([3, 1, 7, 0, 2, 6, 5, 4])

    def output(positions: Tensor, tokens: Tensor) -> Tensor:
        src = Tokens(tokens, positions, batch.src.segments)
        return model(src, batch.tgt_in)

    tokens, places = batch.src.tokens, batch.src.positions
    moved = (output(places, tokens[:, order]) - output(places, tokens)).abs()
    assert (moved.amax(-1) > 1e-3).all()
    nowhere = torch.zeros_like(places)
    torch.testing.assert_close(output(nowhere, tokens[:, order]), output(nowhere, tokens))


def test_initial_weights_are_as_stated(settings):
    """Projections follow Glorot and Bengio (2010): U(-a, a), a = sqrt(6 / (inputs + outputs))."""
    config = settings(
        model__d_model=64, model__d_ff=256, model__heads=4, model__d_k=12, model__d_v=40,
        model__positions="learned", tokenizer__vocabulary_size=2000, data__max_length=400,
    )  # fmt: skip
    model = new_model(config, seed=1)
    keys, values = 4 * 12, 4 * 40
    parts = {"query_key_value": [keys, keys, values], "key_value": [keys, values]}
    matrices = 0
    for name, tensor in model.state_dict().items():
        *_, module, kind = ["", *name.split(".")]
        if name in ("embedding", "positions.weight"):  # N(0, 1 / d_model)
            assert tensor.std().item() == pytest.approx(64**-0.5, rel=0.02), name
            assert abs(tensor.mean().item()) < 0.002
        elif tensor.dim() == 1:
            assert (tensor == (1.0 if (module, kind) == ("norm", "weight") else 0.0)).all(), name
        else:
            for part in tensor.split(parts.get(module, [len(tensor)])):
                bound = (6 / sum(part.shape)) ** 0.5
                assert 0.98 * bound < part.abs().max().item() <= bound, name
                assert part.std().item() == pytest.approx(bound / 3**0.5, rel=0.05), name
                matrices += 1
    assert matrices == 2 * (4 + 2) + 2 * (4 + 4 + 2)
