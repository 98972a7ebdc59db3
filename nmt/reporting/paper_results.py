"""What the paper reports of its models (Vaswani et al., 2017), to stand beside a run's own figures.

The paper gives single figures without intervals, and no signature for its BLEU.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import Config, Corpus, Data, Hub
from nmt.reporting.info import PAPER_BASE, PAPER_BIG, differences_from_paper

# Table 2, newstest2014; §6.1's text has 41.0 for big EN-FR
TABLE_2 = {
    ("de", "base"): 27.3, ("de", "big"): 28.4, ("fr", "base"): 38.1, ("fr", "big"): 41.8,
}  # fmt: skip
# Table 2, training cost in FLOPs, EN-DE: hours x GPUs x sustained FLOP/s, not operations counted
TRAINING_FLOPS = {"base": 3.3e18, "big": 2.3e19}
# Footnote 5, sustained single-precision FLOP/s of a GPU
SUSTAINED_FLOPS = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}

# how often checkpoints are written and how many are averaged: Table 3 averages none (§6.2); the
# vocabulary, which the paper gives as "about 37000"; and the arithmetic
_NOT_OF_TABLE_3 = {
    "training.average_last", "training.checkpoint_every", "training.precision",
    "tokenizer.vocabulary_size",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A row of Table 3: newstest2013 EN-DE, last checkpoint alone."""

    name: str  # of its file in configs/table3
    ppl: float  # per word piece
    bleu: float
    parameters: int | None  # in millions, where the paper states them
    changes: dict[str, Any]  # against the base model


def _row(name: str, ppl: float, bleu: float, parameters: int | None = None, **changes: Any) -> Row:
    keys = {
        key: f"training.{key}" if key == "label_smoothing" else f"model.{key}" for key in changes
    }
    changes = {keys[key]: value for key, value in changes.items()}
    return Row(name, ppl, bleu, parameters, changes)


_BIG_CHANGES = {key: value for key, value in PAPER_BIG.items() if PAPER_BASE[key] != value}
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


def table_3_row(config: Config) -> Row | None:
    """The row that has exactly the configuration's settings; else that of the nearer of base, big.

    None unless data and validation set are the paper's, WMT14 EN-DE and newstest2013.
    """
    if newstest(config.data, config.data.validation) != "newstest2013":
        return None
    if config.data.target_language != "de":
        return None
    ours = {
        key: getattr(getattr(config, section), name)
        for key in PAPER_BASE.keys() - _NOT_OF_TABLE_3
        for section, name in [key.split(".")]
    }
    for row in TABLE_3:
        if all(value == (PAPER_BASE | row.changes)[key] for key, value in ours.items()):
            return row
    nearest = differences_from_paper(config)[0]
    return next(row for row in TABLE_3 if row.name == nearest)


def newstest(data: Data, split: Sequence[Corpus]) -> str | None:
    """Which of the paper's sets a split is, "newstest2013" or "newstest2014"; None: another.

    WMT14 is known by the name of its dataset on the hub; the training data must be of it too.
    """
    pair = (data.source_language, data.target_language)
    if pair not in {("en", "de"), ("en", "fr")} or len(split) != 1:
        return None
    if not all(isinstance(corpus, Hub) and _is_wmt14(corpus) for corpus in (*data.train, *split)):
        return None
    assert isinstance(split[0], Hub)
    return {"validation": "newstest2013", "test": "newstest2014"}.get(split[0].split)


def _is_wmt14(corpus: Hub) -> bool:
    return Path(corpus.hub).name == "wmt14"


def sustained_flops(device: str) -> float | None:
    """The paper's figure for a GPU of that name; None if it has none.

    >>> sustained_flops("Tesla K40m"), sustained_flops("Quadro P1000")
    (3700000000000.0, None)
    """
    found = re.search(rf"\b({'|'.join(SUSTAINED_FLOPS)})(?!\d)", device)
    return SUSTAINED_FLOPS[found[1]] if found else None
