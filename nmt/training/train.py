"""Trains the model of a run, from scratch or from a checkpoint, and writes the finished model."""

from contextlib import ExitStack
from pathlib import Path

from nmt.config import Config, refuse_file
from nmt.cpu_memory import keep_freed_memory
from nmt.data.plan import epoch_size
from nmt.errors import InputError, Note
from nmt.runs import checkpoint as checkpoints
from nmt.runs.average import finished_model
from nmt.runs.checkpoint import Checkpoint
from nmt.runs.run_directory import RunDirectory
from nmt.training.begin import Run, Training, all_support_bf16, begin_training, open_run
from nmt.training.distributed import StopRequest, process_group
from nmt.training.finish import finish
from nmt.training.health import rate_warnings
from nmt.training.loop import end_of, train_steps
from nmt.training.run_log import RunLog
from nmt.training.saving import CheckpointWriter


def train(config: Config, note: Note) -> Path:
    """Starts or resumes the run that `config` describes, with data from `nmt prepare`.

    Args:
        note: a function that is called with each message for the user.

    Returns:
        The finished model's directory.

    Raises:
        InputError: a setting is invalid, the data has not been prepared, or the run is locked.
            Subclasses of InputError are raised if there is no valid checkpoint, training diverges,
            storage fails, or a rank is lost. If there are several ranks, one rank raises the error,
            and all other ranks raise ReportedElsewhereError.
        Stopped: a signal stopped the run. A checkpoint of the last step was saved.
    """
    keep_freed_memory()
    directory = RunDirectory(Path(config.training.run_directory))
    with ExitStack() as stack:
        # Entered first, because torchrun may signal a rank before it has reported a lost rank.
        stop = stack.enter_context(StopRequest().listening())
        ranks = stack.enter_context(process_group(config.training.process_group_timeout_s))
        if ranks.is_main:
            refuse_file(("training", "run_directory"), directory.path)
            directory.refuse_what_is_not_ours()  # also before the lock file is created
            stack.enter_context(directory.locked())
            directory.remove_leftovers()
        else:
            note = lambda text: None  # noqa: E731
        run = open_run(config, directory, ranks, note)
        start = checkpoints.newest(run.identity, note)
        ranks.refuse_different(start.step if start else 0, f"checkpoints in {directory}")
        if start is None and (finished := finished_model(run.identity)):
            raise InputError(
                f"{directory} has a finished model from step {finished.step}, but no checkpoint to "
                f"continue from. To train a new model, choose another training.run_directory, or "
                f"remove {directory.model}."
            )
        if not (start and _is_finished(run, start, note)):
            if ranks.is_main:
                directory.record(run.config)
            _train(run, start, stop, note)
    return directory.model


def _is_finished(run: Run, start: Checkpoint, note: Note) -> bool:
    """Returns whether the run has ended and its finished model exists.

    If `training.average_last` or `training.finished_model` has been changed since the finished
    model was written, returns False, so that the model is written again.

    Raises:
        InputError: the run has taken more steps than `training.max_steps`, but is not finished.
    """
    step, state, settings = start.step, start.state, run.config.training
    end = end_of(settings, step, state.best, state.elapsed_s)
    finished = finished_model(run.identity) if end else None
    if finished and finished.step == step and _means(finished.config) == _means(run.config):
        trained = f"{state.elapsed_s / 3600:.4g} (the run has been trained for that many hours)"
        than = trained if end == "max_hours" else "in that run"
        note(
            f"Nothing to do: {run.directory} finished at step {step} because of training.{end}. "
            f"To continue, set training.{end} higher than {than}."
        )
        return True
    if step > settings.max_steps:
        raise InputError(
            f"The run in {run.directory} is already at step {step}, but training.max_steps is "
            f"{settings.max_steps}. Set training.max_steps to {step} to end the run there, or "
            "higher to continue."
        )
    return False


def _means(config: Config) -> tuple[object, ...]:
    """Returns the settings that determine which weights become the finished model."""
    return config.training.average_last, config.training.finished_model


def _train(run: Run, start: Checkpoint | None, stop: StopRequest, note: Note) -> None:
    """Trains the model of a run from `start` or from scratch, and writes the finished model."""
    training, step = begin_training(run, start, note), start.step if start else 0
    with opened_log(training, step) as log:
        if start:
            log.note(f"Resumed from step {step}.")
        for warning in rate_warnings(run.config):
            log.note(f"nmt: warning: {warning}")
        if run.config.training.precision == "bf16" and not all_support_bf16(run.ranks):
            log.note(
                "nmt: warning: training.precision is bf16, but a device has no instructions "
                "for bf16. Training can take 20 times as long as with fp32. To train in fp32, "
                "start a new run with training.precision set to auto or fp32."
            )
        size = run.ranks.world_size
        count = f"with {size} processes " if size > 1 else ""
        log.note(f"Training {count}on {run.ranks.device_name}.")
        tokens, steps = epoch_size(run.training, run.config.training.batch_tokens)
        log.note(f"An epoch has {tokens:,} target tokens and takes about {steps:,} steps.")
        with CheckpointWriter(run) as writer:
            step, end = train_steps(training, writer, log, stop, step)
        finish(training, log, stop, step, end)


def opened_log(training: Training, step: int) -> RunLog:
    """Opens the run's log, which continues after `step`; only the main process logs anything."""
    run = training.run
    if not run.ranks.is_main:
        return RunLog(None)
    settings = run.config.training
    hardware = {"device": run.ranks.device_name, "world_size": run.ranks.world_size}
    return RunLog(
        run.directory.path, step, training.best.validated, settings.max_steps, training.elapsed_s,
        hardware, settings.max_hours,
    )  # fmt: skip
