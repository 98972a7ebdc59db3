"""Signs that a run is failing although all its figures are finite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.config import Config, Measure
from nmt.errors import DivergedError, count
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import NAMES, Best
from nmt.training.schedule import learning_rate, peak_step

if TYPE_CHECKING:  # `rate_warning` needs no pyarrow
    from nmt.data.shards import Shard

LOWER_RATE = (
    "start another training.run_directory with a lower training.learning_rate_factor, "
    "more training.warmup_steps or training.gradient_clip"
)
# So many successive steps worse than guessing end a run; fewer may be a passing spike.
_PATIENCE_STEPS = 100
# Peak learning rate in units of d_model^-0.5, that is factor / sqrt(warmup_steps). The paper's
# models have 0.016, those for Multi30k and the demo 0.034 to 0.05. The demo's model (d_model 128,
# post-norm, 450 steps) still learns at 0.071; at 0.095 its loss stays near that of guessing by the
# frequency of pieces, at 0.13 it rises again. On Multi30k 0.095 ends in the same word for every
# sentence. Pre-norm learns well at 0.095; higher rates were not tried.
_HIGHEST_PEAK = 0.08


def rate_warning(config: Config) -> str | None:
    """A warning if the learning rate will exceed every rate at which a model has learnt."""
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
    """Counts successive steps at which a model is worse than guessing, and ends the run in time.

    Guessing, with the same probability for each of V pieces, has ln V nats a token, and a new model
    about half a nat more. So "worse than guessing" means above ln V + 1 or, in the warm-up, when
    a fine-tuned model still adapts to text of another kind, 3 ln V. The loss of a step is the same
    on all ranks, so that they agree without asking each other.
    """

    def __init__(self, config: Config):
        self._uniform = math.log(config.tokenizer.vocabulary_size)
        self._warmup_steps = config.training.warmup_steps
        self._patience = min(_PATIENCE_STEPS, max(10, config.training.max_steps // 10))
        self._count = 0

    def is_astray(self, step: int, nll: float) -> bool:
        """Whether this step was worse than guessing, so that its weights should not be saved.

        A step's loss is from before its update: a checkpoint may have the weights of the
        first diverging step, but of no later one.

        Args:
            nll: of the step, in nats per target token.

        Raises:
            DivergedError: too many successive steps were worse than guessing.
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
    """Nats per target token of guessing by the frequency of each piece in these shards."""
    counts = np.zeros(0, dtype=np.int64)
    for shard in shards:
        longer = max(len(counts), int(shard.target.values.max(initial=0)) + 1)
        counts = np.pad(counts, (0, longer - len(counts)))
        counts += np.bincount(shard.target.values, minlength=longer)
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())


def has_learnt(validation: Mapping[str, Any]) -> bool:
    """Whether a model knows more than the frequencies of pieces and of their neighbours.

    On the demo's sentences, runs with too high a learning rate stay at 0.84 to 1.05 times the nll
    of the frequencies, with BLEU 0; those that learn have BLEU 1 to 2 at 0.75.

    Args:
        validation: as in log.jsonl.
    """
    return validation["nll"] < 0.8 * validation["unigram_nll"]


def shortcomings(mean: Mapping[str, Any], best: Best, by: Measure, run: RunDirectory) -> list[str]:
    """Warnings about a finished model.

    Args:
        mean: the validation of the averaged model, as in log.jsonl.
        best: of the run's single checkpoints; one without a step is not compared.
        by: the measure by which they are compared.
    """
    found = []
    if not has_learnt(mean):
        found.append(
            f"the model has learnt next to nothing (validation nll {mean['nll']:.3f}, "
            f"the frequencies of pieces alone have {mean['unigram_nll']:.3f}), {run.path}, train "
            "on; if the loss did not fall, lower the learning rate or the dropout, and see that "
            "line i of the target files translates line i of the source files"
        )
    elif best.step is not None and best.beats(mean, by):
        name, alone = NAMES[by], getattr(best, by)
        found.append(
            f"the mean of the last checkpoints is worse ({name} {mean[by]:.3f}) than the best "
            f"alone, step {best.step:,} ({name} {alone:.3f}), {run.path}, "
            f"take {run.checkpoint(best.step)}, train longer or average fewer; "
            "training.finished_model better would have chosen it"
        )
    return found


def too_few(averaged: int, wanted: int, run: RunDirectory) -> list[str]:
    """A warning about a finished model of fewer checkpoints than `training.average_last`."""
    if averaged == wanted:
        return []
    return [
        f"the finished model is the mean of {count(averaged, 'checkpoint')}, "
        f"training.average_last is {wanted}, {run.path}, train longer or lower "
        "training.checkpoint_every"
    ]
