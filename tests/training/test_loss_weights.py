"""Loss weights of pairs, from the files of corpora to gradients, compared with plain torch."""

import json
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.config import Config, validate
from nmt.data.layout import Shape, one_per_row, pack
from nmt.data.loss_weights import token_weights
from nmt.data.pair import Pair
from nmt.data.plan import Plan, StepPlan
from nmt.data.prepare import prepare
from nmt.data.prepared_data import PreparedData
from nmt.data.shards import Shard, pairs_of, read_shard, write_shard
from nmt.demo_language import demo_pairs
from nmt.model.special_ids import PAD_ID
from nmt.training.distributed import StopRequest
from nmt.training.loss import TransformerLoss
from nmt.training.step import add_gradients
from nmt.training.validation import _losses
from tests.model.paper import new_model
from tests.tiny import tiny_settings

CPU = torch.device("cpu")
Gradients = dict[str, Tensor]


@pytest.fixture(scope="module")
def weights() -> dict[str, float]:
    """The loss weights of 150 pairs, by target."""
    pairs = demo_pairs(150, 7, "train")
    random = np.random.default_rng(1)
    found = {pair.target: float(w) for pair, w in zip(pairs, random.integers(0, 7, 150) / 2)}  # noqa: B905
    assert {0.0, 0.5, 3.0} <= {*found.values()}
    return found


