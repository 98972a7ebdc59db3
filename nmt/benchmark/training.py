"""Measures the time of the training steps of `nmt train` on random or prepared sentences."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch

from nmt.benchmark import machine, workload
from nmt.benchmark.flops import training_flops
from nmt.benchmark.gate import Gate, Gated
from nmt.config import Config
from nmt.cpu_memory import keep_freed_memory
from nmt.data.prepared_data import PreparedData
from nmt.data.shards import Shard, pairs_of
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, Note
from nmt.model.devices import is_gpu
from nmt.runs.run_directory import RunDirectory, RunIdentity
from nmt.training.begin import Run, Training, begin_training, with_auto_decided
from nmt.training.distributed import Ranks, process_group, world_size
from nmt.training.fast_paths import choose_path, is_compiled
from nmt.training.loading import LoadedStep, steps_of
from nmt.training.loss import TransformerLoss
from nmt.training.step import StepResult, optimizer_step

PARTS = ("data", "forward", "loss", "backward", "optimizer")
# A CUDA graph contains the forward pass, the loss and the backward pass of a micro-batch.
_REPLAYED_PARTS = ("data", "passes", "optimizer")
_WARM_UP = 2  # number of untimed steps
_FEWEST, _MOST, _ENOUGH_S = 5, 40, 3.0  # minimum and maximum number of timings, target total time
_ON_GPU = 10  # number of steps that are timed together on a GPU
_NO_END = 10**9  # maximum number of steps, which is never reached
_LEAST_PAIRS = 20_000  # minimum number of random pairs; ten steps may need more


@dataclass(frozen=True)
class Steps:
    """A group of training steps that were timed together.

    On a CPU, each group contains one step. On a GPU, each group contains several steps.
    """

    number: int
    parts: dict[str, float]  # total seconds of each part in `PARTS` or `_REPLAYED_PARTS`
    source_tokens: int  # excluding padding, including EOS
    target_tokens: int
    computed_tokens: int  # source and target tokens, including padding
    flops: int  # FLOPs of non-padding tokens

    @property
    def seconds(self) -> float:
        """The time in seconds from the start of the first step to the end of the last step."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class TrainingSpeed:
    """The result of `timed_training`."""

    timed: Gated[Steps]
    peak_memory_bytes: int
    device: str
    parameters: int

    @property
    def target_tokens_per_second(self) -> float:
        """The median number of target tokens per second over the timed groups of steps."""
        return statistics.median(each.target_tokens / each.seconds for each in self.timed.kept)

    @property
    def flops_per_second(self) -> float:
        """The median number of FLOPs per second over the timed groups of steps."""
        return statistics.median(each.flops / each.seconds for each in self.timed.kept)

    @property
    def tokens_per_step(self) -> float:
        """The number of tokens per step, including padding, averaged over source and target.

        The value is the median over the timed groups of steps.
        """
        return statistics.median(each.computed_tokens / each.number / 2 for each in self.timed.kept)

    @property
    def parts(self) -> dict[str, float]:
        """The time in seconds that each part of a step takes.

        The times are scaled so that their sum is the median step time.
        """
        kept = self.timed.kept
        median = statistics.median(each.seconds / each.number for each in kept)
        total = sum(each.seconds for each in kept)
        return {name: median * sum(s.parts[name] for s in kept) / total for name in kept[0].parts}

    def as_json(self) -> dict[str, Any]:
        """Returns the result as a JSON object; docs/speed.md lists its keys."""
        kept, parts = self.timed.kept, self.parts
        number = kept[0].number
        real = sum(each.source_tokens + each.target_tokens for each in kept)
        return {
            "target_tokens_per_second": self.target_tokens_per_second,
            "fill": real / sum(each.computed_tokens for each in kept),
            "peak_memory_bytes": self.peak_memory_bytes,
            "flops_per_second": self.flops_per_second,
            "step_seconds": sum(parts.values()),
            "parts_seconds": parts,
            "target_tokens_per_step": statistics.median(s.target_tokens / number for s in kept),
            "steps": {"timed": len(kept) * number, "dropped": self.timed.dropped * number},
            "parameters": self.parameters,
            "device": self.device,
        }


