"""Parameter counts, FLOPs and learning rate against the paper and by hand."""

from pathlib import Path

import pytest
import torch

from nmt.checkpoints.model_directory import new_transformer
from nmt.config import load
from nmt.reporting.info import as_text, differences_from_paper, flops_per_token_pair, info

CONFIGS = Path(__file__).parent.parent.parent / "configs"
BASE, BIG = CONFIGS / "transformer_base.yaml", CONFIGS / "transformer_big.yaml"


def by_hand(d: int, ff: int, layers: int, vocabulary: int) -> int:
    """Tied embedding, biases on all linears, post-norm, h * d_k = h * d_v = d."""
    attention, norm = 4 * (d * d + d), 2 * d
    feed_forward = d * ff + ff + ff * d + d
    encoder = layers * (attention + feed_forward + 2 * norm)
    decoder = layers * (2 * attention + feed_forward + 3 * norm)
    return vocabulary * d + encoder + decoder


@pytest.mark.parametrize(
    ("path", "vocabulary", "millions"),
    [(BASE, 37_000, 63.1), (BASE, 41_000, 65.1), (BIG, 37_000, 214.2), (BIG, 41_000, 218.3)],
)
def test_parameters_of_base_and_big(path: Path, vocabulary: int, millions: float):
    config = load(path, [f"tokenizer.vocabulary_size={vocabulary}"])
    total = info(config)["parameters"]["total"]
    assert total == by_hand(config.model.d_model, config.model.d_ff, 6, vocabulary)
    assert round(total / 1e6, 1) == millions
    with torch.device("meta"):
        assert total == sum(p.numel() for p in new_transformer(config).parameters())


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
    """Biases on all linears, post-norm, three-way tied embedding; E adds 256 * 512 positions."""
    for vocabulary, millions in ((37_000, at_37k), (41_000, at_41k)):
        path = CONFIGS / "table3" / f"{row}.yaml"
        total = info(load(path, [f"tokenizer.vocabulary_size={vocabulary}"]))["parameters"]["total"]
        assert round(total / 1e6, 1) == millions


def test_table_3_is_complete():
    assert len(list((CONFIGS / "table3").glob("*.yaml"))) == 20


def test_flops_and_learning_rate():
    """380.9 M and 1290 M: 3 * (168 + 168) d^2 + attention + softmax, by hand at length 27."""
    for path, d, expected in ((BASE, 512, 380.9e6), (BIG, 1024, 1290e6)):
        config = load(path)
        found = flops_per_token_pair(config.model, 37_000)
        assert found == 3 * (336 * d * d + 2 * 37_000 * d + 3 * 6 * 4 * 27 * d)
        assert found == pytest.approx(expected, rel=1e-3)
        content = info(config)
        assert content["flops"]["per_token_pair"] == found
        assert content["learning_rate"]["peak"] == pytest.approx((d * 4000) ** -0.5)


def test_what_differs_from_the_paper_is_computed():
    alone = {"training.precision": {"ours": "bf16", "paper": "fp32"}}
    assert differences_from_paper(load(BASE)) == ("base", alone)
    assert differences_from_paper(load(BIG)) == ("big", alone)
    for name in ("base", "big"):  # 32,000 pieces, dropout 0.1 for both (§5.1, §6.1)
        assert differences_from_paper(load(CONFIGS / f"wmt14_en_fr_{name}.yaml")) == (name, alone)
    in_fp32 = ["training.precision=fp32"]
    assert differences_from_paper(load(BASE, in_fp32)) == ("base", {})
    changed = load(
        BASE,
        ["model.d_k=16", "model.attention_window=9", "tokenizer.bpe_dropout=0.1",
         "tokenizer.vocabulary_size=32000", *in_fp32],
    )  # fmt: skip
    assert differences_from_paper(changed) == (
        "base",
        {
            "model.d_k": {"ours": 16, "paper": 64},
            "model.attention_window": {"ours": 9, "paper": None},
            "tokenizer.vocabulary_size": {"ours": 32_000, "paper": 37_000},
            "tokenizer.bpe_dropout": {"ours": 0.1, "paper": 0.0},
        },
    )
    assert "as the paper's base model" in as_text(info(load(BASE, in_fp32)))
    assert "model.d_k" in as_text(info(changed))
