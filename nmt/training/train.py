"""The training loop.

A run is a pure function of (configuration, prepared data, step): batches, dropout masks and the
learning rate of a step are derived from the seed and the step. So a checkpoint is weights, Adam's
moments and one integer, and a resumed run repeats the undisturbed one to the bit.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from nmt.config import Config, Data
from nmt.cpu_memory import keep_freed_memory
from nmt.data.plan import StepPlan
from nmt.errors import DivergedError, InputError, NoModelError, Note, Stopped
from nmt.model.transformer import Transformer
from nmt.runs import checkpoint as checkpoints
from nmt.runs import finished_model
from nmt.runs.average import mean_weights
from nmt.runs.checkpoint import Checkpoint
from nmt.runs.model_directory import check_fit, load_model, new_transformer
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import NAMES, Best, FastPath, State
from nmt.training.distributed import Ranks, StopRequest, process_group
from nmt.training.fast_paths import choose_path, is_compiled, with_compile_decided
from nmt.training.health import LOWER_RATE, Divergence, rate_warning, shortcomings, too_few
from nmt.training.loading import Step, steps_of
from nmt.training.loss import TransformerLoss
from nmt.training.optimize import StepResult, adam, add_gradients, optimizer_step
from nmt.training.run import Run, open_run, prepare_if_missing
from nmt.training.run_log import RunLog
from nmt.training.saving import Writer, copied
from nmt.training.validation import InferenceCopy, Validation, validate


def train(config: Config, note: Note) -> Path:
    """Trains or resumes the run of a configuration; prepares the data first if it is missing.

    Args:
        note: is told what a person should read, a line at a time.

    Returns:
        The finished model's directory.

    Raises:
        InputError: bad input, lock held; its subclasses: no sound checkpoint, divergence, storage,
            a lost rank. Of several ranks one raises it, the others raise ToldElsewhereError.
        Stopped: a signal asked to stop; the run was saved.
    """
    keep_freed_memory()
    directory = RunDirectory(Path(config.training.run_directory))
    config = with_compile_decided(config, directory)
    settings = config.training
    prepare_if_missing(config, note)
    be_deterministic(settings.deterministic)
    with ExitStack() as stack:
        # outermost: torchrun may signal a rank that still has to say which rank was lost
        stop = stack.enter_context(StopRequest().listening())
        ranks = stack.enter_context(process_group(settings.process_group_timeout_s, stop))
        if not ranks.is_main:
            note = lambda text: None  # noqa: E731
        lock = None
        if ranks.is_main:
            lock = stack.enter_context(directory.locked())
            directory.remove_leftovers()
        run = open_run(config, ranks, lock, note)
        start = checkpoints.newest(directory, note)
        step = start.step if start else 0
        _refuse_different(ranks, run.hashes, f"data, {config.data.directory}")
        _refuse_different(ranks, step, f"checkpoints, {directory}")
        training = Training.begin(run, start, note)
        if training.is_over(step) and finished_model.step_of(directory) == step:
            ended_by = "max_steps" if step >= settings.max_steps else "early_stopping"
            note(
                f"nothing to do: {directory} is finished at step {step}, "
                f"raise training.{ended_by} to train on"
            )
            return directory.model
        if step > settings.max_steps:
            raise InputError(
                f"training.max_steps is {settings.max_steps} and step {step} is reached, "
                f"{directory}, set it to {step} to end the run there, or higher to train on"
            )
        if lock:
            directory.record(config)
        with _log(run, start) as log:
            if start:
                log.note(f"resumed from step {step}")
            count = f"{ranks.world_size} processes on " if ranks.world_size > 1 else ""
            if warning := rate_warning(config):
                log.note(f"nmt: warning: {warning}")
            log.note(f"training: {count}{ranks.device_name}")
            with training.writer:
                step = _train(training, log, stop, step)
            _finish(training, log, stop, step)
    return directory.model


def be_deterministic(wanted: bool) -> None:
    """Uses only operations that give the same bits every time, or any."""
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(wanted)
    # no operation here reads memory before it is written, which that mode fills at each allocation
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _refuse_different(ranks: Ranks, seen: object, name: str) -> None:
    """Raises InputError unless all ranks have seen the same: each machine may have its own disk."""
    if any(other != seen for other in ranks.gather(seen)):
        raise InputError(f"ranks see different {name}, use one file system")


def _log(run: Run, start: Checkpoint | None) -> RunLog:
    """The run's log, continued from a checkpoint if there is one; silent on other ranks."""
    if not run.ranks.is_main:
        return RunLog(None)
    step, validated, elapsed_s = 0, 0, 0.0
    if start:
        step, elapsed_s = start.step, start.state.elapsed_s
        validated = start.state.best.validated
    hardware = {"device": run.ranks.device_name, "world_size": run.ranks.world_size}
    max_steps = run.config.training.max_steps
    return RunLog(run.directory.path, step, validated, max_steps, elapsed_s, hardware, run.lock)


