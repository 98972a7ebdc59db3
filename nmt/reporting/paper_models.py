"""Finds what corresponds to a configuration in the paper: model, row of Table 3 and test set."""

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from nmt.config import Config, Corpus, Data, Decoding, Hub, Model, Tokenizer, Training
from nmt.paper import BASE, MODELS, TABLE_3, Row

# Settings that the paper does not specify, such as directories and intervals. All other settings in
# the sections `tokenizer`, `model`, `training` and `decoding` are compared with the paper,
# including settings that are added later.
_NOT_OF_THE_PAPER = {
    f"training.{key}"
    for key in (
        "run_directory", "micro_batches", "seed", "deterministic", "compile", "keep_checkpoints",
        "validate_every", "log_every", "best_by", "process_group_timeout_s",
    )
}  # fmt: skip
# The compared settings that are not in BASE, with their defaults. The defaults follow the paper.
_OTHERS = {
    f"{name}.{key}": field.default
    for name, section in (
        ("tokenizer", Tokenizer), ("model", Model), ("training", Training), ("decoding", Decoding)
    )
    for key, field in section.model_fields.items()
    if f"{name}.{key}" not in BASE.keys() | _NOT_OF_THE_PAPER
}  # fmt: skip
# Settings that do not distinguish rows of Table 3: the checkpoint interval, the number of averaged
# checkpoints (none, §6.2), the vocabulary ("about 37000") and the precision
_NOT_OF_TABLE_3 = {
    "training.average_last", "training.checkpoint_every", "training.precision",
    "tokenizer.vocabulary_size",
}  # fmt: skip


def differences_from_paper(config: Config) -> tuple[str, dict[str, dict[str, Any]]]:
    """Returns the paper's model that is closest to a configuration, and the differences.

    A configuration for EN-FR is compared with the paper's EN-FR models. All other configurations
    are compared with the paper's EN-DE models.
    """
    is_en_fr = (config.data.source_language, config.data.target_language) == ("en", "fr")
    found = []
    for name in ("base", "big"):
        paper = MODELS["fr" if is_en_fr else "de", name] | _OTHERS
        differing = {
            key: {"ours": ours, "paper": value}
            for key, value in paper.items()
            if (ours := attrgetter(key)(config)) != value
        }
        found.append((name, differing))
    return min(found, key=lambda entry: len(entry[1]))


def besides(config: Config) -> list[str]:
    """Describes further differences between a configuration and the paper."""
    found = ["attention projections have biases; the paper's formulas (§3.2.2) have none"]
    if config.training.precision != "fp32":
        where = " on machines that support it" if config.training.precision == "auto" else ""
        found.append(
            f"precision bf16 is used{where} for matrix multiplications and the residual stream, "
            "with fp32 weights"
        )
    return found


def table_3_row(config: Config) -> Row | None:
    """Returns the row of Table 3 that corresponds to a configuration.

    If no row has the same settings, returns the row of the base model or of the big model,
    whichever is more similar. Returns None unless the configuration uses the paper's training data
    (WMT14 EN-DE) and validation set (newstest2013).
    """
    if newstest(config.data, config.data.validation) != "newstest2013":
        return None
    if config.data.target_language != "de":
        return None
    base = BASE | _OTHERS
    ours = {key: attrgetter(key)(config) for key in base.keys() - _NOT_OF_TABLE_3}
    for row in TABLE_3:
        if all(value == (base | row.changes)[key] for key, value in ours.items()):
            return row
    nearest = differences_from_paper(config)[0]
    return next(row for row in TABLE_3 if row.name == nearest)


def newstest(data: Data, split: Sequence[Corpus]) -> str | None:
    """Returns "newstest2013" or "newstest2014" if a split is one of these test sets.

    Returns None for all other splits, and if the training data is not WMT14. WMT14 is recognized by
    the name of its dataset on the Hugging Face Hub.
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
