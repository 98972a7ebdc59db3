"""The device, deadlines and training steps that all parts use."""

import hashlib
import json
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch

from nmt.benchmark import machine
from nmt.benchmark.flops import flops_per_token_pair
from nmt.data import layout
from nmt.runs.model_directory import new_transformer
from nmt.runs.state import FastPath
from nmt.training.distributed import Ranks
from nmt.training.fast_paths import is_compiled, set_path
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer
from nmt.training.step import StepResult, optimizer_step
from recipes.speed.peers.nmt import configuration, packed
from recipes.speed.workload import BASE, SMALL, Shape, training_batches

BIG = replace(BASE, d_model=1024, d_ff=4096, heads=16, dropout=0.3)
TOKENS = 25_000  # tokens per side in a training step
MEAN_LENGTH, LONGEST = 25, 100  # of the workload's sentences, in tokens
ROW = 256  # columns of a packed row, as for `data.max_length` of the paper's configurations

Result = dict[str, Any]


class LateError(Exception):
    """Raised when a part exceeds its deadline."""


@dataclass
class Bench:
    """The device, and the results that later parts use."""

    device: torch.device
    small: bool
    ceiling: float | None = None  # FLOP/s of the fastest bf16 matrix multiplication

    @property
    def is_gpu(self) -> bool:
        return self.device.type == "cuda"

    def shape(self, shape: Shape) -> Shape:
        """Returns `shape`, or a tiny shape in a small run."""
        return replace(SMALL, layers=1) if self.small else shape

    def seconds(self, work: Callable[[], object], repeats: int = 5, warm_up: int = 2) -> float:
        """Returns the median seconds for `work`, including its work on the device."""
        if self.small:
            repeats, warm_up = 1, 0
        times = [machine.seconds(work, self.device) for _ in range(warm_up + repeats)]
        return statistics.median(times[warm_up:])


Part = Callable[[Bench], Iterator[Result]]


def run(bench: Bench, parts: Sequence[tuple[Part, float]]) -> list[str]:
    """Runs all parts, and prints the results and the outcome of each part.

    Returns:
        The names of the parts that failed, exceeded their deadline, or have a result with `ok`
        false.
    """
    failed = []
    for part, limit_s in parts:
        began, is_ok = time.perf_counter(), True
        ended: Result = {}
        try:
            with _deadline(limit_s):
                for result in part(bench):
                    is_ok &= result.get("ok", True)
                    _print(part.__name__, result)
        except Exception as error:  # after any error, the remaining parts still run
            ended["error"] = f"{type(error).__name__}: {str(error)[:500]}"
        if bench.is_gpu:
            torch.cuda.empty_cache()
        _print(part.__name__, ended | {"seconds": round(time.perf_counter() - began, 1)})
        if ended or not is_ok:
            failed.append(part.__name__)
    return failed


def _print(part: str, result: Result) -> None:
    print(json.dumps({"part": part, **result}), flush=True)


@contextmanager
def _deadline(limit_s: float) -> Iterator[None]:
    """Raises LateError in the block after `limit_s` seconds."""

    def late(signal_number: int, frame: FrameType | None) -> None:
        raise LateError(f"The part did not end within {limit_s:.0f} s.")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Training:
    """Training steps on a few batches of the paper's size, which are kept on the device."""

    def __init__(self, bench: Bench, shape: Shape, path: FastPath = "eager"):
        self.bench, self.shape = bench, bench.shape(shape)
        self.config = configuration(self.shape, "bf16")
        # with this limit, batches have about TOKENS tokens besides padding
        tokens = 400 if bench.small else TOKENS // MEAN_LENGTH * LONGEST
        batches = training_batches(self.shape, n=4, tokens=tokens, by_length=False)
        rows = layout.Shape(ROW, ROW)
        if is_compiled(path):
            rows = layout.fixed_shape(tokens if bench.small else TOKENS, 1, ROW)
        tensors = [packed(batch, rows, bench.device) for batch in batches]
        if is_compiled(path):  # batches of the same shape, so that layers are compiled only once
            (common, _), *_ = Counter(each.tgt_out.shape for each in tensors).most_common()
            kept = [n for n, each in enumerate(tensors) if each.tgt_out.shape == common]
            batches, tensors = [batches[n] for n in kept], [tensors[n] for n in kept]
        self.batches, self.tensors = batches, tensors
        transformer = new_transformer(self.config)
        transformer.initialize(1)
        self.loss_module = TransformerLoss(transformer.to(bench.device).train(), 0.1)
        set_path(self.loss_module, path)
        self.optimizer = new_optimizer(transformer, self.config)
        self.ranks = Ranks(0, 1, bench.device)
        self.taken, self.unread = 0, list[StepResult]()

    def step(self) -> None:
        """Takes a step and then reads the result of the previous step, as `nmt train` does."""
        place = self.taken % len(self.batches)
        self.taken += 1
        result = optimizer_step(
            self.loss_module, self.loss_module, self.optimizer, [(0, self.tensors[place])],
            self.taken, self.batches[place].target_tokens, self.config, self.ranks,
        )  # fmt: skip
        while self.unread:
            _ = self.unread.pop().loss
        self.unread.append(result)

    @property
    def is_replayed(self) -> bool:
        """Returns whether steps are replayed as CUDA graphs."""
        graphs = self.loss_module.graphs
        return graphs is not None and graphs.is_possible

    def digest(self) -> str:
        """Returns a hash of the weights."""
        digest = hashlib.sha256()
        for parameter in self.loss_module.parameters():
            digest.update(parameter.detach().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def measured(self) -> Result:
        """Returns the milliseconds per step, the share of the FLOP/s limit, and the peak memory."""
        if self.bench.is_gpu:
            torch.cuda.reset_peak_memory_stats()
        first = machine.seconds(self.step, self.bench.device)
        seconds = self.bench.seconds(self.step, repeats=8, warm_up=3)
        n = len(self.batches)
        src, tgt = (
            sum(int(lengths.sum()) for lengths in side) / n
            for side in (
                [batch.src_lengths for batch in self.batches],
                [batch.tgt_lengths for batch in self.batches],
            )
        )
        flops = flops_per_token_pair(self.config.model, self.shape.vocabulary, MEAN_LENGTH)
        micro_batches = sum(tensors.tgt_out.numel() for tensors in self.tensors) / n
        found: Result = {
            "graphs": self.is_replayed, "first_step_s": round(first, 2),
            "ms": round(1e3 * seconds, 2),
            "target_tokens_s": round(tgt / seconds), "fill": round(tgt / micro_batches, 3),
            "rows": list(self.tensors[0].tgt_out.shape), "loss": self.unread[0].loss,
        }  # fmt: skip
        if self.bench.ceiling:
            done = flops * (src + tgt) / 2 / seconds
            found["share_of_ceiling"] = round(done / self.bench.ceiling, 4)
        if self.bench.is_gpu:
            found["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        return found