@dataclass(frozen=True)
class Training:
    """What changes while a run trains."""

    run: Run
    loss_module: TransformerLoss
    module: torch.nn.Module  # loss_module, perhaps wrapped for several ranks
    optimizer: torch.optim.Adam
    best: Best
    writer: Writer
    copy: InferenceCopy  # that validations translate with
    path: FastPath | None = None  # of the run so far, see `choose_path`

    @classmethod
    def begin(cls, run: Run, start: Checkpoint | None, note: Note) -> "Training":
        """Starts from a checkpoint, or anew; `note` is told which model is fine-tuned."""
        settings = run.config.training
        transformer = _initial_transformer(run, start, note).to(run.ranks.device).train()
        loss_module = TransformerLoss(transformer, settings.label_smoothing)
        optimizer = adam(transformer)
        if start:
            checkpoints.restore_adam(optimizer, transformer, start.moments, start.step)
        best = start.state.best.model_copy() if start else Best()
        module = run.ranks.wrap(loss_module)
        path = start.state.path if start else None
        return cls(run, loss_module, module, optimizer, best, Writer(), InferenceCopy(), path)

    def is_to_be_validated(self, step: int) -> bool:
        """Whether a validation is due at `step`, and was not done before."""
        settings = self.run.config.training
        is_time = step % settings.validate_every == 0 or step == settings.max_steps
        return bool(self.run.validation) and is_time and self.best.validated < step

    def validate_if_due(self, log: RunLog, stop: StopRequest, step: int, *, is_saved: bool) -> bool:
        """Validates at every `validate_every`-th step and at the last; updates `best`.

        Args:
            is_saved: whether the checkpoint of `step` is written already. It is told the result.

        Returns:
            Whether there was a validation better than all before. One that a request to stop
            has interrupted changes nothing and remains due.
        """
        run = self.run
        if not self.is_to_be_validated(step):
            return False
        result = validate(
            self.loss_module, run.tokenizer, run.validation, run.config, run.ranks, stop,
            self.copy, run.target_symbols,
        )  # fmt: skip
        log.restart_clock()
        if result is None:
            return False
        log.validation(step, result)
        is_best = self.best.update(step, result.facts, run.config.training.best_by)
        if is_saved and run.lock:
            self._begin(partial(_record_state, run, self._state(step, log.elapsed_s)))
        return is_best

    def is_over(self, step: int) -> bool:
        """Whether `step` was the last one: by `max_steps`, or by early stopping."""
        settings = self.run.config.training
        patience = settings.early_stopping
        exhausted = patience is not None and self.best.worse_since >= patience
        return step >= settings.max_steps or exhausted

    def save(self, step: int, elapsed_s: float) -> None:
        """Writes a checkpoint, on the main process alone.

        Args:
            elapsed_s: seconds of training so far, see `RunLog.elapsed_s`.

        Raises:
            DivergedError: weights that are not finite.
        """
        run, transformer = self.run, self.loss_module.transformer
        weights = transformer.state_dict()
        if not torch.stack([tensor.isfinite().all() for tensor in weights.values()]).all():
            raise DivergedError(
                f"weights that are not finite, step {step}, nothing was saved; {LOWER_RATE}"
            )
        if not run.lock:
            return
        moments = checkpoints.adam_moments(self.optimizer, transformer)
        if run.ranks.is_asynchronous:
            weights, moments = copied(weights, moments)
        checkpoint = Checkpoint(weights, moments, self._state(step, elapsed_s))
        self._begin(partial(_write, run, checkpoint))

    def _state(self, step: int, elapsed_s: float) -> State:
        return State(
            step=step,
            best=self.best.model_copy(),
            elapsed_s=elapsed_s,
            world_size=self.run.ranks.world_size,
            threads=torch.get_num_threads(),
            torch=str(torch.__version__),
            path=self.path,
        )

    def _begin(self, write: Callable[[], None]) -> None:
        """Writes at once, or on a GPU in the writer's thread after what it is writing."""
        if self.run.ranks.is_asynchronous:
            self.writer.write(write)
        else:
            write()


