"""Contains the settings and results that the paper states.

Other modules import these settings and results instead of repeating them.

The paper is Vaswani et al. (2017), https://arxiv.org/abs/1706.03762. The settings in this module
have the same names as in a configuration file. The paper states neither confidence intervals nor
sacreBLEU signatures for its results.
"""

import re
from dataclasses import dataclass
from typing import Any

# Settings from §3, §5 and §6.1. The vocabulary has "about 37000" tokens. 0 and None mark features
# that the paper does not use. checkpoint_every corresponds to the ten minutes of §6.1 at the
# training speed given in §5.2. precision is fp32 because §6.1 mentions single precision.
BASE: dict[str, Any] = {
    "model.encoder_layers": 6, "model.decoder_layers": 6, "model.d_model": 512,
    "model.d_ff": 2048, "model.heads": 8, "model.d_k": 64, "model.d_v": 64,
    "model.dropout": 0.1, "model.attention_dropout": 0.0, "model.activation_dropout": 0.0,
    "model.positions": "sinusoidal", "model.norm": "post", "model.attention_window": None,
    "tokenizer.vocabulary_size": 37_000,
    "training.max_steps": 100_000, "training.batch_tokens": 25_000,
    "training.warmup_steps": 4000, "training.learning_rate_factor": 1.0,
    "training.label_smoothing": 0.1, "training.gradient_clip": None,
    "training.average_last": 5, "training.finished_model": "average",
    "training.checkpoint_every": 1500, "training.precision": "fp32",
    "decoding.beam": 4, "decoding.length_penalty": 0.6, "decoding.max_extra_length": 50,
}  # fmt: skip
BIG = BASE | {
    "model.d_model": 1024, "model.d_ff": 4096, "model.heads": 16, "model.dropout": 0.3,
    "training.max_steps": 300_000, "training.average_last": 20, "training.checkpoint_every": 600,
}  # fmt: skip
# Settings by target language and model size. The EN-FR vocabulary has 32,000 word pieces (§5.1),
# and the big EN-FR model uses less dropout (§6.1).
MODELS = {
    ("de", "base"): BASE,
    ("de", "big"): BIG,
    ("fr", "base"): BASE | {"tokenizer.vocabulary_size": 32_000},
    ("fr", "big"): BIG | {"tokenizer.vocabulary_size": 32_000, "model.dropout": 0.1},
}

ADAM_BETAS, ADAM_EPSILON = (0.9, 0.98), 1e-9  # §5.3

# Table 1, complexity per layer: n is the sequence length, d the width of the representation, k the
# kernel size and r the size of the neighborhood
TABLE_1 = {
    "self-attention": "n²·d", "recurrent": "n·d²", "convolutional": "k·n·d²",
    "restricted self-attention": "r·n·d",
}  # fmt: skip

# Table 2, BLEU on newstest2014, by target language
TABLE_2 = {
    ("de", "base"): 27.3, ("de", "big"): 28.4, ("fr", "base"): 38.1, ("fr", "big"): 41.8,
}  # fmt: skip
EN_FR_BIG_IN_TEXT = 41.0  # BLEU of the big EN-FR model in the text of §6.1
# Table 2, EN-DE: training time x number of GPUs x sustained FLOP/s, not a count of operations
TRAINING_FLOPS = {"base": 3.3e18, "big": 2.3e19}


@dataclass(frozen=True)
class OtherSystem:
    """A system in Table 2 other than the paper's models, with its newstest2014 results."""

    name: str
    source: str
    bleu: dict[str, float]  # by target language
    training_flops: dict[str, float]  # by target language, as in TRAINING_FLOPS


