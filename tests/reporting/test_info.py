"""Parameter counts, FLOPs and learning rates, compared with the paper and computed by hand."""

import json
from pathlib import Path

import pytest
import torch

from nmt.benchmark.flops import flops_per_token_pair
from nmt.cli import main
from nmt.config import load
from nmt.reporting.info import LENGTH, as_text, info
from nmt.reporting.paper_models import differences_from_paper
from nmt.runs.model_directory import new_transformer
from tests.fixtures.make import TRAINED

CONFIGS = Path(__file__).parent.parent.parent / "configs"
BASE, BIG = CONFIGS / "transformer_base.yaml", CONFIGS / "transformer_big.yaml"


def by_hand(d: int, ff: int, layers: int, vocabulary: int) -> int:
    """Counts parameters with tied embeddings, biases, post-norm and h * d_k = h * d_v = d."""
    attention, norm = 4 * (d * d + d), 2 * d
    feed_forward = d * ff + ff + ff * d + d
    encoder = layers * (attention + feed_forward + 2 * norm)
    decoder = layers * (2 * attention + feed_forward + 3 * norm)
    return vocabulary * d + encoder + decoder


@pytest.mark.parametrize(
    ("row", "at_37k", "at_41k"),
    [
        ("base", 63.1, 65.1), ("a_heads_1", 63.1, 65.1), ("a_heads_4", 63.1, 65.1),
        ("a_heads_16", 63.1, 65.1), ("a_heads_32", 63.1, 65.1), ("b_d_k_16", 56.0, 58.0),
        ("b_d_k_32", 58.4, 60.4), ("c_layers_2", 33.7, 35.7), ("c_layers_4", 48.4, 50.4),
        ("c_layers_8", 77.8, 79.8), ("c_d_model_256", 26.8, 27.9),
        ("c_d_model_1024", 163.9, 168.0), ("c_d_ff_1024", 50.5, 52.5),
        ("c_d_ff_4096", 88.3, 90.3), ("d_dropout_0", 63.1, 65.1), ("d_dropout_0.2", 63.1, 65.1),
        ("d_smoothing_0", 63.1, 65.1), ("d_smoothing_0.2", 63.1, 65.1),
        ("e_learned_positions", 63.2, 65.3), ("big", 214.2, 218.3),
    ],
)  # fmt: skip
def test_parameters_of_every_row_of_table_3(row: str, at_37k: float, at_41k: float):
    """With tied embeddings, biases in all linear layers and post-norm; row E has 256 positions."""
    for vocabulary, millions in ((37_000, at_37k), (41_000, at_41k)):
        path = CONFIGS / "table3" / f"{row}.yaml"
        config = load(path, [f"tokenizer.vocabulary_size={vocabulary}"])
        total = info(config)["parameters"]["total"]
        assert round(total / 1e6, 1) == millions
        if row in ("base", "big"):
            assert total == by_hand(config.model.d_model, config.model.d_ff, 6, vocabulary)
        with torch.device("meta"):
            assert total == sum(p.numel() for p in new_transformer(config).parameters())


def test_flops_and_learning_rate():
    """By hand, at length 27: 3 * (168 + 168) d^2 + attention + softmax = 380.9 M and 1290 M."""
    for path, d, expected in ((BASE, 512, 380.9e6), (BIG, 1024, 1290e6)):
        config = load(path)
        found = flops_per_token_pair(config.model, 37_000, LENGTH)
        assert found == 3 * (336 * d * d + 2 * 37_000 * d + 3 * 6 * 4 * 27 * d)
        assert found == pytest.approx(expected, rel=1e-3)
        content = info(config)
        assert content["flops"]["per_token_pair"] == found
        assert content["learning_rate"]["peak"] == pytest.approx((d * 4000) ** -0.5)


def test_the_peak_is_the_one_that_the_run_will_reach(capsys):
    """A warm-up shortened with the run makes it diverge: the peak is 1.5 / sqrt(128 * 250)."""
    captions, shorter = CONFIGS / "multi30k.yaml", ["training.max_steps=700"]
    content = info(load(captions, shorter))
    rate = content["learning_rate"]
    assert rate["peak_step"] == 700
    [warning] = rate["warnings"]
    assert "training.warmup_steps is 2000, but training.max_steps is 700. Lower" in warning
    assert rate["peak"] == pytest.approx(1.5 * 128**-0.5 * 700 * 2000**-1.5)
    assert "for one source token and one target token, in sentences of 27 tokens" in as_text(
        content
    )
    assert (
        "1.038e-03  peak, at step 700, the last step; the warm-up would end at step 2,000"
        in as_text(content)
    )
    assert main(["info", str(captions), *shorter, "training.warmup_steps=250"]) == 0
    said = capsys.readouterr().out
    assert "8.385e-03  peak, at step 250\n  warning: The learning rate will rise to 8.4e-03" in said
    assert "Raise training.warmup_steps (250)" in said


def test_settings_of_a_trained_model_are_not_overridden(capsys):
    assert main(["info", str(TRAINED / "run"), "model.heads=2"]) == 2
    assert "cannot be overridden. Remove model.heads=2." in capsys.readouterr().err


def test_no_shipped_configuration_has_a_rate_that_is_warned_of():
    paths = list(CONFIGS.rglob("*.yaml"))
    assert len(paths) > 20
    assert [path for path in paths if info(load(path))["learning_rate"]["warnings"]] == []


def test_what_differs_from_the_paper_is_computed():
    in_fp32 = ["training.precision=fp32"]
    assert differences_from_paper(load(BASE, in_fp32)) == ("base", {})
    changed = load(
        BASE,
        ["model.d_k=16", "model.attention_window=9", "tokenizer.vocabulary_size=32000", *in_fp32],
    )
    assert differences_from_paper(changed) == (
        "base",
        {
            "model.d_k": {"ours": 16, "paper": 64},
            "model.attention_window": {"ours": 9, "paper": None},
            "tokenizer.vocabulary_size": {"ours": 32_000, "paper": 37_000},
        },
    )
    assert "those of the paper's base model" in as_text(info(load(BASE, in_fp32)))
    assert "model.d_k" in as_text(info(changed))


@pytest.mark.parametrize(
    ("setting", "ours", "paper"),
    [
        ("training.initialize_from", "runs/first", None),
        ("training.finished_model", "better", "average"),
        ("tokenizer.symbols", ("<BT>",), ()),
    ],
)
def test_settings_that_the_paper_does_not_know_differ_from_it(setting, ours, paper):
    given = json.dumps(ours) if isinstance(ours, tuple) else ours
    changed = load(BASE, [f"{setting}={given}", "training.precision=fp32"])
    assert differences_from_paper(changed) == ("base", {setting: {"ours": ours, "paper": paper}})
    assert "those of the paper's" not in as_text(info(changed))


def test_how_often_a_run_logs_is_no_difference_from_the_paper():
    changed = load(BASE, ["training.precision=fp32", "training.seed=7", "training.log_every=9"])
    assert differences_from_paper(changed) == ("base", {})


def test_what_no_setting_says_is_told_besides():
    biases, in_bf16 = "biases", "and the residual stream, with fp32 weights"
    for precision, told in (("fp32", (True, False)), ("bf16", (True, True))):
        content = info(load(BASE, [f"training.precision={precision}"]))
        for text in ("\n".join(content["paper"]["besides"]), as_text(content)):
            assert (biases in text, in_bf16 in text) == told