@pytest.fixture(scope="module")
def config(tmp_path_factory, weights: dict[str, float]) -> Config:
    """A configuration with one corpus of each kind of file, and the demo, which has no weights."""
    folder = tmp_path_factory.mktemp("weighted")
    rows = [(pair.source, pair.target) for pair in demo_pairs(150, 7, "train")]
    rows = [(source, target, weights[target]) for source, target in rows]
    duplicate = (*rows[0][:2], 9)
    lines = [
        f"{weight}\t{source}\t{target}\n" for source, target, weight in [*rows[:50], duplicate]
    ]
    (folder / "a.tsv").write_text("".join(lines), encoding="utf-8")
    objects = [{"x": {"en": s, "w": w}, "de": t} for s, t, w in rows[50:100]]
    (folder / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    names = ["en", "de", "w"]
    columns = dict(zip(names, map(list, zip(*rows[100:], strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "a.parquet")
    settings = tiny_settings(folder)
    settings["data"]["train"] = [
        {"tsv": {"path": f"{folder}/a.tsv", "source_column": 1, "target_column": 2,
                 "loss_weight_column": 0}},
        {"jsonl": {"path": f"{folder}/a.jsonl", "source_column": "x.en", "target_column": "de",
                   "loss_weight_column": "x.w"}, "weight": 2.0},
        {"parquet": {"path": f"{folder}/a.parquet", "source_column": "en", "target_column": "de",
                     "loss_weight_column": "w"}},
        {"demo": {"pairs": 50, "seed": 2}},
    ]  # fmt: skip
    settings["model"]["dropout"] = 0.0
    config = validate(settings, {}, "weighted")
    prepare(config, note=lambda line: None)
    return config


def model(config: Config) -> TransformerLoss:
    return TransformerLoss(new_model(config, seed=1).double(), 0.1)


def gradients(module: TransformerLoss) -> Gradients:
    found = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    module.zero_grad()
    return found


def assert_close(found: Gradients, expected: Gradients) -> None:
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        torch.testing.assert_close(found[name], each, rtol=1e-5, atol=1e-7)


def in_micro_batches(module: TransformerLoss, shards: list[Shard], step: StepPlan, config: Config):
    """Returns the loss, nll and gradients of a step, computed as in `optimizer_step`."""
    sums = torch.zeros(2, dtype=torch.float64)
    for micro_batch in step.micro_batches:
        batch = pack(pairs_of(shards, micro_batch), Shape(64, 64)).to(CPU)
        sums += add_gradients(module, batch, torch.tensor(step.loss_divisor), config)
    return *(sums / step.loss_divisor).tolist(), gradients(module)


def one_by_one(module: TransformerLoss, pairs: list[Pair], weights: list[float]):
    """Computes the same values with torch's cross-entropy, pair by pair, with given weights."""
    smoothed, nll, divisor = torch.zeros(()), 0.0, 0.0
    for pair, weight in zip(pairs, weights, strict=True):
        batch = one_per_row([pair])
        logits = module.transformer.logits(module.transformer(batch.src, batch.tgt_in))[0]
        nll += weight * F.cross_entropy(logits, batch.tgt_out[0], reduction="sum").item()
        of_pair = F.cross_entropy(logits, batch.tgt_out[0], reduction="sum", label_smoothing=0.1)
        smoothed, divisor = smoothed + weight * of_pair, divisor + weight * len(pair.target)
    (smoothed / divisor).backward()
    return smoothed.item() / divisor, nll / divisor, gradients(module)


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_step_is_the_weighted_mean_over_its_pairs_however_it_is_cut(config, weights, is_plain):
    """The expected values use the weights in the files, which are found by each pair's target."""
    data = PreparedData.of(config)
    shards, tokenizer, module = data.shards("train"), data.tokenizer(), model(config)
    module.is_plain = is_plain
    plans = [Plan(shards, 400, micro_batches, seed=1) for micro_batches in (1, 2, 3)]
    used: list[float] = []
    for steps in islice(zip(*(plan.steps() for plan in plans), strict=True), 2):
        pairs = pairs_of(shards, np.concatenate(steps[0].micro_batches))
        texts = [tokenizer.decode(pair.target.tolist()) for pair in pairs]
        own = [weights.get(text, 1.0) for text in texts]
        used += own
        loss, nll, expected = one_by_one(module, pairs, own)
        for step in steps:
            *values, found = in_micro_batches(module, shards, step, config)
            assert values == pytest.approx([loss, nll], rel=1e-5)
            assert_close(found, expected)
    assert len({*used}) > 4 and 1.0 in used


def test_a_weight_of_1_changes_no_bit_and_a_weight_of_0_leaves_a_pair_out(config):
    shards, module = PreparedData.of(config).shards("train"), model(config).float()
    plain = [Pair(*pair) for pair in pairs_of(shards, np.arange(8))]

    def computed(pairs: list[Pair]):
        batch = pack(pairs, Shape(64, 64)).to(CPU)
        return *add_gradients(module, batch, torch.tensor(10.0), config), gradients(module)

    ones = [Pair(*pair, {"loss_weight": 1.0}) for pair in plain]
    for found, expected in zip(computed(ones), computed(plain), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    some = [Pair(*pair, {"loss_weight": float(i < 5)}) for i, pair in enumerate(plain)]
    for found, expected in zip(computed(some), computed(plain[:5]), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    none = [Pair(*pair, {"loss_weight": 0.0}) for pair in plain]
    loss, nll, zeros = computed(none)
    assert loss == nll == 0 and not any(each.any() for each in zeros.values())


def test_the_divisor_is_the_sum_of_the_weights_of_the_tokens(config, tmp_path):
    """Steps mix pairs with weights per token, with a weight per pair, and without weights."""
    data = PreparedData.of(config)
    of_pairs, *_, without = data.shards("train")
    random = np.random.default_rng(1)
    pairs = pairs_of([without], without.first + np.arange(len(without)))
    each = [Pair(*pair, {"loss_weight": random.integers(0, 4, len(pair.target)) / 2})
            for pair in pairs]  # fmt: skip
    write_shard(tmp_path / "tokens.arrow", each)
    first = len(of_pairs) + len(without)
    shards = [replace(of_pairs, first=0), replace(without, first=len(of_pairs)),
              read_shard(tmp_path / "tokens.arrow", first=first)]  # fmt: skip
    for step in islice(Plan(shards, 400, 1, seed=1).steps(), 5):
        [micro_batch] = step.micro_batches
        batch = pack(pairs_of(shards, micro_batch), Shape(64, 64)).to(CPU)
        weights = token_weights(batch) * (batch.tgt_out != PAD_ID)
        assert step.loss_divisor == weights.double().sum() != step.target_tokens


def test_a_step_without_any_weight_is_divided_by_1(config):
    shards = PreparedData.of(config).shards("train")
    shards = [Shard(s.path, s.source, s.target, 1.0, s.first, {"loss_weight": np.zeros(len(s))})
              for s in shards]  # fmt: skip
    assert next(Plan(shards, 400, 1, seed=1).steps()).loss_divisor == 1.0


def test_of_duplicates_the_first_weight_stays_and_no_column_is_stored_without_one(config, weights):
    data = PreparedData.of(config)
    tsv, _, _, demo = data.shards("train")
    assert len(tsv) == 50 and 9.0 not in tsv.columns["loss_weight"]
    assert not demo.columns and len(tsv.columns) == 1
    assert not pack([demo[0]], Shape(64, 64)).to(CPU).columns


def test_validation_does_not_weigh(config):
    shards, module = PreparedData.of(config).shards("train"), model(config)
    weighted = pairs_of(shards, np.arange(20))
    plain = [Pair(*pair) for pair in weighted]
    found, expected = (
        _losses(module, pairs, config, CPU, StopRequest()) for pairs in (weighted, plain)
    )
    assert found == expected
