"""Implements the training loop: optimizer steps, checkpoints and validations.

The result of a run depends only on the configuration, the prepared data and the number of steps.
The batches, dropout masks and learning rate of a step do not depend on earlier steps. A run can
therefore resume from the weights, the optimizer's state and the training state in a checkpoint. The
result of a resumed run is bit-identical to the result of an uninterrupted run.
"""

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal

import torch

from nmt.config import Config
from nmt.config import Training as Settings
from nmt.data.plan import StepPlan
from nmt.model.devices import is_gpu
from nmt.runs.state import NAMES, Best
from nmt.training.begin import Training
from nmt.training.distributed import StopRequest
from nmt.training.fast_paths import choose_path, is_compiled
from nmt.training.health import Divergence
from nmt.training.loading import LoadedStep, steps_of
from nmt.training.run_log import RunLog
from nmt.training.saving import CheckpointWriter, raise_if_stopped
from nmt.training.step import StepResult, add_gradients, optimizer_step
from nmt.training.validation import validate

End = Literal["max_steps", "early_stopping", "max_hours"]  # the setting that ends a run


def end_of(settings: Settings, step: int, best: Best, elapsed_s: float) -> End | None:
    """Returns the setting that ends a run after `step`, or None if the run continues."""
    if step >= settings.max_steps:
        return "max_steps"
    patience = settings.early_stopping
    if patience is not None and best.worse_since >= patience:
        return "early_stopping"
    if settings.max_hours is not None and elapsed_s >= 3600 * settings.max_hours:
        return "max_hours"
    return None


def train_steps(
    training: Training, writer: CheckpointWriter, log: RunLog, stop: StopRequest, step: int
) -> tuple[int, End]:
    """Runs the training steps after `step` until a setting ends the run.

    Returns:
        The last step, whose checkpoint has been saved, and the setting that ended the run.

    Raises:
        Stopped: a rank received a stop signal. A checkpoint of the last step was saved.
        InputError: memory ran out, a rank was lost, training diverged (DivergedError), or writing
            to storage failed.
    """
    run = training.run
    loop = _Loop(training, writer, log, stop, first=step + 1)
    if step:
        # The validation is still due if a signal or an error interrupted it before the run resumed.
        loop.validate_if_due(step, is_saved=True)
        loop.stop_if_asked(run.ranks.max(stop.signal_number), step)
    end = end_of(run.config.training, step, training.best, training.elapsed_s)
    if end:
        return step, end
    training.path = choose_path(training.loss_module, run, step, training.path, log.note)
    with steps_of(run, after=step, is_compiled=is_compiled(training.path)) as loaded:
        steps = _after_a_discarded_pass(training, loaded)
        while not end:
            plan, micro_batches = next(steps)
            loop.update(plan, micro_batches)
            end = loop.save_and_validate(plan.step)
    training.loss_module.graphs = None  # frees their memory
    log.note(_ending(training, end, plan.step))
    return plan.step, end


def _ending(training: Training, end: End, step: int) -> str:
    settings, best = training.run.config.training, training.best
    validated = f" The best {NAMES[settings.best_by]} is that of step {best.step}."
    text = f"Training ends at step {step} because of training.{end}."
    return text + (validated if best.step is not None else "")


