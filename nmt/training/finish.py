"""Writes the finished model of a run: the mean of the last checkpoints, or the best one alone."""

from typing import Any

from torch import Tensor

from nmt.errors import NoModelError
from nmt.runs import checkpoint as checkpoints
from nmt.runs.average import mean_weights, write_finished
from nmt.runs.model_directory import OpenedModel, new_transformer
from nmt.runs.state import NAMES, Best
from nmt.training.begin import Training
from nmt.training.distributed import StopRequest
from nmt.training.health import shortcomings, too_few
from nmt.training.loss import TransformerLoss
from nmt.training.run_log import RunLog
from nmt.training.saving import raise_if_stopped
from nmt.training.validation import Validation, validate


def finish(training: Training, log: RunLog, stop: StopRequest, step: int, end: str) -> None:
    """Writes the finished model, `RUN/model`.

    Args:
        end: the setting that ended the run, for the log.

    Raises:
        NoModelError: no valid checkpoint is left.
        Stopped: a rank received a signal while the model was validated.
    """
    run = training.run
    run.ranks.wait()  # until the main process has saved the last checkpoint
    weights, facts = _finished(training, log, stop, step)
    if not run.ranks.is_main:
        return
    write_finished(run.identity, run.config, run.files, weights, run.facts | facts, log.note)
    log.model(run.config, facts | {"ended_by": end})
    steps = ", ".join(map(str, facts["averaged_steps"]))
    bleu = f", with validation BLEU {facts['validation']['bleu']:.2f}" if run.validation else ""
    log.note(f"The finished model is the mean of the checkpoints of steps {steps}{bleu}.")
    for warning in facts["warnings"]:
        log.note(f"nmt: warning: {warning}")


def _finished(
    training: Training, log: RunLog, stop: StopRequest, step: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the finished model's weights, and its facts for the manifest and the log."""
    run, best = training.run, training.best
    settings = run.config.training
    by, wanted = settings.best_by, settings.average_last
    sound = checkpoints.sound_checkpoints(
        run.identity, wanted, log.note, settings.checkpoint_every, step
    )
    if not sound:
        raise NoModelError(
            f"{run.directory} has no valid checkpoint to average. Continue the training."
        )
    warnings = too_few(len(sound), wanted, run.directory)
    weights, result = _averaged(training, sound, stop, step)
    if result and settings.finished_model == "better" and best.beats(result.facts, by):
        alone = checkpoints.sound_checkpoints(
            run.identity, 1, log.note, settings.max_steps + 1, best.step
        )
        if alone:
            mean = f"{NAMES[by]} {result.facts[by]:.3f}"
            log.note(f"The checkpoint of step {best.step} is better than the mean ({mean}).")
            sound, warnings, best = alone, [], Best()
            weights, result = _averaged(training, sound, stop, step)
    averaged = sorted(checkpoint.step for checkpoint in sound)
    facts: dict[str, Any] = {"step": step, "averaged_steps": averaged}
    if result:
        facts["validation"] = result.facts
        warnings += shortcomings(result.facts, best, by, run.directory)
    return weights, facts | {"warnings": warnings}


def _averaged(
    training: Training, sound: list[OpenedModel], stop: StopRequest, step: int
) -> tuple[dict[str, Tensor], Validation | None]:
    """Returns the mean of checkpoints' weights and, if there is a validation set, its scores."""
    run = training.run
    weights = mean_weights(sound)
    if not run.validation:
        return weights, None
    transformer = new_transformer(run.config)
    transformer.load_state_dict(weights)
    epsilon = run.config.training.label_smoothing
    module = TransformerLoss(transformer.to(run.ranks.device), epsilon)
    result = validate(
        module, run.tokenizer, run.validation, run.config, run.ranks, stop, training.copy,
        run.target_symbols,
    )  # fmt: skip
    raise_if_stopped(run, run.ranks.max(stop.signal_number), step)
    assert result  # None only if a rank received a signal
    return weights, result
