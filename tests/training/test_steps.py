"""Optimizer steps, compared with plain torch, and the randomness of dropout masks."""

from itertools import combinations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from nmt.config import Config
from nmt.data.layout import Batch, one_per_row
from nmt.data.pair import Pair
from nmt.training import loop as training
from nmt.training.distributed import Ranks
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer
from nmt.training.run_log import RunLog, read_log
from nmt.training.step import optimizer_step
from tests.model.paper import PaperTransformer, dropping, equation_3, new_model, pairs_in
from tests.training.runs import run

SMALL = {"training__batch_tokens": 120, "training__micro_batches": 2, "model__dropout": 0.0,
         "training__warmup_steps": 2, "training__learning_rate_factor": 0.05,
         "training__validate_every": 100}  # fmt: skip


class Recording:
    """Trains a run in float64; records its batches, its log, and its weights before and after.

    Adam divides gradients by their size, so in float32, rounding would decide the updates of
    weights whose gradients are nearly 0.
    """

    def __init__(self, config: Config, monkeypatch):
        self.steps: list[list[tuple[int, Batch]]] = []
        self.numbers: list[int] = []
        self.counted: list[int] = []  # tokens, for the speed
        self.before: dict[str, Tensor] = {}
        self.after: dict[str, Tensor] = {}
        step = training.optimizer_step

        def in_float64(module, loss_module, optimizer, micro_batches, number, *rest):
            self.steps.append(list(micro_batches))
            self.numbers.append(number)
            transformer = loss_module.transformer.double()
            self.before = self.before or copied(transformer)
            result = step(module, loss_module, optimizer, micro_batches, number, *rest)
            self.after = copied(transformer)
            if number == config.training.max_steps:
                transformer.float()
            return result

        count = RunLog.count

        def counting(log, tokens):
            self.counted.append(tokens)
            count(log, tokens)

        monkeypatch.setattr(training, "optimizer_step", in_float64)
        monkeypatch.setattr(RunLog, "count", counting)
        directory, _ = run(config)
        self.log = [line for line in read_log(directory) if "event" not in line]


def copied(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def in_plain_torch(recording: Recording, config: Config) -> tuple[list[dict], dict[str, Tensor]]:
    """Returns the expected log entry of each step, and the weights after all steps."""
    settings = config.training
    paper = PaperTransformer(recording.before, config.model)
    weights = list(paper.weights.values())
    optimizer = torch.optim.Adam(weights, betas=(0.9, 0.98), eps=1e-9)
    expected = []
    for step, micro_batches in enumerate(recording.steps, start=1):
        pairs = [pair for _, batch in micro_batches for pair in pairs_in(batch)]
        source, target = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
        loss, nll = paper.loss(pairs, settings.label_smoothing)
        optimizer.zero_grad()
        (loss / target).backward()
        norm = nn.utils.clip_grad_norm_(weights, settings.gradient_clip or float("inf"))
        factor = settings.learning_rate_factor
        rate = factor * equation_3(step, config.model.d_model, settings.warmup_steps)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        expected.append(
            {"step": step, "source_tokens": source, "target_tokens": target,
             "loss": loss.item() / target, "nll": nll.item() / target,
             "gradient_norm": norm.item(), "learning_rate": rate}
        )  # fmt: skip
    return expected, paper.weights


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training__gradient_clip": 0.5, "training__label_smoothing": 0.3},
        {"training__gradient_clip": 1000.0, "training__label_smoothing": 0.0},
        {"model__positions": "learned", "model__norm": "pre"},
    ],
)
def test_four_steps_are_those_of_adam_in_plain_torch(settings, monkeypatch, changes):
    """The warm-up ends at step 2, so that both branches of Eq. 3 are used."""
    config = settings(**SMALL, training__max_steps=4, **changes)
    recording = Recording(config, monkeypatch)
    assert recording.numbers == [1, 2, 3, 4]
    assert [
        [micro_batch for micro_batch, _ in micro_batches] for micro_batches in recording.steps
    ] == [[0, 1]] * 4
    expected, weights = in_plain_torch(recording, config)
    for line, facts in zip(recording.log, expected, strict=True):
        assert {key: line[key] for key in facts} == pytest.approx(facts, rel=1e-5)
    assert recording.counted == [facts["target_tokens"] for facts in expected]
    assert recording.after.keys() == weights.keys()
    rates = sum(facts["learning_rate"] for facts in expected)  # bounds the updates by Adam
    for name, tensor in recording.after.items():
        torch.testing.assert_close(tensor, weights[name].detach(), atol=5e-4 * rates, rtol=0)


def test_weights_and_batches_follow_from_the_seed(settings, monkeypatch):
    batches = set()
    for seed in (3, 4):
        config = settings(
            **SMALL, training__seed=seed, training__max_steps=1,
            training__run_directory=f"{settings().training.run_directory}-{seed}",
        )  # fmt: skip
        with monkeypatch.context() as patch:
            recording = Recording(config, patch)
        for name, tensor in new_model(config, seed).state_dict().items():
            assert torch.equal(recording.before[name], tensor.double()), name
        batches.add(str([pairs_in(batch) for _, batch in recording.steps[0]]))
    assert len(batches) == 2


def test_a_run_trains_with_dropout_and_validates_without(settings):
    found = []

    def remember(module, _):
        if isinstance(module, TransformerLoss):
            found.append((torch.is_grad_enabled(), module.training, module.transformer.training))

    hook = nn.modules.module.register_module_forward_pre_hook(remember)
    run(settings(training__max_steps=2, training__validate_every=1))
    hook.remove()
    step, validation = (True, True, True), (False, False, False)
    assert found == [step, validation, step, validation, validation]  # the last one is of the mean


