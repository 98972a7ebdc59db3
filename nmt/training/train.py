"""The training loop.

A run is a pure function of (configuration, prepared data, step): batches, dropout masks and the
learning rate of a step are derived from the seed and the step. So a checkpoint is weights, Adam's
moments and one integer, and a resumed run repeats the undisturbed one to the bit.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from nmt.config import Config, Data
from nmt.cpu_memory import keep_freed_memory
from nmt.data.layout import Batch, packed
from nmt.data.plan import Plan, StepPlan
from nmt.data.shards import pairs_of
from nmt.errors import DivergedError, InputError, NoModelError, Note, Stopped
from nmt.model.transformer import Transformer
from nmt.runs import checkpoint as checkpoints
from nmt.runs import finished_model
from nmt.runs.average import mean_weights
from nmt.runs.checkpoint import Checkpoint
from nmt.runs.model_directory import check_fit, load_model, new_transformer
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import Best, State
from nmt.training.distributed import Ranks, StopRequest, process_group
from nmt.training.health import LOWER_RATE, Divergence, rate_warning, shortcomings
from nmt.training.loss import TransformerLoss
from nmt.training.optimize import StepResult, adam, add_gradients, optimizer_step
from nmt.training.run import Run, open_run, prepare_if_missing
from nmt.training.run_log import RunLog
from nmt.training.validation import validate

# Tokens a side in a packed row. Longer rows have less padding, but cost more attention, which slows
# a CPU (rows of 48, 64, 100: 10.9, 9.9, 9.0 thousand tokens/s on Multi30k with d_model 128).
_CPU_ROW, _GPU_ROW = 64, 256

Step = tuple[StepPlan, list[tuple[int, Batch]]]  # and this rank's slots of it, numbered


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
    settings, directory = config.training, RunDirectory(Path(config.training.run_directory))
    prepare_if_missing(config, note)
    be_deterministic(settings.deterministic)
    with ExitStack() as stack:
        # outermost: torchrun may signal a rank that still has to say which rank was lost
        stop = stack.enter_context(StopRequest().listening())
        ranks = stack.enter_context(process_group(settings.process_group_timeout_s))
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
        with _log(run, start) as log:
            if start:
                log.note(f"resumed from step {step}")
            count = f"{ranks.world_size} processes on " if ranks.world_size > 1 else ""
            if warning := rate_warning(config):
                log.note(f"nmt: warning: {warning}")
            log.note(f"training: {count}{ranks.device_name}")
            step = _train(training, log, stop, step)
            _finish(run, log, stop, step)
    return directory.model


def be_deterministic(wanted: bool) -> None:
    """Uses only operations that give the same bits every time, or any."""
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(wanted)


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
    module: torch.nn.Module  # loss_module, perhaps compiled or wrapped for several ranks
    optimizer: torch.optim.Adam
    best: Best

    @classmethod
    def begin(cls, run: Run, start: Checkpoint | None, note: Note) -> "Training":
        """Starts from a checkpoint, or anew; `note` is told which model is fine-tuned."""
        settings = run.config.training
        transformer = _initial_transformer(run, start, note).to(run.ranks.device).train()
        loss_module = TransformerLoss(transformer, settings.label_smoothing)
        optimizer = adam(transformer)
        if start:
            checkpoints.restore_adam(optimizer, transformer, start.moments, start.step)
        module = torch.compile(loss_module, dynamic=True) if settings.compile else loss_module
        best = start.state.best.model_copy() if start else Best()
        return cls(run, loss_module, run.ranks.wrap(module), optimizer, best)  # type: ignore[arg-type]

    def validate_if_due(self, log: RunLog, stop: StopRequest, step: int) -> bool:
        """Validates at every `validate_every`-th step and at the last; updates `best`.

        Returns:
            Whether there was a validation with the best BLEU so far. One that a request to stop
            has interrupted changes nothing and remains due.
        """
        run, settings = self.run, self.run.config.training
        is_time = step % settings.validate_every == 0 or step == settings.max_steps
        if not run.validation or not is_time or self.best.validated >= step:
            return False
        result = validate(
            self.loss_module, run.tokenizer, run.validation, run.config, run.ranks, stop
        )
        log.restart_clock()
        if result is None:
            return False
        self.best.validated = step
        log.validation(step, result)
        is_best = result.bleu > self.best.bleu
        if is_best:
            self.best.step, self.best.bleu, self.best.worse_since = step, result.bleu, 0
        else:
            self.best.worse_since += 1
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
        if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
            raise DivergedError(
                f"weights that are not finite, step {step}, nothing was saved; {LOWER_RATE}"
            )
        if not run.lock:
            return
        state = State(
            step=step,
            best=self.best,
            elapsed_s=elapsed_s,
            world_size=run.ranks.world_size,
            threads=torch.get_num_threads(),
            torch=str(torch.__version__),
        )
        moments = checkpoints.adam_moments(self.optimizer, transformer)
        snapshot = Checkpoint(weights, moments, state)
        run.lock.check()
        checkpoints.save(run.directory, snapshot, run.config, run.tokenizer_file, run.hashes)
        run.lock.check()  # again, as saving takes a while
        settings = run.config.training
        every, keep = settings.checkpoint_every, settings.keep_checkpoints
        checkpoints.rotate(run.directory, step, every, keep, self.best.step)


def _train(training: Training, log: RunLog, stop: StopRequest, step: int) -> int:
    """Trains from `step` on; returns the last step, which is saved."""
    run = training.run
    config, settings, ranks = run.config, run.config.training, run.ranks
    if step:
        training.validate_if_due(log, stop, step)  # still due if a stop interrupted it
        _stop(run, ranks.max(stop.signal_number), step)
    if training.is_over(step):
        return step
    divergence, first = Divergence(config), step + 1
    for plan, slots in _settled(training, steps_of(run, after=step)):
        step = plan.step
        result = optimizer_step(
            training.module, training.loss_module, training.optimizer, slots,
            step, plan.target_tokens, config, ranks,
        )  # fmt: skip
        log.count(plan.target_tokens)
        if step in (first, settings.max_steps) or step % settings.log_every == 0:
            log.step(_facts(plan, result))
        is_astray = divergence.is_astray(step, result.nll)
        is_best = training.validate_if_due(log, stop, step)
        signal_number, is_over = ranks.max(stop.signal_number), training.is_over(step)
        is_due = (is_best or step % settings.checkpoint_every == 0) and not is_astray
        if is_over or signal_number or is_due:
            training.save(step, log.elapsed_s)
            log.restart_clock()
        _stop(run, signal_number, step)
        if is_over:
            break
    if step < settings.max_steps:
        log.note(f"early stopping: no better BLEU since step {training.best.step}")
    return step


def _stop(run: Run, signal_number: int, step: int) -> None:
    """Raises Stopped if a rank was asked to stop, once the main process has saved `step`."""
    if signal_number:
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
    } | asdict(result)


def steps_of(run: Run, after: int) -> Iterator[Step]:
    """The steps after `after`, with this rank's slots as tensors on its device."""
    ranks, settings = run.ranks, run.config.training
    slots = ranks.world_size if settings.micro_batches == "auto" else settings.micro_batches
    if slots % ranks.world_size:
        raise InputError(
            f"{ranks.world_size} processes cannot share {slots} slots evenly, "
            "training.micro_batches, make it a multiple of the number of processes"
        )
    share = slots // ranks.world_size
    own = range(ranks.rank * share, (ranks.rank + 1) * share)
    row_tokens = _CPU_ROW if ranks.device.type == "cpu" else _GPU_ROW
    plan = Plan(run.training, settings.batch_tokens, slots, settings.seed, run.verify)
    for step in plan.steps(after):
        batches = []
        for slot in own:
            pairs = pairs_of(run.training, step.slots[slot])
            batches.append((slot, packed(pairs, row_tokens).to(ranks.device)))
        yield step, batches


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


