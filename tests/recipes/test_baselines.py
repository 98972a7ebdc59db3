"""The LSTM is the same in training and search; both systems are trained in the same way."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import Decoding, Model
from nmt.data.layout import Batch, Shape, one_per_row, pack
from nmt.data.pair import Pair
from nmt.data.tokenizer import with_eos
from nmt.decoding.beam_search import search
from nmt.decoding.engine import SearchInput
from nmt.decoding.options import SearchOptions
from nmt.errors import InputError, Stopped
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID
from nmt.model.tokens import Tokens
from nmt.training import loop
from nmt.training.loss import TransformerLoss
from recipes.baselines import baselines, lstm
from recipes.baselines.lstm import LSTMSearch, LSTMSteps, LSTMTranslator

V = 20


def small(vocabulary: int = V, seed: int = 1, dropout: float = 0.0) -> LSTMTranslator:
    settings = Model(encoder_layers=2, decoder_layers=2, d_model=12, d_ff=1, heads=1, d_k=1, d_v=1,
                     dropout=dropout)  # fmt: skip
    model = LSTMTranslator(settings, vocabulary)
    model.initialize(seed)
    with torch.no_grad():
        model.score.weight.mul_(8)  # attention far from uniform
    return model.eval()


def some_pairs(count: int, seed: int = 1, longest: int = 7) -> list[Pair]:
    rng = np.random.default_rng(seed)
    sides = [
        [with_eos(rng.integers(4, V, rng.integers(1, longest)).tolist()) for _ in range(count)]
        for _ in range(2)
    ]
    return [Pair(source, target) for source, target in zip(*sides, strict=True)]


@torch.no_grad()
def test_steps_are_the_whole_forward_pass_for_any_reordering_of_the_beam():
    """The second hypothesis continues the first one's place at some steps, and the reverse."""
    model, batch = small(), one_per_row(some_pairs(3))
    steps, width, length = LSTMSteps(model, batch.src.tokens, 2), 2, 5
    generator = torch.Generator().manual_seed(1)
    prefixes = torch.zeros(3, width, 0, dtype=torch.long)
    last, parents = torch.full((3, width), BOS_ID), torch.zeros(3, width, dtype=torch.long)
    kept = torch.arange(3)
    for n in range(length):
        if n == 3:
            kept = torch.tensor([0, 2])
            steps.keep(kept)
            prefixes, last, parents = prefixes[kept], last[kept], parents[kept]
        prefixes = prefixes.gather(1, parents[..., None].expand(-1, -1, n))
        prefixes = torch.cat([prefixes, last[..., None]], 2)
        logits = steps.step(last, parents)
        for w in range(width):
            src, tgt = (Tokens.of_rows(each) for each in (batch.src.tokens[kept], prefixes[:, w]))
            whole = model.logits(model(src, tgt))[:, -1]
            torch.testing.assert_close(logits[:, w], whole, atol=1e-5, rtol=1e-5)
        last = torch.randint(4, V, last.shape, generator=generator)
        parents = torch.randint(0, width, last.shape, generator=generator)


@torch.no_grad()
def test_packed_rows_and_padding_have_no_influence():
    model, pairs = small(), some_pairs(9)
    shape = Shape(16, 16)
    packed = pack(pairs, shape).to(torch.device("cpu"))
    assert packed.src.segments.max() > 1 and (packed.src.segments == 0).any()
    alone: Batch = one_per_row(pairs)
    module = TransformerLoss(model, 0.1)
    torch.testing.assert_close(module(packed), module(alone))
    each = [module(one_per_row([pair]))[0] for pair in pairs]
    torch.testing.assert_close(sum(each), module(alone)[0], atol=1e-4, rtol=1e-5)
    src = alone.src.tokens
    wider = F.pad(src, (0, 3), value=PAD_ID)
    last = torch.full((9, 1), BOS_ID), torch.zeros(9, 1, dtype=torch.long)
    first, second = (LSTMSteps(model, side, 1).step(*last) for side in (src, wider))
    torch.testing.assert_close(first, second)