def _write(run: Run, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint and removes those that are no longer needed."""
    assert run.lock
    run.lock.check()
    checkpoints.save(
        run.directory, checkpoint, run.config, run.tokenizer_file, run.facts, run.shortlist_file
    )
    run.lock.check()  # again, as saving takes a while
    settings, state = run.config.training, checkpoint.state
    every, keep = settings.checkpoint_every, settings.keep_checkpoints
    checkpoints.rotate(run.directory, state.step, every, keep, state.best.step)


def _record_state(run: Run, state: State) -> None:
    """Writes the state as it is after a validation into the checkpoint of its step."""
    assert run.lock
    run.lock.check()
    checkpoints.record_state(run.directory, state)


class Watch:
    """Sees that a run has not diverged; results are read in order, when reading does not wait."""

    def __init__(self, config: Config):
        self._divergence, self._unread = Divergence(config), deque[tuple[int, StepResult]]()
        self.is_astray = False  # as `Divergence` says of the newest that was read
        self.signal_number = 0  # of a request to stop, as the newest says

    def add(self, step: int, result: StepResult) -> None:
        """Takes a step's result, to be read later."""
        self._unread.append((step, result))

    def read(self) -> None:
        """Reads what was taken; DivergedError if a run has diverged."""
        while self._unread:
            step, result = self._unread.popleft()
            self.is_astray = self._divergence.is_astray(step, result.nll)
            self.signal_number = result.signal_number


def _train(training: Training, log: RunLog, stop: StopRequest, step: int) -> int:
    """Trains from `step` on; returns the last step, which is saved."""
    run = training.run
    config, settings, ranks = run.config, run.config.training, run.ranks
    if step:
        # still due if a stop or an error interrupted it
        training.validate_if_due(log, stop, step, is_saved=True)
        _stop(training, ranks.max(stop.signal_number), step)
    if training.is_over(step):
        return step
    path = choose_path(training.loss_module, run, step, training.path, log.note)
    training = replace(training, path=path)
    watch, first = Watch(config), step + 1
    with steps_of(run, after=step, is_compiled=is_compiled(path)) as planned:
        for plan, slots in _settled(training, planned):
            step = plan.step
            with ranks.guarded():
                result = optimizer_step(
                    training.module, training.loss_module, training.optimizer, slots,
                    step, plan.loss_divisor, config, ranks,
                )  # fmt: skip
            watch.read()  # of the step before, while a GPU computes this one
            log.count(plan.target_tokens)
            is_logged = step in (first, settings.max_steps) or step % settings.log_every == 0
            if is_logged:
                log.step(_facts(plan, result))
            watch.add(step, result)
            is_validated = training.is_to_be_validated(step)
            if is_logged or is_validated or not ranks.is_asynchronous:
                watch.read()
            is_due = step % settings.checkpoint_every == 0 or step == settings.max_steps
            # before it is validated, so that no error there loses it
            is_saved = is_validated and is_due and not watch.is_astray
            if is_saved:
                training.save(step, log.elapsed_s)
            is_best = training.validate_if_due(log, stop, step, is_saved=is_saved)
            # a validation that a request has interrupted is due again if the run stops at this step
            signal_number = ranks.max(stop.signal_number) if is_validated else watch.signal_number
            is_over = training.is_over(step)
            is_due = is_due or is_best
            if is_over or signal_number or is_due:
                watch.read()
            if is_over or signal_number or (is_due and not watch.is_astray):
                if not is_saved:
                    training.save(step, log.elapsed_s)
                log.restart_clock()
            training.writer.check()
            _stop(training, signal_number, step)
            if is_over:
                break
    if step < settings.max_steps:
        name = NAMES[settings.best_by]
        log.note(f"early stopping: no better {name} since step {training.best.step}")
    return step


def _stop(training: Training, signal_number: int, step: int) -> None:
    """Raises Stopped if a rank was asked to stop, once the main process has saved `step`."""
    run = training.run
    if signal_number:
        training.writer.wait()
        run.ranks.wait()
        raise Stopped(signal_number, f"stopped after step {step}, saved in {run.directory}")


def _settled(training: Training, steps: Iterator[Step]) -> Iterator[Step]:
    """The same steps, after one backward pass whose gradients are discarded.

    DistributedDataParallel rebuilds its buckets after its first pass, and with three ranks or more
    the buckets decide in which order the ranks' gradients are added. Only after this pass does
    a resumed run add them in the order of an undisturbed one.
    """
    first = next(steps)
    if training.run.ranks.world_size > 1:
        _, slots = first
        add_gradients(training.module, slots[0][1], 1.0, training.run.config)
    return chain([first], steps)


def _facts(plan: StepPlan, result: StepResult) -> dict[str, Any]:
    """A step as log.jsonl has it."""
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


def _initial_transformer(run: Run, start: Checkpoint | None, note: Note) -> Transformer:
    """A Transformer with the weights of a checkpoint, of a model to fine-tune, or new ones."""
    transformer, origin = new_transformer(run.config), run.config.training.initialize_from
    if start:
        transformer.load_state_dict(start.weights)
        return transformer
    if origin:
        model = load_model(Path(origin), device=torch.device("cpu"), note=note)
        if model.tokenizer.sha256 != run.tokenizer.sha256:
            raise InputError(
                f"its tokenizer is not the data's, training.initialize_from {origin}, prepare "
                "the data into a new directory with initialize_from set, to use its tokenizer"
            )
        _warn_of_other_languages(model.config.data, run.config.data, origin, note)
        weights = model.transformer.state_dict()
        check_fit(transformer, weights, Path(origin))
        transformer.load_state_dict(weights)
        return transformer
    transformer.initialize(run.config.training.seed)
    return transformer


def _warn_of_other_languages(initial: Data, own: Data, origin: str, note: Note) -> None:
    theirs, ours = (f"{data.source_language}-{data.target_language}" for data in (initial, own))
    if theirs != ours:
        note(
            f"nmt: warning: a model of {theirs} is fine-tuned on {ours}, "
            f"training.initialize_from {origin}, name another model if that is not intended"
        )


def _finish(training: Training, log: RunLog, stop: StopRequest, step: int) -> None:
    """Writes RUN/model: the mean of the last checkpoints, or the best one, see `_finished`."""
    run = training.run
    run.ranks.wait()  # until the main process has saved the last of them
    weights, facts = _finished(training, log, stop, step)
    if not run.lock:
        return
    finished_model.write(
        run.directory, run.lock, run.config, run.tokenizer_file, weights,
        run.facts | facts, log.note, run.shortlist_file,
    )  # fmt: skip
    log.model(run.config, facts)
    steps = ", ".join(map(str, facts["averaged_steps"]))
    bleu = f", validation bleu {facts['validation']['bleu']:.2f}" if run.validation else ""
    log.note(f"model: mean of steps {steps}{bleu}")
    for warning in facts["warnings"]:
        log.note(f"nmt: warning: {warning}")


def _finished(
    training: Training, log: RunLog, stop: StopRequest, step: int
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The finished model's weights, and what its manifest and the log say of it."""
    run, best = training.run, training.best
    settings = run.config.training
    by, wanted = settings.best_by, settings.average_last
    sound = checkpoints.sound_checkpoints(
        run.directory, wanted, log.note, settings.checkpoint_every, step
    )
    if not sound:
        raise NoModelError(f"no sound checkpoint is left to average, {run.directory}, train on")
    warnings = too_few(len(sound), wanted, run.directory)
    weights, result = _averaged(training, sound, stop, step)
    if result and settings.finished_model == "better" and best.beats(result.facts, by):
        alone = checkpoints.sound_checkpoints(
            run.directory, 1, log.note, settings.max_steps + 1, best.step
        )
        if alone:
            log.note(f"better than the mean ({NAMES[by]} {result.facts[by]:.3f}): one step alone")
            sound, warnings, best = alone, [], Best()
            weights, result = _averaged(training, sound, stop, step)
    facts: dict[str, Any] = {"step": step, "averaged_steps": sorted(step for step, _ in sound)}
    if result:
        facts["validation"] = result.facts
        warnings += shortcomings(result.facts, best, by, run.directory)
    return weights, facts | {"warnings": warnings}


def _averaged(
    training: Training, sound: list[tuple[int, Path]], stop: StopRequest, step: int
) -> tuple[dict[str, torch.Tensor], Validation | None]:
    """The mean of checkpoints' weights and, if there is a validation set, its validation."""
    run = training.run
    weights = mean_weights([folder for _, folder in sound])
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
    _stop(training, run.ranks.max(stop.signal_number), step)
    assert result  # None only if a rank was asked to stop
    return weights, result