_ZHOU, _WU = "Zhou et al., 2016", "Wu et al., 2016"
_GEHRING, _SHAZEER = "Gehring et al., 2017", "Shazeer et al., 2017"
TABLE_2_OTHERS = (
    OtherSystem("ByteNet", "Kalchbrenner et al., 2016", {"de": 23.75}, {}),
    OtherSystem("Deep-Att + PosUnk", _ZHOU, {"fr": 39.2}, {"fr": 1.0e20}),
    OtherSystem("GNMT + RL", _WU, {"de": 24.6, "fr": 39.92}, {"de": 2.3e19, "fr": 1.4e20}),
    OtherSystem("ConvS2S", _GEHRING, {"de": 25.16, "fr": 40.46}, {"de": 9.6e18, "fr": 1.5e20}),
    OtherSystem("MoE", _SHAZEER, {"de": 26.03, "fr": 40.56}, {"de": 2.0e19, "fr": 1.2e20}),
    OtherSystem("Deep-Att + PosUnk, ensemble", _ZHOU, {"fr": 40.4}, {"fr": 8.0e20}),
    OtherSystem(
        "GNMT + RL, ensemble", _WU, {"de": 26.30, "fr": 41.16}, {"de": 1.8e20, "fr": 1.1e21}
    ),
    OtherSystem(
        "ConvS2S, ensemble", _GEHRING, {"de": 26.36, "fr": 41.29}, {"de": 7.7e19, "fr": 1.2e21}
    ),
)

# Sustained single-precision FLOP/s per GPU (§6.1, footnote 5)
SUSTAINED_FLOPS = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}


def sustained_flops(device: str) -> float | None:
    """Returns the sustained FLOP/s that the paper states for a GPU, or None if it states none.

    >>> sustained_flops("Tesla K40m"), sustained_flops("Quadro P1000")
    (3700000000000.0, None)
    """
    found = re.search(rf"\b({'|'.join(SUSTAINED_FLOPS)})(?!\d)", device)
    return SUSTAINED_FLOPS[found[1]] if found else None


@dataclass(frozen=True)
class Row:
    """A row of Table 3, with results on newstest2013 EN-DE without checkpoint averaging."""

    name: str  # name of the configuration in configs/table3
    ppl: float  # per word piece
    bleu: float
    parameters: int | None  # in millions; None if the paper does not state it
    changes: dict[str, Any]  # settings that differ from the base model's settings


def _row(name: str, ppl: float, bleu: float, parameters: int | None = None, **changes: Any) -> Row:
    keys = {
        key: f"training.{key}" if key == "label_smoothing" else f"model.{key}" for key in changes
    }
    changes = {keys[key]: value for key, value in changes.items()}
    return Row(name, ppl, bleu, parameters, changes)


_BIG_CHANGES = {key: value for key, value in BIG.items() if BASE[key] != value}
TABLE_3 = (
    _row("base", 4.92, 25.8, 65),
    _row("a_heads_1", 5.29, 24.9, heads=1, d_k=512, d_v=512),
    _row("a_heads_4", 5.00, 25.5, heads=4, d_k=128, d_v=128),
    _row("a_heads_16", 4.91, 25.8, heads=16, d_k=32, d_v=32),
    _row("a_heads_32", 5.01, 25.4, heads=32, d_k=16, d_v=16),
    _row("b_d_k_16", 5.16, 25.1, 58, d_k=16),
    _row("b_d_k_32", 5.01, 25.4, 60, d_k=32),
    _row("c_layers_2", 6.11, 23.7, 36, encoder_layers=2, decoder_layers=2),
    _row("c_layers_4", 5.19, 25.3, 50, encoder_layers=4, decoder_layers=4),
    _row("c_layers_8", 4.88, 25.5, 80, encoder_layers=8, decoder_layers=8),
    _row("c_d_model_256", 5.75, 24.5, 28, d_model=256, d_k=32, d_v=32),
    _row("c_d_model_1024", 4.66, 26.0, 168, d_model=1024, d_k=128, d_v=128),
    _row("c_d_ff_1024", 5.12, 25.4, 53, d_ff=1024),
    _row("c_d_ff_4096", 4.75, 26.2, 90, d_ff=4096),
    _row("d_dropout_0", 5.77, 24.6, dropout=0.0),
    _row("d_dropout_0.2", 4.95, 25.5, dropout=0.2),
    _row("d_smoothing_0", 4.67, 25.3, label_smoothing=0.0),
    _row("d_smoothing_0.2", 5.47, 25.7, label_smoothing=0.2),
    _row("e_learned_positions", 4.92, 25.7, positions="learned"),
    Row("big", 4.33, 26.4, 213, _BIG_CHANGES),
)