@torch.no_grad()
def test_attention_is_a_distribution_over_the_source_without_padding():
    batch = one_per_row(some_pairs(6))
    [weights] = small().attention_weights(batch.src, batch.tgt_in).cross
    assert weights.shape == (6, 1, batch.tgt_in.tokens.shape[1], batch.src.tokens.shape[1])
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    padding = (batch.src.tokens == PAD_ID)[:, None, None].expand_as(weights)
    assert padding.any() and (weights[padding] == 0).all()
    assert weights.amax(-1).mean() > 2 / weights.shape[-1]


@torch.no_grad()
def test_beam_search_finds_what_exhaustive_search_finds():
    """With two content tokens and at most three tokens, eight live hypotheses are all of them."""
    model, limit, alpha = small(6, seed=3), 3, 0.6
    src = torch.tensor([[4, 5, 4, EOS_ID], [5, EOS_ID, PAD_ID, PAD_ID]])
    found = search(LSTMSteps(model, src, 8), [limit] * 2, beam=8, alpha=alpha, n_best=4)
    for row, hypotheses in zip(src, found, strict=True):
        scored = []
        for n in range(limit):
            for content in itertools.product((4, 5), repeat=n):
                tgt = torch.tensor([[BOS_ID, *content]])
                logits = model.logits(
                    model(Tokens.of_rows(row[row > 0][None]), Tokens.of_rows(tgt))
                )
                labels = torch.tensor([*content, EOS_ID])
                total = -F.cross_entropy(logits[0], labels, reduction="sum").item()
                scored.append((total / ((6 + n) / 6) ** alpha, [*content, EOS_ID]))
        scored.sort(reverse=True)
        assert [each.tokens for each in hypotheses] == [tokens for _, tokens in scored[:4]]
        for each, (expected, _) in zip(hypotheses, scored, strict=False):
            assert each.score == pytest.approx(expected, abs=1e-5)


