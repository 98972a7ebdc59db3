"""The exponential moving average of the weights: arithmetic, resuming, the finished model."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from nmt.errors import InputError
from nmt.storage import manifest
from nmt.training.optimizers import (
    averaged_weights,
    new_optimizer,
    skip_if_not_finite,
    update_moving_average,
)
from tests.training.runs import fingerprint, run


def averaged(settings, directory: Path, **changes) -> Path:
    """Trains for six steps, unless `changes` say otherwise; returns the run directory."""
    given = {
        "run_directory": str(directory), "ema_decay": 0.75, "finished_model": "ema",
        "max_steps": 6, "validate_every": 6, "optimizer": "muon",
    }  # fmt: skip
    changes |= {"decoding__beam": 1, "decoding__max_extra_length": 0}
    found, _ = run(settings(**{f"training__{key}": given[key] for key in given} | changes))
    return found


def test_the_average_is_the_sum_of_its_parts_and_waits_for_skipped_steps(settings):
    module = nn.Linear(3, 2)
    optimizer = new_optimizer(module, settings(training__ema_decay=0.75))
    expected = None
    for step in range(8):
        module.weight.grad, module.bias.grad = torch.randn(2, 3), torch.randn(2)
        if step == 5:
            skip_if_not_finite(optimizer, torch.tensor([torch.nan]))
            module.weight.grad *= torch.nan
        optimizer.step()
        update_moving_average(optimizer)
        weight = module.weight.detach().double()
        if step == 0:
            expected = weight
        elif step < 5:
            expected = 0.75 * expected + 0.25 * weight
    found = averaged_weights(optimizer, module)
    assert list(found) == ["weight", "bias"]
    torch.testing.assert_close(found["weight"].double(), expected, atol=1e-6, rtol=1e-6)
    assert not torch.allclose(found["weight"], module.weight)


def test_the_finished_model_is_the_average_of_all_steps_and_resumes_exactly(
    settings, tmp_path, capsys
):
    """Recomputes it from the weights after each step, in float64."""
    directory = averaged(
        settings, tmp_path / "straight", training__checkpoint_every=1, training__keep_checkpoints=6
    )
    said = capsys.readouterr().err
    facts = manifest.read(directory / "model", "model")
    assert f"is the moving average at step 6 (BLEU {facts['validation']['bleu']:.3f})" in said
    assert (facts["step"], facts["ema_decay"]) == (6, 0.75)
    model = load_file(directory / "model/model.safetensors")
    steps = [
        load_file(directory / f"checkpoints/step-{step:08d}/model.safetensors")
        for step in range(1, 7)
    ]
    for name, tensor in model.items():
        expected = steps[0][name].double()
        for weights in steps[1:]:
            expected = 0.75 * expected + 0.25 * weights[name].double()
        torch.testing.assert_close(tensor.double(), expected, atol=1e-6, rtol=1e-5)
    averaged(settings, tmp_path / "stopped", training__max_steps=3)
    stopped = averaged(settings, tmp_path / "stopped")
    assert fingerprint(stopped, 6) == fingerprint(directory, 6)


def test_the_finished_model_cannot_be_an_average_that_is_not_kept(settings):
    with pytest.raises(InputError, match=r"finished_model: ema requires training\.ema_decay"):
        settings(training__finished_model="ema")
