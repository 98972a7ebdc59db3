"""Signs that a run goes wrong while all its figures are finite."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import Config
from nmt.data.shards import Shard
from nmt.errors import DivergedError
from nmt.training.schedule import learning_rate, peak_step

LOWER_RATE = (
    "start another training.run_directory with a lower training.learning_rate_factor, "
    "more training.warmup_steps or training.gradient_clip"
)
# Of steps that are worse than guessing, one after the other: fewer may be a spike that passes.
_PATIENCE_STEPS = 100


# Of the peak in units of d_model^-0.5, that is factor / sqrt(warmup_steps). The paper's models have
# 0.016, those for captions and the demo's sentences 0.034 to 0.05. On the demo's (d_model 128,
# post-norm, 450 steps) 0.071 still learns, at 0.095 the loss stays near the frequencies of pieces,
# and at 0.13 it rises again; on captions 0.095 ends in the same word for every sentence. Pre-norm
# learns well at 0.095; where it ends was not tried.
_HIGHEST_PEAK = 0.08


def rate_warning(config: Config) -> str | None:
    """Says so if the learning rate will rise beyond any with which a model has learnt."""
    settings, d_model = config.training, config.model.d_model
    warmup, factor = settings.warmup_steps, settings.learning_rate_factor
    peak = learning_rate(config, peak_step(config))
    highest = _HIGHEST_PEAK * d_model**-0.5
    if peak <= highest or config.model.norm == "pre":
        return None
    return (
        f"the learning rate will rise to {peak:.1e}, d_model {d_model} learns little above "
        f"{highest:.1e}, training.warmup_steps {warmup} and learning_rate_factor {factor:g}, raise "
        "the one (the peak is factor / sqrt(d_model * warmup_steps)) or lower the other"
    )


class Divergence:
    """Counts the steps in a row that a model is worse than guessing, and ends the run in time.

    A guess that gives each of V pieces the same chance has ln V nats a token, and a new model about
    half a nat more. So a nat above ln V is worse than guessing; during the warm-up, when a model
    that is fine-tuned on text of another kind still gets used to it, only three times ln V is. What
    a step measured over all ranks decides, which every rank knows: none has to ask the others.
    """

    def __init__(self, config: Config):
        self._uniform = math.log(config.tokenizer.vocabulary_size)
        self._warmup_steps = config.training.warmup_steps
        self._patience = min(_PATIENCE_STEPS, max(10, config.training.max_steps // 10))
        self._count = 0

    def is_astray(self, step: int, nll: float) -> bool:
        """Whether this step was worse than guessing: its weights should be no checkpoint.

        Its loss is that of the weights before its update. So of a divergence at most the first step
        is saved.

        Args:
            nll: of the step, in nats per target token.

        Raises:
            DivergedError: too many in a row were.
        """
        is_warm = step >= self._warmup_steps
        is_worse = nll > (self._uniform + 1 if is_warm else 3 * self._uniform)
        self._count = self._count + 1 if is_worse else 0
        if self._count >= self._patience:
            raise DivergedError(
                f"training diverged (nll {nll:.4g} a token, guessing has {self._uniform:.2f}, "
                f"{self._count} steps in a row), step {step}, {LOWER_RATE}"
            )
        return is_worse


def unigram_nll(shards: Sequence[Shard]) -> float:
    """Nats per target token of a guess that knows how frequent each piece is in these shards."""
    counts = np.zeros(0, dtype=np.int64)
    for shard in shards:
        longer = max(len(counts), int(shard.target.values.max(initial=0)) + 1)
        counts = np.pad(counts, (0, longer - len(counts)))
        counts += np.bincount(shard.target.values, minlength=longer)
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())


def has_learnt(validation: Mapping[str, Any]) -> bool:
    """Whether a model knows more than pieces and which of them often stand side by side.

    On the demo's sentences runs with a rate too high stay at 0.84 to 1.05 of the frequencies' nll,
    with BLEU 0; those that learn have BLEU 1 to 2 at 0.75.

    Args:
        validation: its facts, as log.jsonl has them.
    """
    return validation["nll"] < 0.8 * validation["unigram_nll"]


def shortcomings(mean: Mapping[str, Any], last: Mapping[str, Any], run: Path) -> list[str]:
    """What a person should know of a finished model, as warnings.

    Args:
        mean: the validation of the averaged model, as log.jsonl has it.
        last: that of the run's last step; empty if there was none.
        run: the run's directory.
    """
    found = []
    if not has_learnt(mean):
        found.append(
            f"the model has learnt next to nothing (validation nll {mean['nll']:.3f}, "
            f"the frequencies of pieces alone have {mean['unigram_nll']:.3f}), {run}, train on; "
            "if the loss did not fall, lower the learning rate or the dropout, and see that line i "
            "of the target files translates line i of the source files"
        )
    elif last and mean["nll"] > last["nll"] and mean["bleu"] < last["bleu"]:
        found.append(
            f"the mean of the last checkpoints is worse (nll {mean['nll']:.3f}, "
            f"BLEU {mean['bleu']:.2f}) than the last of them (nll {last['nll']:.3f}, "
            f"BLEU {last['bleu']:.2f}), {run}, train longer, or take fewer "
            "with nmt average"
        )
    return found