def test_four_pairs_are_learned_by_heart_and_translated():
    model, pairs = small().train(), some_pairs(4, seed=5)
    module, batch = TransformerLoss(model, 0.0), pack(pairs, Shape(32, 32)).to(torch.device("cpu"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(120):
        optimizer.zero_grad()
        module(batch)[0].backward()
        optimizer.step()
    engine = LSTMSearch([model.eval()], Decoding(beam=4), tuple)
    inputs = [SearchInput(pair.source[:-1].tolist(), []) for pair in pairs]
    for beam in (1, 4):
        found = engine.find(inputs, SearchOptions(beam=beam))
        assert [each[0].tokens for each in found] == [pair.target.tolist() for pair in pairs]


def test_dropout_masks_depend_on_the_step_alone():
    model, batch = small(dropout=0.3).train(), one_per_row(some_pairs(5))
    losses = []
    for key in ((1, 7, 0), (1, 7, 0), (1, 8, 0)):
        model.randomness.seed(*key)
        losses.append(TransformerLoss(model, 0.1)(batch)[0].item())
    assert losses[0] == losses[1] != losses[2]


def test_flops_are_those_that_torch_counts():
    model = small()
    src, tgt = (Tokens.of_rows(torch.randint(4, V, (1, length))) for length in (7, 9))
    # without oneDNN, whose LSTM the counter ignores
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        logits = model.logits(model(src, tgt))
        F.cross_entropy(logits[0], torch.zeros(9, dtype=torch.long)).backward()
    settings = Model(encoder_layers=2, decoder_layers=2, d_model=12, d_ff=1, heads=1, d_k=1, d_v=1)
    # no gradient of the encoder's initial states: 2 layers, 2 directions, 4 gates, d_model / 2 = 6
    missing = 2 * 2 * 2 * 4 * 6 * 6
    assert lstm.training_flops(settings, V, [7], [9]) == counter.get_total_flops() + missing


@pytest.fixture
def command(settings, tmp_path: Path) -> list[str]:
    """Arguments without a budget; each step has a checkpoint, every second step a validation."""
    config = settings(
        training__validate_every=2, training__checkpoint_every=1, training__precision="auto"
    )
    (tmp_path / "tiny.yaml").write_text(config.to_yaml(), encoding="utf-8")
    return [str(tmp_path / "tiny.yaml"), "data.test=[{demo: {pairs: 20, seed: 1}}]",
            "--lstm", "model.d_model=16", "--output", str(tmp_path / "out")]  # fmt: skip


def test_a_stopped_command_ends_with_the_same_bytes_and_finished_runs_are_kept(
    command: list[str], tmp_path: Path, monkeypatch, capsys
):
    baselines.main([*command, "--steps", "4"])
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out" / "table.md").read_text()
    assert "difference from lstm" in printed
    results = json.loads((tmp_path / "out" / "table.json").read_text())
    assert [(each["system"], each["steps"]) for each in results] == [
        ("lstm", 4),
        ("transformer", 4),
    ]
    assert len({each["target_tokens"] for each in results}) == 1  # the same batches
    assert results[0]["precision"] == results[1]["precision"] in ("fp32", "bf16")
    weights = load_file(tmp_path / "out/transformer/seed-1/model/model.safetensors").values()
    assert results[1]["parameters"] == sum(each.numel() for each in weights)
    for each in results:
        assert [point["step"] for point in each["curve"]] == [2, 4]
        assert each["curve"][1]["flops"] == each["flops"] > each["curve"][0]["flops"]
        assert math.isfinite(each["curve"][1]["nll"])

    kept = sorted((tmp_path / "out" / "lstm" / "seed-1" / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["lstm-00000003", "lstm-00000004"]  # average_last

    with monkeypatch.context() as patched:
        patched.setattr(baselines, "trained", lambda *_: pytest.fail("trained again"))
        baselines.main([*command, "--steps", "4"])
        with pytest.raises(pytest.fail.Exception, match="trained again"):  # more steps
            baselines.main([*command, "--steps", "5"])
    assert capsys.readouterr().out == printed

    again = [*command[:-1], str(tmp_path / "again"), "--steps", "4"]
    update = loop._Loop.update

    def stopping(self, plan, micro_batches):
        if plan.step == 3:
            self._stop.signal_number = 15
        update(self, plan, micro_batches)

    with monkeypatch.context() as patched:
        patched.setattr(loop._Loop, "update", stopping)
        with pytest.raises(Stopped, match="Stopped after step 3, saved in"):
            baselines.main(again)
    baselines.main(again)
    whole, resumed = (
        tmp_path / name / "lstm" / "seed-1" / "checkpoints" / "lstm-00000004" / "model.safetensors"
        for name in ("out", "again")
    )
    assert whole.read_bytes() == resumed.read_bytes()
    assert (tmp_path / "again" / "lstm" / "seed-1" / "translations.txt").read_text() == (
        tmp_path / "out" / "lstm" / "seed-1" / "translations.txt"
    ).read_text()


def test_a_budget_of_flops_ends_at_the_step_that_reaches_it(command: list[str], tmp_path: Path):
    steps = {}
    for system in (baselines.LSTM, baselines.TRANSFORMER):
        config = baselines.configured(system, 1, baselines._arguments([*command, "--steps", "9"]))
        spent = [total for total, _ in itertools.islice(baselines.costs(system, config), 5)]
        assert spent == sorted(set(spent))
        arguments = baselines._arguments([*command, "--flops", str(spent[3])])
        ended = baselines.configured(system, 1, arguments)
        steps[system] = (ended.training.max_steps, ended.model.d_model)
    assert steps == {"lstm": (4, 16), "transformer": (4, 32)}
    timed = baselines.configured("lstm", 1, baselines._arguments([*command, "--minutes", "30"]))
    assert timed.training.max_hours == 0.5


@pytest.mark.parametrize("flag", ["--steps", "--minutes", "--flops"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "x"])
def test_a_budget_must_be_above_0(flag: str, value: str, command: list[str], capsys):
    with pytest.raises(SystemExit) as end:
        baselines.main([*command, f"{flag}={value}"])
    assert end.value.code == 2 and f"{flag}: must be a " in capsys.readouterr().err


def test_unequal_stacks_are_refused(command: list[str]):
    command[3] = "model.encoder_layers=1"
    with pytest.raises(InputError, match="encoder_layers is 1 and decoder_layers is 2"):
        baselines.main([*command, "--steps", "4"])