def benchmark_training(config: Config, *, prepared: bool = False, note: Note) -> dict[str, Any]:
    """Measures the training speed of a configuration; docs/speed.md lists the keys of the result.

    Args:
        prepared: whether to use the configuration's prepared data instead of random sentences.
        note: called with each progress message.

    Raises:
        InputError: the prepared data does not exist, memory ran out, or torchrun has started more
            than one process.
        DivergedError: the loss is not finite.
    """
    if world_size() > 1:
        raise InputError("A benchmark measures one process. Start nmt benchmark without torchrun.")
    shards = _prepared_shards(config) if prepared else [drawn_shard(config)]
    with process_group(config.training.process_group_timeout_s) as ranks:
        config = with_auto_decided(config, ranks)
        gate = Gate(machine.probe(ranks.device))
        speed = timed_training(config, shards, ranks, gate, note)
        note("Measuring the machine's ceilings.")
        precision = config.training.precision
        assert precision != "auto"
        ceilings = machine.measured_ceilings(
            config.model, config.tokenizer.vocabulary_size, round(speed.tokens_per_step),
            precision, ranks.device, gate, gradients=True,
        )  # fmt: skip
    return speed.as_json() | {
        "ceiling_share": speed.flops_per_second / ceilings.best,
        "ceilings": ceilings.as_json(),
        "precision": precision,
        "workload": "prepared" if prepared else "drawn",
        "torch": str(torch.__version__),
    }


def _prepared_shards(config: Config) -> list[Shard]:
    data = PreparedData.of(config)
    shards = data.shards("train")
    for shard in shards:
        data.verify(shard)
    return shards


def drawn_shard(config: Config) -> Shard:
    """Returns enough random sentence pairs for at least ten training steps with `config`."""
    per_step = config.training.batch_tokens // workload.MEAN_LENGTH
    lengths = workload.lengths(max(_LEAST_PAIRS, 10 * per_step), config.data.max_length)
    return workload.shard(lengths, config.tokenizer.vocabulary_size)


def timed_training(
    config: Config, shards: list[Shard], ranks: Ranks, gate: Gate, note: Note
) -> TrainingSpeed:
    """Trains a new model on the pairs in `shards`, as `nmt train` does, and times the steps."""
    keep_freed_memory()
    run = _run_without_files(config, shards, ranks)
    training, clock = begin_training(run, None, note), _Clock(ranks.device)
    watched = clock.watching(training.loss_module)
    path = choose_path(training.loss_module, run, 0, None, note)
    with steps_of(run, after=0, is_compiled=is_compiled(path)) as planned, watched:

        def timed(number: int) -> Steps:
            return _timed_steps(training, islice(planned, number), clock)

        note(f"Warming up with {_WARM_UP} steps on {ranks.device_name}.")
        for _ in range(_WARM_UP):
            one_s = timed(1).seconds
        wanted = min(max(_FEWEST, round(_ENOUGH_S / one_s)), _MOST)
        number = _ON_GPU if is_gpu(ranks.device) else 1
        note(f"Timing {wanted * number} steps of about {one_s:.2g} s each.")
        measured = gate.measured(lambda: (timed(number), ()), wanted)
    parameters = sum(each.numel() for each in training.module.parameters())
    peak = machine.peak_memory(ranks.device)
    return TrainingSpeed(measured, peak, ranks.device_name, parameters)


