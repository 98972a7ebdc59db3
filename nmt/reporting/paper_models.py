"""Which of the paper's models, rows of Table 3 and test sets fits a configuration best."""

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from nmt.config import Config, Corpus, Data, Hub
from nmt.paper import BASE, MODELS, TABLE_3, Row

# Settings that do not tell rows of Table 3 apart: how often checkpoints are written, how many are
# averaged (none, §6.2), the vocabulary ("about 37000"), the precision.
_NOT_OF_TABLE_3 = {
    "training.average_last", "training.checkpoint_every", "training.precision",
    "tokenizer.vocabulary_size",
}  # fmt: skip


def differences_from_paper(config: Config) -> tuple[str, dict[str, dict[str, Any]]]:
    """The nearer of "base" and "big", and by dotted key where the configuration differs from it.

    The paper's models are those of EN-FR for that pair, and of EN-DE for every other.
    """
    is_en_fr = (config.data.source_language, config.data.target_language) == ("en", "fr")
    found = []
    for name in ("base", "big"):
        paper = MODELS["fr" if is_en_fr else "de", name]
        differing = {
            key: {"ours": ours, "paper": value}
            for key, value in paper.items()
            if (ours := attrgetter(key)(config)) != value
        }
        found.append((name, differing))
    return min(found, key=lambda entry: len(entry[1]))


def besides(config: Config) -> list[str]:
    """What differs from the paper in every configuration, or beyond what a setting says."""
    found = [
        "the projections of attention have biases, those of the paper's formulas (§3.2.2) none"
    ]
    if config.training.precision == "bf16":
        found.append(
            "precision bf16 is of matrix products over fp32 weights; on a CPU the sums of "
            "sub-layers (the residual stream) are bf16 too"
        )
    return found


def table_3_row(config: Config) -> Row | None:
    """The row with exactly the configuration's settings, or else the row base or big, the nearer.

    None unless data and validation set are the paper's, WMT14 EN-DE and newstest2013.
    """
    if newstest(config.data, config.data.validation) != "newstest2013":
        return None
    if config.data.target_language != "de":
        return None
    ours = {key: attrgetter(key)(config) for key in BASE.keys() - _NOT_OF_TABLE_3}
    for row in TABLE_3:
        if all(value == (BASE | row.changes)[key] for key, value in ours.items()):
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
