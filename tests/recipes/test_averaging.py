"""All three models of a run come from the same training, and nothing is trained twice."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nmt.errors import InputError
from recipes.averaging import averaging

DECAY = 0.75


@pytest.fixture
def command(settings, tmp_path: Path) -> list[str]:
    config = settings(training__checkpoint_every=1, training__keep_checkpoints=9)
    (tmp_path / "tiny.yaml").write_text(config.to_yaml(), encoding="utf-8")
    return [str(tmp_path / "tiny.yaml"), "data.test=[{demo: {pairs: 20, seed: 1}}]",
            "training.max_steps=4", "training.average_last=3", "training.learning_rate_factor=9",
            "--ema-decay", str(DECAY), "--output", str(tmp_path / "out")]  # fmt: skip


def test_the_models_are_the_last_weights_and_their_two_averages(
    command: list[str], tmp_path: Path, monkeypatch, capsys
):
    averaging.main([*command, "--seeds", "1", "2"])
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "out" / "table.md").read_text()
    assert "the steps 2, 3, 4." in printed
    assert f"difference from {averaging.MEAN}" in printed

    run = tmp_path / "out" / "seed-1"
    steps = [
        load_file(run / "checkpoints" / f"step-{step:08d}" / "model.safetensors")
        for step in (1, 2, 3, 4)
    ]
    shares = (DECAY**3, (1 - DECAY) * DECAY**2, (1 - DECAY) * DECAY, 1 - DECAY)
    last, mean, moving = (
        load_file(run / name / "model.safetensors") for name in ("last", "mean", "model")
    )
    for name, weights in steps[3].items():
        torch.testing.assert_close(last[name], weights, rtol=0, atol=0)
        torch.testing.assert_close(mean[name], sum(each[name] for each in steps[1:]) / 3)
        expected = sum(share * each[name] for share, each in zip(shares, steps, strict=True))
        torch.testing.assert_close(moving[name], expected)
        assert not torch.equal(mean[name], moving[name])

    with monkeypatch.context() as patched:
        patched.setattr(averaging, "_evaluated", lambda config: pytest.fail("evaluated again"))
        averaging.main([*command, "--seeds", "1", "2"])
    assert capsys.readouterr().out == printed

    averaging.main([*command, "training.average_last=2", "--seeds", "1", "2"])
    assert "the steps 3, 4." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["data.test=[]"], r"data\.test is empty"),
        (["training.average_last=5"], "average_last is 5, but .* only 4 checkpoints"),
        (["training.checkpoint_every=3"], "average_last is 3, but .* only 2 checkpoints"),
    ],
    ids=str,
)
def test_settings_without_a_comparison_are_refused_before_training(
    words: list[str], problem: str, command: list[str], monkeypatch
):
    monkeypatch.setattr(averaging, "prepare", None)
    with pytest.raises(InputError, match=problem):
        averaging.main([*command, *words])