@pytest.mark.parametrize("wanted", [False, True])
def test_steps_are_deterministic_if_they_are_to_be(settings, wanted: bool):
    """Steps on a CPU are always deterministic; on a GPU, this flag of torch makes them so."""
    found = set()
    hook = nn.modules.module.register_module_forward_pre_hook(
        lambda *_: found.add(torch.are_deterministic_algorithms_enabled())
    )
    run(settings(**SMALL, training__max_steps=1, training__deterministic=wanted))
    hook.remove()
    assert found == {wanted}


def test_bf16_multiplies_in_bf16_and_keeps_weights_and_moments_in_fp32(settings):
    """The losses are close to those of fp32, but not equal."""
    losses, seen = {}, {}
    for precision in ("fp32", "bf16"):
        name = f"{settings().training.run_directory}-{precision}"
        config = settings(**SMALL, training__max_steps=3, training__precision=precision,
                          training__run_directory=name)  # fmt: skip
        types = seen[precision] = set()

        def remember(module, arguments, output, types=types):
            if not module.training:  # translation has its own precision
                return
            if isinstance(module, nn.Linear):
                types.add(output.dtype)
            if isinstance(module, nn.LayerNorm):  # the residual stream is not converted
                types.add(arguments[0].dtype)

        hook = nn.modules.module.register_module_forward_hook(remember)
        directory, _ = run(config)
        hook.remove()
        losses[precision] = [line["loss"] for line in read_log(directory) if "event" not in line]
        for path in directory.rglob("*.safetensors"):
            assert {tensor.dtype for tensor in load_file(path).values()} == {torch.float32}
    assert seen == {"fp32": {torch.float32}, "bf16": {torch.bfloat16}}
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.02)
    assert losses["bf16"] != losses["fp32"]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_learned_positions_train_in_rows_wider_than_their_table(settings, norm: str):
    """max_length is 60, but rows have 64 tokens. Positions beyond all sentences stay unchanged."""
    config = settings(
        model__positions="learned", model__norm=norm, model__dropout=0.0,
        training__max_steps=3, training__checkpoint_every=3,
    )  # fmt: skip
    drawn = new_model(config, config.training.seed).state_dict()["positions.weight"].clone()
    widths, lengths = set(), set()

    def remember(module, arguments):
        if isinstance(module, TransformerLoss) and module.training:
            [batch] = arguments
            widths.update(side.shape[1] for side in (batch.src.tokens, batch.tgt_out))
            lengths.update(int(side.positions.max()) + 1 for side in (batch.src, batch.tgt_in))

    hook = nn.modules.module.register_module_forward_pre_hook(remember)
    directory, _ = run(config)
    hook.remove()
    assert max(widths) > 60 > max(lengths)
    found = load_file(directory / "checkpoints/step-00000003/model.safetensors")
    moved = (found["positions.weight"] != drawn).any(-1)
    assert moved.tolist() == [place < max(lengths) for place in range(60)]


def masks(
    config: Config, step: int, micro_batches: list[int], batch: Batch
) -> list[list[torch.Tensor]]:
    """Returns the factors by which each dropout multiplies in one step, by micro-batch."""
    transformer = new_model(config, seed=1).train()
    module = TransformerLoss(transformer, 0.1)
    tokens = len(micro_batches) * int((batch.tgt_out != 0).sum())
    with dropping(transformer) as factors:
        optimizer_step(module, module, new_optimizer(transformer, config),
                       [(number, batch) for number in micro_batches], step, tokens, config,
                       Ranks(0, 1, torch.device("cpu")))  # fmt: skip
    each = len(factors) // len(micro_batches)
    return [factors[begin : begin + each] for begin in range(0, len(factors), each)]


def test_the_masks_of_a_micro_batch_follow_from_seed_step_and_micro_batch_alone(settings):
    """Neither earlier random numbers nor the other micro-batches of a rank change the masks."""
    config, other_seed = (settings(model__dropout=0.5, training__seed=seed) for seed in (1, 2))
    rng = np.random.default_rng(1)
    pairs = [Pair(*rng.integers(4, 400, (2, 9)).astype(np.int32)) for _ in range(8)]
    batch = one_per_row(pairs)
    torch.manual_seed(1)
    alone = {
        (seed, step, micro_batch): masks(by_seed, step, [micro_batch], batch)[0]
        for seed, by_seed in ((1, config), (2, other_seed))
        for step in (1, 2)
        for micro_batch in (1, 2)
    }
    torch.manual_seed(2)
    in_company = masks(config, 1, [0, 1, 2], batch)[1:]
    for micro_batch, again in zip((1, 2), in_company, strict=True):
        for a, b in zip(alone[1, 1, micro_batch], again, strict=True):
            assert torch.equal(a, b)
    for (key, ours), (other, theirs) in combinations(alone.items(), 2):
        for a, b in zip(ours, theirs, strict=True):
            assert ((a == 0) == (b == 0)).float().mean().item() == pytest.approx(0.5, abs=0.1), (
                key,
                other,
            )
    flat = [tensor.flatten() for tensor in alone[1, 1, 1] if tensor.dim() == 3]
    for a, b in combinations(flat, 2):  # different within a pass too
        assert ((a == 0) == (b == 0)).float().mean().item() == pytest.approx(0.5, abs=0.1)
