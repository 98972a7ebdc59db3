"""The whole model: compared with torch's modules, attention masks, and cached decoding."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from nmt.data.layout import Batch, one_per_row, packed
from nmt.data.pair import Pair, TokenPair
from nmt.model.attention import CrossAttention, SelfAttention, recorded_weights
from nmt.model.kernels.prepacking import Precision, prepack
from nmt.model.special_ids import BOS_ID, EOS_ID
from nmt.model.stepper import Stepper
from nmt.model.tokens import Tokens
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import new_transformer
from nmt.training.loss import TransformerLoss

VARIANTS = {
    "post": {},
    "pre": {"model__norm": "pre"},
    "learned": {"model__positions": "learned"},
    "window": {"model__attention_window": 5},
    "marian": {"model__feed_forward": "swish", "model__output_bias": True},
    "later": {
        "model__norm_type": "rms", "model__feed_forward": "swiglu", "model__positions": "rotary",
    },
}  # fmt: skip


@pytest.fixture(params=VARIANTS)
def transformer(request, settings) -> Transformer:
    model = new_transformer(settings(**VARIANTS[request.param])).eval()
    model.initialize(3)
    if model.output_bias is not None:
        model.output_bias.data = torch.linspace(-3, 3, len(model.output_bias))
    model.positions.register_forward_pre_hook(below_length)
    return model


def below_length(_, arguments: tuple[torch.Tensor, int]) -> None:
    """A hook that checks that all positions are below the given length."""
    positions, length = arguments
    assert int(positions.max()) < length


def random_pairs(number: int, seed: int = 1) -> list[TokenPair]:
    rng = np.random.default_rng(seed)

    def sentence() -> np.ndarray:
        return np.append(rng.integers(4, 400, rng.integers(1, 12)), EOS_ID).astype(np.int32)

    return [Pair(sentence(), sentence()) for _ in range(number)]


def hidden_by_pair(model: Transformer, batch: Batch) -> dict[tuple[int, ...], torch.Tensor]:
    """Maps the target tokens of each pair to its decoder outputs."""
    hidden = model(batch.src, batch.tgt_in)
    found = {}
    for row in range(len(hidden)):
        for segment in range(1, int(batch.tgt_in.segments[row].max()) + 1):
            own = batch.tgt_in.segments[row] == segment
            found[tuple(batch.tgt_out[row, own].tolist())] = hidden[row, own]
    return found


def test_packed_equals_one_per_row_equals_one_by_one(transformer: Transformer):
    pairs = random_pairs(17)
    rows, packs = one_per_row(pairs), packed(pairs, capacity=32)
    assert len(packs.src.tokens) < len(rows.src.tokens) / 2
    together, in_packs = hidden_by_pair(transformer, rows), hidden_by_pair(transformer, packs)
    for pair in pairs:
        ((tokens, alone),) = hidden_by_pair(transformer, one_per_row([pair])).items()
        torch.testing.assert_close(together[tokens], alone, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(in_packs[tokens], alone, atol=1e-5, rtol=1e-4)


def test_packed_gradients_equal_one_per_row(transformer: Transformer):
    pairs = random_pairs(17)
    module = TransformerLoss(transformer, 0.1)
    gradients = []
    for batch in (one_per_row(pairs), packed(pairs, capacity=32)):
        loss, _ = module(batch)
        gradients.append(torch.autograd.grad(loss, list(transformer.parameters())))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


def test_no_position_sees_the_future(transformer: Transformer):
    source, target = random_pairs(1)[0]
    target = np.append(np.arange(50, 60), EOS_ID).astype(np.int32)
    batch = one_per_row([Pair(source, target)])
    before = transformer(batch.src, batch.tgt_in)
    for changed in range(1, len(target)):
        other = one_per_row([Pair(source, target)])
        other.tgt_in.tokens[0, changed] = 333
        after = transformer(other.src, other.tgt_in)
        assert torch.equal(after[0, :changed], before[0, :changed])
        assert not torch.allclose(after[0, changed:], before[0, changed:])


def test_every_target_position_sees_every_source_token(transformer: Transformer):
    source, target = random_pairs(1, seed=5)[0]
    batch = one_per_row([Pair(source, target)])
    before = transformer(batch.src, batch.tgt_in)
    for changed in range(len(source)):
        other = one_per_row([Pair(source, target)])
        other.src.tokens[0, changed] = 333
        difference = (transformer(other.src, other.tgt_in) - before).abs().amax(-1)
        assert (difference > 0).all()


def test_cached_steps_equal_teacher_forcing(transformer: Transformer):
    """One target has 51 tokens, for which the cache must grow."""
    long = np.append(np.arange(4, 54), EOS_ID).astype(np.int32)
    pairs = [*random_pairs(5, seed=2), Pair(long[-7:], long)]
    longest = max(len(target) for _, target in pairs)
    batch = one_per_row(pairs)
    expected = transformer.logits(transformer(batch.src, batch.tgt_in))
    with torch.inference_mode():
        steps = Stepper(transformer, batch.src.tokens, beam=1, max_length=longest)
        parents = torch.zeros(6, 1, dtype=torch.long)
        for place in range(longest):
            logits = steps.step(batch.tgt_in.tokens[:, place : place + 1], parents)
            real = batch.tgt_out[:, place] != 0
            torch.testing.assert_close(logits[real, 0], expected[real, place], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_shortlist_selects_logits(transformer: Transformer, precision: Precision):
    src = one_per_row(random_pairs(3, seed=5)).src.tokens
    only = torch.tensor([0, 1, 2, 3, 4, 9, 77, 200, 399])
    last, parents = torch.full((3, 1), BOS_ID), torch.zeros(3, 1, dtype=torch.long)
    with torch.inference_mode():
        prepack(transformer, precision)
        expected = Stepper(transformer, src, beam=1, max_length=1).step(last, parents)[..., only]
        found = Stepper(transformer, src, beam=1, max_length=1, only=only).step(last, parents)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_cached_steps_follow_reordered_beams_and_leaving_sentences(transformer: Transformer):
    """Random tokens and parents, a sentence that leaves, and 40 steps, in which the cache grows."""
    generator = torch.Generator().manual_seed(1)
    batch = one_per_row(random_pairs(3, seed=4))
    W, alive = 3, torch.arange(3)
    histories = [[[BOS_ID] for _ in range(W)] for _ in range(3)]
    parents = torch.arange(W).expand(3, W)
    with torch.inference_mode():
        steps = Stepper(transformer, batch.src.tokens, beam=W, max_length=50)
        for place in range(40):
            last = torch.tensor([[history[-1] for history in rows] for rows in histories])
            logits = steps.step(last, parents)
            if place in (0, 1, 7, 31, 32, 39):
                for row, sentence in enumerate(alive.tolist()):
                    src = batch.src.tokens[sentence : sentence + 1]
                    for w in range(W):
                        tgt = Tokens.of_rows(torch.tensor([histories[row][w]]))
                        expected = transformer.logits(transformer(Tokens.of_rows(src), tgt))
                        torch.testing.assert_close(
                            logits[row, w], expected[0, -1], atol=1e-4, rtol=1e-4
                        )
            if place == 5:
                steps.keep(torch.tensor([0, 2]))
                histories, alive = [histories[0], histories[2]], alive[[0, 2]]
            parents = torch.randint(W, (len(alive), W), generator=generator)
            tokens = torch.randint(4, 400, (len(alive), W), generator=generator)
            histories = [
                [[*histories[row][parents[row, w]], int(tokens[row, w])] for w in range(W)]
                for row in range(len(alive))
            ]


def test_attention_weights_are_handed_back(transformer: Transformer):
    batch = one_per_row(random_pairs(2))
    weights = transformer.attention_weights(batch.src, batch.tgt_in)
    S, T = batch.src.tokens.shape[1], batch.tgt_out.shape[1]
    assert [w.shape for w in weights.encoder] == [(2, 2, S, S)] * 2
    assert [w.shape for w in weights.decoder] == [(2, 2, T, T)] * 2
    assert [w.shape for w in weights.cross] == [(2, 2, T, S)] * 2
    torch.testing.assert_close(weights.cross[1].sum(-1), torch.ones(2, 2, T))
    transformer(batch.src, batch.tgt_in)
    assert len(weights.encoder + weights.decoder + weights.cross) == 6  # records no more


def test_weights_are_recorded_in_the_thread_that_asks_alone(transformer: Transformer):
    batch = one_per_row(random_pairs(2))
    with recorded_weights() as weights:
        other = threading.Thread(target=transformer, args=(batch.src, batch.tgt_in))
        other.start()
        other.join()
    assert weights == []


def test_a_stepper_takes_no_more_steps_than_it_was_made_for(transformer: Transformer):
    src = one_per_row(random_pairs(1)).src.tokens
    with torch.inference_mode():
        steps = Stepper(transformer, src, beam=2, max_length=1)
        steps.step(torch.full((1, 2), BOS_ID), torch.tensor([[0, 1]]))
        with pytest.raises(ValueError, match="is 1, so no more steps"):
            steps.step(torch.tensor([[5, 6]]), torch.tensor([[0, 1]]))


def test_a_window_as_long_as_the_sentence_changes_nothing(settings):
    """In a window of 2 n - 1 positions, the first of n tokens can attend to the last."""
    pairs = random_pairs(17)
    batch, rows = packed(pairs, capacity=32), one_per_row(pairs)
    longest = max(rows.src.tokens.shape[1], rows.tgt_out.shape[1])
    found = []
    for window in (None, 2 * longest - 1, 3):
        model = new_transformer(settings(model__attention_window=window)).eval()
        model.initialize(3)
        with torch.inference_mode():
            steps = Stepper(model, rows.src.tokens, beam=2, max_length=longest)
            for place in range(longest):
                last = torch.tensor([place, 99 - place]).expand(17, 2)
                logits = steps.step(last, torch.arange(2).expand(17, 2))
            hidden = model(batch.src, batch.tgt_in)[batch.tgt_out != 0]
        found.append([hidden, logits])
    for unrestricted, long, short in zip(*found, strict=True):
        assert torch.equal(unrestricted, long)
        assert not torch.allclose(unrestricted, short)


def copy_norm(theirs: nn.LayerNorm, ours: nn.LayerNorm) -> None:
    theirs.load_state_dict(ours.state_dict())


def copy_attention(theirs: nn.MultiheadAttention, ours: SelfAttention | CrossAttention) -> None:
    if isinstance(ours, SelfAttention):
        weight, bias = ours.query_key_value.weight, ours.query_key_value.bias
    else:
        weight = torch.cat([ours.query.weight, ours.key_value.weight])
        bias = torch.cat([ours.query.bias, ours.key_value.bias])
    theirs.in_proj_weight.data.copy_(weight)
    theirs.in_proj_bias.data.copy_(bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


@pytest.mark.parametrize(("norm", "window"), [("post", None), ("pre", None), ("post", 5)])
def test_the_model_equals_torchs_transformer_with_the_same_weights(settings, norm: str, window):
    config = settings(
        model__norm=norm, model__d_k=16, model__d_v=16, model__attention_window=window
    )
    ours = new_transformer(config).eval()
    ours.initialize(1)
    for parameter in ours.parameters():  # so that biases and norms matter
        parameter.data.add_(torch.randn_like(parameter) * 0.05)
    theirs = nn.Transformer(32, 2, 2, 2, 64, 0.0, batch_first=True, norm_first=norm == "pre").eval()
    for mine, other in zip(ours.encoder, theirs.encoder.layers, strict=True):
        copy_attention(other.self_attn, mine.self_attention)
        copy_norm(other.norm1, mine.self_attention_residual.norm)
        copy_norm(other.norm2, mine.feed_forward_residual.norm)
        other.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
        other.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
    for mine, other in zip(ours.decoder, theirs.decoder.layers, strict=True):
        copy_attention(other.self_attn, mine.self_attention)
        copy_attention(other.multihead_attn, mine.cross_attention)
        copy_norm(other.norm1, mine.self_attention_residual.norm)
        copy_norm(other.norm2, mine.cross_attention_residual.norm)
        copy_norm(other.norm3, mine.feed_forward_residual.norm)
        other.linear1.load_state_dict(mine.feed_forward.inner.state_dict())
        other.linear2.load_state_dict(mine.feed_forward.outer.state_dict())
    if norm == "pre":
        copy_norm(theirs.encoder.norm, ours.encoder_norm)
        copy_norm(theirs.decoder.norm, ours.decoder_norm)
    else:  # unlike the paper, torch has a final norm with post-norm too
        theirs.encoder.norm = theirs.decoder.norm = None
    batch = one_per_row(random_pairs(6))
    S, T = batch.src.tokens.shape[1], batch.tgt_out.shape[1]
    each_side = S + T if window is None else (window - 1) / 2
    hidden = [  # torch masks where True
        [[abs(query - key) > each_side for key in range(size)] for query in range(size)]
        for size in (S, T)
    ]
    src, tgt = (
        ours.embed(side.tokens, side.positions, side.tokens.shape[1])
        for side in (batch.src, batch.tgt_in)
    )
    expected = theirs(
        src,
        tgt,
        src_mask=torch.tensor(hidden[0]),
        tgt_mask=torch.tensor(hidden[1]) | torch.ones(T, T).triu(1).bool(),
        src_key_padding_mask=batch.src.segments == 0,
        memory_key_padding_mask=batch.src.segments == 0,
    )
    real = batch.tgt_out != 0
    torch.testing.assert_close(
        ours(batch.src, batch.tgt_in)[real], expected[real], atol=1e-4, rtol=1e-4
    )


def test_one_matrix_embeds_and_projects(settings):
    model = new_transformer(settings())
    model.initialize(1)
    assert sum(p.numel() for p in model.parameters() if 400 in p.shape) == 400 * 32
    assert [name for name, t in model.state_dict().items() if 400 in t.shape] == ["embedding"]
    x = torch.randn(3, 32)
    torch.testing.assert_close(model.logits(x), x @ model.embedding.T)


def test_another_output_projection_may_stand_in_its_place(settings):
    class Rounded(nn.Module):
        """An output projection with rounded weights, similar to a quantized one."""

        def __init__(self, embedding: torch.Tensor):
            super().__init__()
            self.register_buffer("weight", (embedding.detach() * 8).round() / 8, persistent=False)

        def forward(self, hidden: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            return hidden @ self.weight.T

    model = new_transformer(settings()).eval()
    model.initialize(1)
    names, x = set(model.state_dict()), torch.randn(3, 32)
    exact = model.logits(x)
    model.projection = Rounded(model.embedding)
    assert set(model.state_dict()) == names
    assert 0 < (model.logits(x) - exact).abs().max() < 2


def test_initial_weights_depend_on_the_seed_alone(settings):
    config = settings()
    first, second, other = (new_transformer(config) for _ in range(3))
    for model, seed in ((first, 1), (second, 1), (other, 2)):
        model.initialize(seed)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first.embedding, other.embedding)