def _finish(run: Run, log: RunLog, stop: StopRequest, step: int) -> None:
    """Averages the last checkpoints into RUN/model, which is validated."""
    run.ranks.wait()  # until the main process has saved the last of them
    settings = run.config.training
    sound = checkpoints.sound_checkpoints(
        run.directory, settings.average_last, log.note, settings.checkpoint_every, step
    )
    if not sound:
        raise NoModelError(f"no sound checkpoint is left to average, {run.directory}, train on")
    weights = mean_weights([folder for _, folder in sound])
    facts: dict[str, Any] = {"step": step, "averaged_steps": sorted(step for step, _ in sound)}
    note = f"model: mean of steps {', '.join(map(str, facts['averaged_steps']))}"
    if run.validation:
        transformer = new_transformer(run.config)
        transformer.load_state_dict(weights)
        module = TransformerLoss(transformer.to(run.ranks.device), settings.label_smoothing)
        result = validate(module, run.tokenizer, run.validation, run.config, run.ranks, stop)
        _stop(run, run.ranks.max(stop.signal_number), step)
        assert result  # None only if a rank was asked to stop
        facts["validation"] = result.facts
        facts["warnings"] = shortcomings(result.facts, log.last_validation, run.directory.path)
        note += f", validation bleu {result.bleu:.2f}"
    if run.lock:
        finished_model.write(
            run.directory, run.lock, run.config, run.tokenizer_file, weights,
            run.hashes | facts, log.note,
        )  # fmt: skip
        log.event("model", facts)
        log.note(note)
        for warning in facts.get("warnings", []):
            log.note(f"nmt: warning: {warning}")
