"""Writes the finished model: a mean of checkpoints, the best checkpoint, or a moving average."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from nmt.errors import NoModelError
from nmt.runs import checkpoint as checkpoints
from nmt.runs.average import mean_weights, write_finished
from nmt.runs.model_directory import OpenedModel, new_transformer
from nmt.runs.state import NAMES, Best
from nmt.training.begin import Training
from nmt.training.distributed import StopRequest
from nmt.training.health import rate_warnings, shortcomings, too_few
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import averaged_weights
from nmt.training.run_log import RunLog
from nmt.training.saving import raise_if_stopped
from nmt.training.validation import Validation, validate


def finish(training: Training, log: RunLog, stop: StopRequest, step: int, end: str) -> None:
    """Writes the finished model to the directory `RUN/model`.

    Args:
        end: the setting that ended the run, which is written to log.jsonl.

    Raises:
        NoModelError: the run directory contains no valid checkpoint.
        Stopped: a rank received a stop signal while the finished model was validated.
    """
    run = training.run
    run.ranks.wait()  # until the main process has saved the last checkpoint
    if run.config.training.finished_model == "ema":
        weights, facts = _moving_average(training, stop, step)
    else:
        weights, facts = _mean_or_best(training, log, stop, step)
    if not run.ranks.is_main:
        return
    warnings = facts["warnings"]
    facts["warnings"] = [*rate_warnings(run.config), *warnings]
    write_finished(run.identity, run.config, run.files, weights, run.facts | facts, log.note)
    log.model(run.config, facts | {"ended_by": end})
    log.note(f"The finished model is {_described(facts)}.")
    for warning in warnings:  # the warnings about the learning rate were shown at the start
        log.note(f"nmt: warning: {warning}")


def _moving_average(
    training: Training, stop: StopRequest, step: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the moving average of the weights, and entries for the manifest and log.jsonl."""
    run, settings = training.run, training.run.config.training
    weights = averaged_weights(training.optimizer, training.loss_module.transformer)
    result = _validated(training, weights, stop, step)
    facts: dict[str, Any] = {"step": step, "ema_decay": settings.ema_decay, "warnings": []}
    if result:
        facts["validation"] = result.facts
        facts["warnings"] = shortcomings(
            result.facts, training.best, settings.best_by, run.directory
        )
    return weights, facts


def _mean_or_best(
    training: Training, log: RunLog, stop: StopRequest, step: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the finished model's weights, and entries for the manifest and log.jsonl.

    The weights are the mean of several checkpoints, or the weights of the best checkpoint.
    """
    run, best = training.run, training.best
    settings = run.config.training
    by, wanted = settings.best_by, settings.average_last
    weights, sound = mean_weights(
        checkpoints.sound_checkpoints(
            run.identity, wanted, log.note, settings.checkpoint_every, step
        )
    )
    if not sound:
        raise NoModelError(
            f"{run.directory} has no valid checkpoint left to average. Restore its checkpoints "
            "from a copy, or train again."
        )
    result = _validated(training, weights, stop, step)
    facts: dict[str, Any] = {"step": step, "averaged_steps": sorted(found.step for found in sound)}
    if result and best.step is not None and facts["averaged_steps"] != [best.step]:
        facts["compared"] = [
            {"steps": steps, "measure": by, "value": value}
            for steps, value in (
                (facts["averaged_steps"], result.facts[by]), ([best.step], getattr(best, by))
            )
        ]  # fmt: skip
    alone: list[OpenedModel] = []
    if result and settings.finished_model == "better" and best.beats(result.facts, by):
        best_weights, alone = mean_weights(
            checkpoints.sound_checkpoints(
                run.identity, 1, log.note, settings.max_steps + 1, best.step
            )
        )
        if alone:
            facts["averaged_steps"], best = [best.step], Best()
            weights = best_weights
            result = _validated(training, weights, stop, step)
    warnings = [] if alone else too_few(len(sound), wanted, run.directory)
    if result:
        facts["validation"] = result.facts
        warnings += shortcomings(result.facts, best, by, run.directory)
    return weights, facts | {"warnings": warnings}


def _described(facts: Mapping[str, Any]) -> str:
    """Describes the finished model's checkpoints and, if any were compared, the scores.

    An example of a description is "the checkpoint of step 6 (BLEU 2.700), not the mean of steps 8,
    12 (BLEU 1.900)".
    """
    chosen, validation = facts.get("averaged_steps"), facts.get("validation")
    if "compared" not in facts:
        name = _name(chosen) if chosen else f"the moving average at step {facts['step']}"
        return name + (f" (BLEU {validation['bleu']:.3f})" if validation else "")
    compared = sorted(facts["compared"], key=lambda each: each["steps"] != chosen)
    return ", not ".join(
        f"{_name(each['steps'])} ({NAMES[each['measure']]} {each['value']:.3f})"
        for each in compared
    )


def _name(steps: Sequence[int]) -> str:
    which = "the mean of steps" if len(steps) > 1 else "the checkpoint of step"
    return f"{which} {', '.join(map(str, steps))}"


def _validated(
    training: Training, weights: Mapping[str, Tensor], stop: StopRequest, step: int
) -> Validation | None:
    """Validates a model with the given weights; returns None if the run has no validation data."""
    run = training.run
    if not run.validation:
        return None
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
    return result