class _Loop:
    """Updates the weights in each step, and saves checkpoints and validates when they are due."""

    def __init__(
        self,
        training: Training,
        writer: CheckpointWriter,
        log: RunLog,
        stop: StopRequest,
        first: int,
    ):
        self._training, self._run, self._config = training, training.run, training.run.config
        self._writer, self._log, self._stop, self._first = writer, log, stop, first
        self._results = _Results(self._config)

    def update(self, plan: StepPlan, micro_batches: list[Any]) -> None:
        """Updates the weights; on a GPU, the step's result is usually read during the next step."""
        training, settings, step = self._training, self._config.training, plan.step
        with self._run.ranks.guarded():
            result = optimizer_step(
                training.module, training.loss_module, training.optimizer, micro_batches, step,
                plan.loss_divisor, self._config, self._run.ranks, self._requests,
            )  # fmt: skip
        self._results.read()  # the previous step's result, while a GPU computes this step
        self._log.count(plan.target_tokens)
        is_logged = step in (self._first, settings.max_steps) or step % settings.log_every == 0
        if is_logged:
            self._log.step(_facts(plan, result))
        self._results.add(step, result)
        is_due = self._is_checkpoint_due(step) or self._is_validation_due(step)
        if is_logged or is_due or not is_gpu(self._run.ranks.device):
            self._results.read()

    def _requests(self) -> list[float]:
        """Returns the numbers that this rank exchanges with other ranks after each step.

        The first number is the stop signal that this rank received, or 0. The second number is the
        training time in seconds on the main process, and 0 on other ranks.
        """
        return [self._stop.signal_number, self._log.elapsed_s if self._run.ranks.is_main else 0.0]

    def save_and_validate(self, step: int) -> End | None:
        """Saves a checkpoint and validates the model, each only if it is due at `step`.

        Returns:
            The setting that ends the run, or None if the run continues.

        Raises:
            Stopped: a rank received a stop signal. A checkpoint of `step` was saved.
        """
        results, ranks = self._results, self._run.ranks
        is_saved = self._is_checkpoint_due(step) and not results.are_diverging
        if is_saved:  # before validation, so that an error in validation loses no steps
            self._save(step)
        is_validated = self._is_validation_due(step)
        is_best = self.validate_if_due(step, is_saved=is_saved)
        # After a validation, a new signal must stop the run at this step: an interrupted validation
        # is repeated when the run is resumed.
        signal = ranks.max(self._stop.signal_number) if is_validated else results.signal_number
        end = end_of(self._config.training, step, self._training.best, results.elapsed_s)
        if not is_saved and (end or signal or (is_best and not results.are_diverging)):
            results.read()  # raises if the run has diverged
            self._save(step)
        self._writer.check()
        self.stop_if_asked(signal, step)
        return end

    def stop_if_asked(self, signal: int, step: int) -> None:
        """If a rank received a stop signal, waits for the last write and raises Stopped."""
        if signal:
            self._writer.wait()
        raise_if_stopped(self._run, signal, step)

    def _is_checkpoint_due(self, step: int) -> bool:
        settings = self._config.training
        return step % settings.checkpoint_every == 0 or step == settings.max_steps

    def _is_validation_due(self, step: int) -> bool:
        settings = self._config.training
        is_time = step % settings.validate_every == 0 or step == settings.max_steps
        return bool(self._run.validation) and is_time and self._training.best.validated < step

    def _save(self, step: int) -> None:
        training, state = self._training, self._training.state(step, self._log.elapsed_s)
        self._writer.save(training.loss_module.transformer, training.optimizer, state)
        self._log.restart_clock()

    def validate_if_due(self, step: int, *, is_saved: bool) -> bool:
        """Validates the model if a validation is due at `step`, and updates the best scores.

        If a stop signal interrupts the validation, the best scores do not change, and the
        validation is repeated when the run is resumed.

        Args:
            is_saved: whether the checkpoint of `step` has been saved. If True, the updated best
                scores are recorded in the checkpoint.

        Returns:
            True if a validation was completed and its score is the best so far, otherwise False.
        """
        training, run = self._training, self._run
        if not self._is_validation_due(step):
            return False
        if training.loss_module.graphs:
            training.loss_module.graphs.make_room()
        result = validate(
            training.loss_module, run.tokenizer, run.validation, run.config, run.ranks, self._stop,
            training.copy, run.target_symbols,
        )  # fmt: skip
        self._log.restart_clock()
        if result is None:
            return False
        self._log.validation(step, result)
        is_best = training.best.update(step, result.facts, self._config.training.best_by)
        if is_saved:
            self._writer.record_state(training.state(step, self._log.elapsed_s))
        return is_best


class _Results:
    """A queue of step results, some of which a GPU may still be computing."""

    def __init__(self, config: Config):
        self._divergence, self._unread = Divergence(config), deque[tuple[int, StepResult]]()
        self.are_diverging = False  # whether the newest step that was read is diverging
        self.signal_number = 0  # stop signal that a rank received up to that step, or 0
        self.elapsed_s = 0.0  # seconds of training up to that step, by the main process's clock

    def add(self, step: int, result: StepResult) -> None:
        """Adds a step's result to the queue."""
        self._unread.append((step, result))

    def read(self) -> None:
        """Waits for and reads all queued results; raises DivergedError if the run has diverged."""
        while self._unread:
            step, result = self._unread.popleft()
            self.are_diverging = self._divergence.is_diverging(step, result.nll)
            signal_number, self.elapsed_s = result.requests
            self.signal_number = int(signal_number)


def _after_a_discarded_pass(
    training: Training, steps: Iterator[LoadedStep]
) -> Iterator[LoadedStep]:
    """Runs a backward pass if there are several ranks, then returns an iterator over `steps`.

    The gradients of this backward pass are discarded. DistributedDataParallel rebuilds its gradient
    buckets after the first backward pass. With three or more ranks, the buckets determine the order
    in which the gradients of the ranks are added. Because the gradients of the first backward pass
    are discarded, a resumed run adds gradients in the same order as an uninterrupted run.
    """
    first = next(steps)
    if training.run.ranks.world_size > 1:
        _, micro_batches = first
        batch = micro_batches[0][1]
        one = torch.ones((), device=batch.tgt_out.device)
        add_gradients(training.module, batch, one, training.run.config)
    return chain([first], steps)


def _facts(plan: StepPlan, result: StepResult) -> dict[str, Any]:
    """Returns the log.jsonl entry of a training step."""
    return {
        "step": plan.step,
        "epoch": plan.epoch,
        "plan_digest": plan.digest,
        "source_tokens": plan.source_tokens,
        "target_tokens": plan.target_tokens,
        "loss": result.loss,
        "nll": result.nll,
        "gradient_norm": result.gradient_norm,
        "learning_rate": result.learning_rate,
    }
