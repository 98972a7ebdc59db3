"""Detects training problems that do not cause NaN or infinity, such as a lack of progress."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.config import Config, Measure
from nmt.errors import DivergedError, count
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import NAMES, Best
from nmt.training.optimizers import highest_rate
from nmt.training.schedule import learning_rate, peak_step

if TYPE_CHECKING:  # so that `rate_warnings` can be used without importing pyarrow
    from nmt.data.shards import Shard

IF_DIVERGED = (  # the remedy in messages
    "Start a new run in another training.run_directory, and lower training.learning_rate_factor, "
    "raise training.warmup_steps, or set or lower training.gradient_clip."
)
# A run ends after this many consecutive steps whose loss is worse than guessing; fewer such steps
# may be a loss spike.
_PATIENCE_STEPS = 100


def rate_warnings(config: Config) -> list[str]:
    """Returns warnings if the learning rate will exceed `highest_rate` or the warm-up never ends.

    In fine-tuning, a warm-up that is longer than the run is common and does not trigger a warning.
    """
    settings, found = config.training, []
    peak, highest = learning_rate(config, peak_step(config)), highest_rate(config)
    is_rising = settings.warmup_steps > settings.max_steps  # until the last step
    if highest is not None and peak > highest:
        factor = f"training.learning_rate_factor ({settings.learning_rate_factor:g})"
        name = "warmup_steps" if settings.decay_after is None else "decay_after"
        remedy = (
            f"Raise training.{name} ({getattr(settings, name)}) or lower {factor}: the peak is "
            f"factor / sqrt(d_model * {name})."
        )
        found.append(
            f"The learning rate will rise to {peak:.1e}, but models with d_model "
            f"{config.model.d_model} learn little above {highest:.1e}. "
            + (f"Lower {factor}." if is_rising else remedy)
        )
    # Fine-tuning often uses only the low rates at the beginning of a long warm-up.
    if is_rising and not settings.initialize_from:
        found.append(
            f"The learning rate will rise until the last step, because training.warmup_steps is "
            f"{settings.warmup_steps}, but training.max_steps is {settings.max_steps}. Lower "
            "training.warmup_steps or raise training.max_steps."
        )
    return found


class Divergence:
    """Detects divergence, which is a loss worse than guessing in many consecutive steps.

    Guessing each of V tokens with the same probability gives an nll of ln V nats per token, and the
    nll of an untrained model is about half a nat higher. A loss is therefore considered worse than
    guessing if the nll exceeds ln V + 1. During the warm-up, a higher nll of up to 3 ln V is
    accepted, because a fine-tuned model may still be adapting to its new data. The loss of a step
    is the same on all ranks, so all ranks detect divergence at the same step without communication.
    """

    def __init__(self, config: Config):
        self._uniform = math.log(config.tokenizer.vocabulary_size)
        self._warmup_steps = config.training.warmup_steps
        self._patience = min(_PATIENCE_STEPS, max(10, config.training.max_steps // 10))
        self._count = 0

    def is_diverging(self, step: int, nll: float) -> bool:
        """Returns whether a step's loss is worse than guessing.

        If the loss is worse than guessing, the regular checkpoint of the step is not saved. A
        step's loss is computed before the step updates the weights, so the checkpoint of the
        previous step may contain the first weights whose loss is worse than guessing.

        Args:
            nll: the negative log-likelihood of the step, in nats per target token.

        Raises:
            DivergedError: in too many consecutive steps, the loss was worse than guessing.
        """
        is_warm = step >= self._warmup_steps
        is_worse = nll > (self._uniform + 1 if is_warm else 3 * self._uniform)
        self._count = self._count + 1 if is_worse else 0
        if self._count >= self._patience:
            raise DivergedError(
                f"Training diverged at step {step}: the loss per token ({nll:.4g}) has been higher "
                f"than that of uniform guessing ({self._uniform:.2f}) for {self._count} steps in a "
                f"row. "
                f"{IF_DIVERGED}"
            )
        return is_worse


def unigram_nll(shards: Sequence[Shard]) -> float:
    """Returns the nll of predictions from token frequencies alone, in nats per target token."""
    counts = np.zeros(0, dtype=np.int64)
    for shard in shards:
        longer = max(len(counts), int(shard.target.values.max(initial=0)) + 1)
        counts = np.pad(counts, (0, longer - len(counts)))
        counts += np.bincount(shard.target.values, minlength=longer)
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())


def has_learned(validation: Mapping[str, Any]) -> bool:
    """Returns whether a model has learned more than the frequencies of tokens and token pairs.

    The threshold of 0.8 is based on training runs of the demo. If the learning rate is too high,
    the nll of a demo run stays at 0.84 to 1.05 times `unigram_nll`, and BLEU stays at 0. Successful
    demo runs have a BLEU of 1 to 2 when their nll has decreased to 0.75 times `unigram_nll`.

    Args:
        validation: the log.jsonl entry of a validation.
    """
    return validation["nll"] < 0.8 * validation["unigram_nll"]


def shortcomings(
    finished: Mapping[str, Any], best: Best, by: Measure, run: RunDirectory
) -> list[str]:
    """Returns warnings about the quality of a finished model.

    Args:
        finished: the validation of the finished model, as an entry of log.jsonl.
        best: the best validation of a single checkpoint. If `best.step` is None, the finished model
            is not compared with a checkpoint.
        by: the measure by which the finished model and the checkpoint are compared.
    """
    found = []
    if not has_learned(finished):
        found.append(
            f"The model in {run.path} has learned almost nothing: its validation nll of "
            f"{finished['nll']:.3f} should be at least 20% lower than the nll of predictions from "
            f"token frequencies alone, which is {finished['unigram_nll']:.3f}. Continue the "
            "training. If the loss did not fall, lower the learning rate or the dropout, and check "
            "that line i of the target files is the translation of line i of the source files."
        )
    elif best.step is not None and best.beats(finished, by):
        name, alone = NAMES[by], getattr(best, by)
        found.append(
            f"The finished model in {run.path} is worse ({name} {finished[by]:.3f}) than the best "
            f"checkpoint, step {best.step:,} ({name} {alone:.3f}). Use "
            f"{run.checkpoint(best.step)}, set training.finished_model to better, or train longer."
        )
    return found


def too_few(averaged: int, wanted: int, run: RunDirectory) -> list[str]:
    """Returns a list that contains a warning if fewer than `wanted` checkpoints were averaged."""
    if averaged == wanted:
        return []
    return [
        f"The finished model in {run.path} was made from {count(averaged, 'checkpoint')}, but "
        f"training.average_last is {wanted}. Train longer, or lower training.checkpoint_every."
    ]
