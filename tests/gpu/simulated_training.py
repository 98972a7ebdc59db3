"""On a simulated GPU, training gives a CPU's results, and the host never waits within a step."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.config import Config, validate
from nmt.data.layout import fixed_shape, pack
from nmt.data.pair import Pair
from nmt.errors import DivergedError
from nmt.runs.model_directory import new_transformer
from nmt.training.distributed import Ranks
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer
from nmt.training.run_log import read_log
from nmt.training.step import StepResult, optimizer_step
from nmt.training.train import train
from tests.tiny import tiny_settings

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
VOCABULARY = 400


def config_of(**training) -> Config:
    content = tiny_settings(Path("none"))
    content["model"] |= {"encoder_layers": 1, "decoder_layers": 1}
    content["model"]["dropout"] = training.pop("dropout", 0.0)
    content["training"] |= {"deterministic": False} | training
    return validate(content, {}, "tiny")


class Trainer:
    """Takes optimizer steps like `nmt train`, with pairs that do not depend on the device."""

    def __init__(self, device: torch.device, micro_batches: int = 1, **training):
        config = config_of(**training)
        transformer = new_transformer(config)
        transformer.initialize(1)
        self.module = TransformerLoss(transformer.to(device).train(), 0.1)
        self.optimizer, self.config = new_optimizer(transformer, config), config
        self.micro_batches = micro_batches
        self.ranks, self.taken = Ranks(0, 1, device), 0

    def step(self) -> StepResult:
        self.taken += 1
        random, device = np.random.default_rng(self.taken), self.ranks.device
        micro_batches, tokens = [], 0
        for micro_batch in range(self.micro_batches):
            pairs = [Pair(ids(random), ids(random)) for _ in range(9)]
            tokens += sum(len(target) for _, target in pairs)
            host = pack(pairs, fixed_shape(500, 1, 60), is_pinned=device.type == "cuda")
            micro_batches.append((micro_batch, host.to(device)))
        return optimizer_step(
            self.module, self.module, self.optimizer, micro_batches, self.taken, tokens,
            self.config, self.ranks,
        )  # fmt: skip

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: tensor.cpu() for name, tensor in self.module.state_dict().items()}


def ids(random: np.random.Generator) -> np.ndarray:
    return np.append(random.integers(4, VOCABULARY, random.integers(2, 30)), 2).astype(np.int32)


STEPS = [{"micro_batches": 1}, {"micro_batches": 3, "gradient_clip": 0.1}]


@pytest.mark.parametrize("case", STEPS, ids=str)
def test_steps_in_fp32_are_a_cpus(gpu, case):
    trainers = [Trainer(device, **case) for device in (GPU, CPU)]
    for _ in range(3):
        found, expected = (each.step() for each in trainers)
        assert found.loss == pytest.approx(expected.loss, rel=1e-5)
        assert found.nll == pytest.approx(expected.nll, rel=1e-5)
        assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-4)
    found, expected = (each.weights() for each in trainers)
    for name in found:
        if "key" not in name or "weight" in name:  # the gradient of key biases is 0
            torch.testing.assert_close(found[name], expected[name], rtol=0, atol=2e-4, msg=name)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("case", STEPS, ids=str)
def test_no_step_after_the_first_waits(gpu, case, precision):
    trainer = Trainer(GPU, **case, dropout=0.1, precision=precision)
    results = [trainer.step()]
    for _ in range(2):
        gpu.restart()
        results.append(trainer.step())
        assert not gpu.waits, "\n".join(map(str, gpu.waits))
    assert all(math.isfinite(each.loss) and each.loss > 1 for each in results)
    assert all(each.grad.dtype == torch.float32 for each in trainer.module.parameters())


def test_a_step_that_is_not_finite_changes_nothing(gpu):
    """The next step, which the host starts before it reads the result, changes nothing either."""
    trainer = Trainer(GPU, precision="bf16")
    trainer.step()
    before = trainer.weights()
    bias = next(iter(trainer.module.transformer.decoder)).feed_forward.inner.bias
    finite = bias.detach().clone()
    bias.detach().fill_(math.nan)
    diverged = trainer.step()
    bias.detach().copy_(finite)
    trainer.step()
    after = trainer.weights()
    for name in before:
        torch.testing.assert_close(after[name], before[name], rtol=0, atol=0, msg=name)
    with pytest.raises(DivergedError):
        _ = diverged.loss


def losses(run: Path) -> tuple[list[float], list[float]]:
    """Returns the training losses and the validation losses in a run's log."""
    lines = read_log(run)
    return (
        [line["loss"] for line in lines if "event" not in line],
        [line["nll"] for line in lines if line.get("event") == "validation"],
    )


def test_a_run_in_bf16_is_a_cpus(gpu, settings, tmp_path, monkeypatch):
    """Compares steps, validations, checkpoints, a resumed run, and the finished model."""
    given = {
        "model__dropout": 0.0, "training__precision": "bf16", "training__deterministic": False,
        "training__compile": False, "training__validate_every": 10, "model__encoder_layers": 1,
        "model__decoder_layers": 1, "decoding__beam": 1, "decoding__max_extra_length": 0,
    }  # fmt: skip
    for device in ("gpu", "cpu"):
        with monkeypatch.context() as patch:
            if device == "cpu":
                patch.setattr(torch.cuda, "is_available", lambda: False)
            for steps in (1, 3):  # the second resumes
                folder = str(tmp_path / device)
                config = settings(
                    **given, training__max_steps=steps, training__run_directory=folder
                )
                train(config, print)
    # `optimizer_step` has its own test; the other three have to read values
    apart = {"optimizer_step", "choose_path", "validate", "save"}
    waits = [each for each in gpu.implicit_waits if "train_steps" in each.callers]
    between = {str(each) for each in waits if not apart & set(each.callers)}
    assert waits and not between, "\n".join(sorted(between))
    for found, expected in zip(*(losses(tmp_path / each) for each in ("gpu", "cpu")), strict=True):
        assert len(found) == len(expected) > 1
        assert found == pytest.approx(expected, rel=0.02)
