"""Training on a simulated GPU: what a CPU computes, and no wait of the host within a step."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.config import Config, validate
from nmt.data.layout import fixed_shape, pack
from nmt.errors import DivergedError
from nmt.runs.model_directory import new_transformer
from nmt.training.distributed import Ranks
from nmt.training.loss import TransformerLoss
from nmt.training.optimize import StepResult, adam, optimizer_step
from nmt.training.run_log import read_log
from nmt.training.train import train
from tests.tiny import tiny_settings

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
VOCABULARY = 400


def config_of(**training) -> Config:
    content = tiny_settings(Path("none"))
    content["model"]["dropout"] = training.pop("dropout", 0.0)
    content["training"] |= {"deterministic": False} | training
    return validate(content, {}, "tiny")


class Trainer:
    """Takes the steps of `nmt train` with the same pairs on either device."""

    def __init__(self, config: Config, device: torch.device, slots: int):
        transformer = new_transformer(config)
        transformer.initialize(1)
        self.module = TransformerLoss(transformer.to(device).train(), 0.1)
        self.optimizer, self.config, self.slots = adam(transformer), config, slots
        self.ranks, self.taken = Ranks(0, 1, device), 0

    def step(self) -> StepResult:
        self.taken += 1
        random, device = np.random.default_rng(self.taken), self.ranks.device
        slots, tokens = [], 0
        for slot in range(self.slots):
            pairs = [(ids(random), ids(random)) for _ in range(9)]
            tokens += sum(len(target) for _, target in pairs)
            host = pack(pairs, fixed_shape(500, 1, 60), is_pinned=device.type == "cuda")
            slots.append((slot, host.to(device)))
        return optimizer_step(
            self.module, self.module, self.optimizer, slots, self.taken, tokens,
            self.config, self.ranks,
        )  # fmt: skip

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: tensor.cpu() for name, tensor in self.module.state_dict().items()}


def ids(random: np.random.Generator) -> np.ndarray:
    return np.append(random.integers(4, VOCABULARY, random.integers(2, 30)), 2).astype(np.int32)


STEPS = [
    {"slots": 1},
    {"slots": 1, "gradient_clip": 0.1},
    {"slots": 4, "gradient_clip": 0.1},
]


@pytest.mark.parametrize("case", STEPS, ids=str)
def test_steps_in_fp32_are_a_cpus(gpu, case):
    trainers = [Trainer(config_of(**_settings(case)), each, case["slots"]) for each in (GPU, CPU)]
    for _ in range(3):
        found, expected = (each.step() for each in trainers)
        assert found.loss == pytest.approx(expected.loss, rel=1e-5)
        assert found.nll == pytest.approx(expected.nll, rel=1e-5)
        assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-4)
    found, expected = (each.weights() for each in trainers)
    for name in found:
        if "key" not in name or "weight" in name:  # a bias of keys has no gradient but rounding
            torch.testing.assert_close(found[name], expected[name], rtol=0, atol=2e-4, msg=name)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("case", STEPS, ids=str)
def test_no_step_after_the_first_waits(gpu, case, precision):
    trainer = Trainer(
        config_of(**_settings(case), dropout=0.1, precision=precision), GPU, case["slots"]
    )
    results = [trainer.step()]
    for _ in range(2):
        gpu.restart()
        results.append(trainer.step())
        assert list(map(str, gpu.waits)) == []
    assert all(math.isfinite(each.loss) and each.loss > 1 for each in results)
    assert all(each.grad.dtype == torch.float32 for each in trainer.module.parameters())


def _settings(case: dict) -> dict:
    return {key: value for key, value in case.items() if key != "slots"}


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_a_step_that_is_not_finite_changes_nothing(gpu, precision):
    """Nor do the steps that the host begins before it reads the result."""
    trainer = Trainer(config_of(precision=precision), GPU, 1)
    trainer.step()
    with torch.no_grad():
        next(iter(trainer.module.transformer.decoder)).feed_forward.inner.bias[0] = math.nan
    before = trainer.weights()
    results = [trainer.step(), trainer.step()]
    after = trainer.weights()
    for name in before:
        torch.testing.assert_close(after[name], before[name], rtol=0, atol=0, equal_nan=True)
    for each in results:
        with pytest.raises(DivergedError):
            _ = each.loss


def losses(config: Config) -> tuple[list[float], list[float]]:
    """Those of the steps and of the validations in a run's log."""
    lines = read_log(Path(config.training.run_directory))
    return (
        [line["loss"] for line in lines if "event" not in line],
        [line["nll"] for line in lines if line.get("event") == "validation"],
    )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_run_is_a_cpus(gpu, settings, tmp_path, monkeypatch, precision):
    """Steps, validations, checkpoints, a second start from one, and the finished model."""
    given = {"model__dropout": 0.0, "training__precision": precision,
             "training__deterministic": False, "training__max_steps": 6,
             "training__validate_every": 6, "training__checkpoint_every": 3,
             "decoding__max_extra_length": 2}  # fmt: skip
    found = settings(**given, training__run_directory=str(tmp_path / "gpu"))
    train(found.model_copy(update={"training": found.training.model_copy(update={"max_steps": 3})}),
          print)  # fmt: skip
    train(found, print)
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        expected = settings(**given, training__run_directory=str(tmp_path / "cpu"))
        train(expected, print)
    tolerance = 1e-4 if precision == "fp32" else 0.02
    for one, other in zip(losses(found), losses(expected), strict=True):
        assert one[-3:] == pytest.approx(other[-3:], rel=tolerance)