def _timed_steps(training: Training, planned: Iterator[LoadedStep], clock: "_Clock") -> Steps:
    """Runs training steps and times their parts.

    As in `nmt train`, the result of each step is read after the next step has been started.
    """
    run, plans, computed = training.run, [], 0
    result: StepResult | None = None
    clock.start()
    for plan, micro_batches in planned:
        clock.ends("data")
        former = result
        result = optimizer_step(
            training.module, training.loss_module, training.optimizer, micro_batches,
            plan.step, plan.loss_divisor, run.config, run.ranks,
        )  # fmt: skip
        if former:
            _ = former.nll
        clock.ends("optimizer")
        plans.append(plan)
        computed += sum(b.src.tokens.numel() + b.tgt_out.numel() for _, b in micro_batches)
    parts = clock.stop()
    if result:
        _ = result.nll  # raises if a step diverged
    pairs = [
        pair
        for plan in plans
        for micro_batch in plan.micro_batches
        for pair in pairs_of(run.training, micro_batch)
    ]
    source, target = ([len(side) for side in sides] for sides in zip(*pairs, strict=True))
    flops = training_flops(run.config.model, run.config.tokenizer.vocabulary_size, source, target)
    return Steps(len(plans), parts, sum(source), sum(target), computed, flops)


def _run_without_files(config: Config, shards: list[Shard], ranks: Ranks) -> Run:
    """Returns a run that neither validates nor saves a model and therefore needs no tokenizer."""
    settings = config.training.model_copy(update={"initialize_from": None, "max_steps": _NO_END})
    return Run(
        config=config.model_copy(update={"training": settings}),
        identity=RunIdentity(RunDirectory(Path(settings.run_directory)), b"", None),
        ranks=ranks,
        tokenizer=cast(Tokenizer, None),
        training=shards,
        validation=[],
        verify=lambda shard: None,
        files={},
        facts={},
    )


class _Clock:
    """Times the parts of a training step.

    Hooks record when the forward pass, the loss and the backward pass end. On a GPU, CUDA events
    record the times, because the GPU runs asynchronously.
    """

    def __init__(self, device: torch.device):
        self._is_gpu = device.type == "cuda"
        self._device = device
        self._marks: list[tuple[str, Any]] = []  # the part that ended, its end time or event
        self._parts: tuple[str, ...] = PARTS

    def start(self) -> None:
        """Starts timing."""
        self._marks = []
        machine.synchronize(self._device)
        self.ends("")

    @torch.compiler.disable
    def ends(self, part: str) -> None:
        """Records the end of a part; each part begins where the previous part ended."""
        if not self._is_gpu:
            self._marks.append((part, time.perf_counter()))
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append((part, event))

    def stop(self) -> dict[str, float]:
        """Waits for the device, and returns the seconds spent on each part since `start`."""
        machine.synchronize(self._device)
        seconds = dict.fromkeys(self._parts, 0.0)
        for (_, began), (name, ended) in zip(self._marks, self._marks[1:], strict=False):
            seconds[name] += began.elapsed_time(ended) / 1e3 if self._is_gpu else ended - began
        return seconds

    @contextmanager
    def watching(self, loss: TransformerLoss) -> Iterator[None]:
        """Records when the forward pass, loss and backward pass of each micro-batch end.

        If a CUDA graph replays the passes, only the end of the replay is recorded. The remaining
        time of a step is attributed to the "optimizer" part, which zeroes the gradients, computes
        and checks their norm, and updates the weights. The backward pass ends with the gradient of
        the embedding matrix, because both the encoder's input and the loss contribute to this
        gradient.
        """
        if loss.graphs:
            self._parts, replay = _REPLAYED_PARTS, loss.graphs.replay

            def replay_and_mark(*inputs: Any) -> Any:
                self.ends("optimizer")
                losses = replay(*inputs)
                self.ends("passes")
                return losses

            loss.graphs.replay = replay_and_mark  # type: ignore[assignment]
            try:
                yield
            finally:
                loss.graphs.replay = replay  # type: ignore[method-assign]
            return
        model = loss.transformer
        hooks = [
            model.register_forward_pre_hook(lambda *_: self.ends("optimizer")),
            model.register_forward_hook(lambda *_: self.ends("forward")),
            loss.register_forward_hook(lambda *_: self.ends("loss")),
            model.embedding.register_post_accumulate_grad_hook(lambda _: self.ends("backward")),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
