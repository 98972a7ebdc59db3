"""What one GPU does, in one call of less than eight minutes: a JSON line for each result.

    python -m recipes.speed.gpu > gpu.jsonl

First whether results are right, then how fast they come, the most valuable figures first. Each
part has a deadline, and an error ends only its own part. `--device cpu --small` runs all of them
in tiny sizes.
"""

import argparse
import hashlib
import json
import os
import platform
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from operator import eq
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import nmt
from nmt.benchmark.workload import lengths
from nmt.config import Config, Decoding
from nmt.data import layout
from nmt.decoding.buffer_pool import DecodeBufferPool
from nmt.decoding.constraints import Without
from nmt.decoding.options import SearchOptions
from nmt.decoding.part_search import Part, PartSearch
from nmt.decoding.search import Hypothesis, Steps, search
from nmt.model.attention import Visibility, attention
from nmt.model.dropout import Dropout, Randomness
from nmt.model.special_ids import EOS_ID
from nmt.model.stepper import Stepper
from nmt.reporting.info import flops_per_token_pair
from nmt.runs.model_directory import new_transformer
from nmt.training.compiling import compile_layers
from nmt.training.distributed import Ranks, process_group
from nmt.training.loading import CPU_ROW, GPU_ROW
from nmt.training.loss import TransformerLoss, smoothed_cross_entropy
from nmt.training.optimize import adam, optimizer_step
from recipes.speed.peers.nmt import configuration, packed
from recipes.speed.workload import BASE, SMALL, Batch, Shape, sources, training_batches

BIG = replace(BASE, d_model=1024, d_ff=4096, heads=16, dropout=0.3)
TOKENS = 25_000  # of either side in a training step
_LONGEST, _MEAN = 100, 25  # of the workload's sentences

Result = dict[str, Any]


class LateError(Exception):
    """A part has not ended by its deadline."""


@dataclass
class Bench:
    """The device, and what parts learn of it."""

    device: torch.device
    small: bool
    ceiling: float | None = None  # FLOP/s of the fastest bf16 product found

    def shape(self, shape: Shape) -> Shape:
        """That shape, or a tiny one."""
        return replace(SMALL, layers=1) if self.small else shape

    def seconds(self, work: Callable[[], object], repeats: int = 5, warm_up: int = 2) -> float:
        """Median seconds of `work`, until the device has done it."""
        times = []
        for number in range(1 if self.small else warm_up + repeats):
            self.wait()
            began = time.perf_counter()
            work()
            self.wait()
            if self.small or number >= warm_up:
                times.append(time.perf_counter() - began)
        return statistics.median(times)

    def wait(self) -> None:
        """Until the device has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs all parts."""
    parser = argparse.ArgumentParser(description="Measures nmt on a GPU.")
    parser.add_argument("--device", default="cuda", type=torch.device)
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that all runs")
    arguments = parser.parse_args(argv)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first product
    with process_group(600) if arguments.device.type == "cuda" else nullcontext():  # sets it up
        run(Bench(arguments.device, arguments.small), PARTS)


def run(bench: Bench, parts: Sequence[tuple[Callable[[Bench], Iterator[Result]], float]]) -> None:
    """Prints the results of each part, and how it ended."""
    for part, limit_s in parts:
        began = time.perf_counter()
        ended: Result = {}
        try:
            with _deadline(limit_s):
                for result in part(bench):
                    _print(part.__name__, result)
        except Exception as error:  # whatever it is, the other parts are worth having
            ended["error"] = f"{type(error).__name__}: {str(error)[:500]}"
        if bench.device.type == "cuda":
            torch.cuda.empty_cache()
        _print(part.__name__, ended | {"seconds": round(time.perf_counter() - began, 1)})


def _print(part: str, result: Result) -> None:
    print(json.dumps({"part": part, **result}), flush=True)


@contextmanager
def _deadline(limit_s: float) -> Iterator[None]:
    """Raises LateError in the block after so many seconds."""

    def late(signal_number: int, frame: FrameType | None) -> None:
        raise LateError(f"no end after {limit_s:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def versions(bench: Bench) -> Iterator[Result]:
    """Software and hardware."""
    found: Result = {"nmt": nmt.__version__, "torch": torch.__version__}
    found |= {"python": platform.python_version(), "small": bench.small}
    if bench.device.type == "cuda":
        facts = torch.cuda.get_device_properties(bench.device)
        found |= {"device": facts.name, "memory_gib": round(facts.total_memory / 2**30, 1)}
        found |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    yield found


def ceilings(bench: Bench) -> Iterator[Result]:
    """Copying memory, and the products of base and big; TB/s and TFLOP/s."""
    size = 1 << (20 if bench.small else 30)
    source = torch.ones(size, dtype=torch.uint8, device=bench.device)
    seconds = bench.seconds(lambda: source.clone())
    yield {"copy_tb_s": round(2 * size / seconds / 1e12, 3)}
    rows = 64 if bench.small else TOKENS
    products = [(8192, 8192, 8192)] if not bench.small else []
    for shape in (BASE, BIG):
        d, d_ff, v = (n // (32 if bench.small else 1) for n in
                      (shape.d_model, shape.d_ff, shape.vocabulary))  # fmt: skip
        products += [(rows, d, d), (rows, d, 3 * d), (rows, d, d_ff), (rows, d_ff, d), (rows, d, v)]
    for dtype in (torch.bfloat16, torch.float32):
        for n, k, m in products:
            x = torch.randn(n, k, device=bench.device, dtype=dtype)
            weight = torch.randn(m, k, device=bench.device, dtype=dtype)
            seconds = bench.seconds(lambda x=x, weight=weight: F.linear(x, weight))
            rate = 2 * n * k * m / seconds
            if dtype == torch.bfloat16:
                bench.ceiling = max(rate, bench.ceiling or 0.0)
            yield {"product": [n, k, m], "type": str(dtype), "tflop_s": round(rate / 1e12, 3)}


def parity(bench: Bench) -> Iterator[Result]:
    """A tiny model's loss and gradients in fp32, and its translations, beside the CPU's."""
    shape = replace(SMALL, dropout=0.0)
    (batch,) = training_batches(shape, n=1, tokens=800)
    (ours_loss, ours), (cpu_loss, cpu) = (
        _loss_and_gradients(configuration(shape, "fp32"), batch, device)
        for device in (bench.device, torch.device("cpu"))
    )
    yield {
        "loss": ours_loss, "loss_difference": abs(ours_loss / cpu_loss - 1), "allowed": 1e-4,
        "gradient_difference": max(_difference(ours[name], cpu[name]) for name in cpu),
    }  # fmt: skip
    for beam in (1, 4):
        ours_found, cpu_found = (
            _translated(shape, beam, device) for device in (bench.device, torch.device("cpu"))
        )
        alike = sum(a == b for a, b in zip(ours_found, cpu_found, strict=True))
        yield {"beam": beam, "translations": len(cpu_found), "like_the_cpu": alike}


def _loss_and_gradients(
    config: Config, batch: Batch, device: torch.device
) -> tuple[float, dict[str, Tensor]]:
    transformer = new_transformer(config)
    transformer.initialize(1)
    module = TransformerLoss(transformer.to(device), 0.1)
    loss, _ = module(_packed(batch, device))
    loss.backward()
    return loss.item(), {name: p.grad.cpu() for name, p in module.named_parameters()}


def _difference(a: Tensor, b: Tensor) -> float:
    """The largest one, relative to the largest value."""
    return ((a.double() - b.double()).abs().max() / b.abs().max().clamp_min(1e-12)).item()


def _translated(shape: Shape, beam: int, device: torch.device) -> list[list[int]]:
    """Tokens of translations in fp32."""
    transformer = new_transformer(configuration(shape, "fp32"))
    transformer.initialize(1)
    src = sources(shape, n=16, tokens=4_000)[0].src.to(device)
    steps = Stepper(transformer.to(device).eval(), src, beam, 20)
    found = _searched(steps, len(src), beam, 20, device)
    return [hypotheses[0].tokens for hypotheses in found]


def _searched(
    steps: Steps, n: int, beam: int, length: int, device: torch.device
) -> list[list[Hypothesis]]:
    with torch.inference_mode():
        return search(steps, [length] * n, beam=beam, alpha=0.6, device=device)


def against_fp64(bench: Bench) -> Iterator[Result]:
    """Attention and loss of packed rows, beside the same in fp64 on the CPU."""
    torch.manual_seed(1)
    rows, length, d_k = (2, 24, 8) if bench.small else (8, GPU_ROW, 64)
    segments = torch.arange(length).expand(rows, -1) // 20 + 1
    positions = torch.arange(length).expand(rows, -1) % 20
    query, key, value = torch.randn(3, rows, 4, length, d_k, dtype=torch.float64)
    dropout = Dropout(0.0, Randomness())

    def attended(device: torch.device, dtype: torch.dtype) -> Tensor:
        s, p = segments.to(device), positions.to(device)
        visibility = Visibility((s, s), (p, p), causal=True)
        given = (each.to(device, dtype) for each in (query, key, value))
        return attention(*given, visibility, dropout).cpu()

    exact = attended(torch.device("cpu"), torch.float64)
    for dtype in (torch.float32, torch.bfloat16):
        found = _difference(attended(bench.device, dtype), exact)
        yield {"attention": str(dtype), "difference": found}
    shape = bench.shape(BASE)
    hidden = torch.randn(300, shape.d_model, dtype=torch.float64)
    weight = torch.randn(shape.vocabulary, shape.d_model, dtype=torch.float64)
    weight *= shape.d_model**-0.5
    targets = torch.randint(4, shape.vocabulary, (300,))
    exact = F.cross_entropy(hidden @ weight.t(), targets, label_smoothing=0.1, reduction="sum")
    given = (each.to(bench.device, torch.float32) for each in (hidden, weight))
    hidden, weight = given
    for low in (False, True):
        with torch.autocast(bench.device.type, torch.bfloat16, enabled=low):
            loss, _ = smoothed_cross_entropy(hidden, weight, targets.to(bench.device), 0.1)
        difference = _difference(loss.cpu(), exact)
        yield {"loss": "torch.bfloat16" if low else "torch.float32", "difference": difference}


def _packed(batch: Batch, device: torch.device) -> layout.Batch:
    """As `nmt train` packs them for this device."""
    row = CPU_ROW if device.type == "cpu" else GPU_ROW
    return packed(batch, layout.Shape(row, row), device)


class Training:
    """Training steps on a few batches of the paper's size, which are on the device already."""

    def __init__(self, bench: Bench, shape: Shape, *, is_compiled: bool = False):
        self.bench, self.shape = bench, bench.shape(shape)
        self.config = configuration(self.shape, "bf16")
        # sentences of any length: in a batch as many as have so many tokens in the mean
        tokens = 400 if bench.small else TOKENS // _MEAN * _LONGEST
        self.batches = training_batches(self.shape, n=4, tokens=tokens, by_length=False)
        fixed = layout.fixed_shape(tokens if bench.small else TOKENS, 1, _LONGEST)
        self.tensors = [
            packed(batch, fixed, bench.device) if is_compiled else _packed(batch, bench.device)
            for batch in self.batches
        ]
        transformer = new_transformer(self.config)
        transformer.initialize(1)
        if is_compiled:  # as training.compile has it; tiny, only traced
            compile_layers(transformer, backend="eager" if bench.small else "inductor")
        self.loss_module = TransformerLoss(transformer.to(bench.device).train(), 0.1)
        self.optimizer = adam(transformer)
        self.ranks = Ranks(0, 1, bench.device)
        self.taken = 0

    def step(self) -> float:
        """The loss."""
        place = self.taken % len(self.batches)
        self.taken += 1
        return optimizer_step(
            self.loss_module, self.loss_module, self.optimizer, [(0, self.tensors[place])],
            self.taken, self.batches[place].target_tokens, self.config, self.ranks,
        ).loss  # fmt: skip

    def measured(self) -> Result:
        """Milliseconds, share of the ceiling, memory."""
        if self.bench.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self.bench.wait()
        began = time.perf_counter()
        loss = self.step()
        first = time.perf_counter() - began
        seconds = self.bench.seconds(self.step, repeats=8, warm_up=3)
        n = len(self.batches)
        src, tgt = (
            sum(int(lengths.sum()) for lengths in side) / n
            for side in (
                [batch.src_lengths for batch in self.batches],
                [batch.tgt_lengths for batch in self.batches],
            )
        )
        flops = flops_per_token_pair(self.config.model, self.shape.vocabulary, _MEAN)
        slots = sum(tensors.tgt_out.numel() for tensors in self.tensors) / n
        found: Result = {
            "first_step_s": round(first, 2), "ms": round(1e3 * seconds, 2), "first_loss": loss,
            "target_tokens_s": round(tgt / seconds), "fill": round(tgt / slots, 3),
        }  # fmt: skip
        if self.bench.ceiling:
            done = flops * (src + tgt) / 2 / seconds
            found["share_of_ceiling"] = round(done / self.bench.ceiling, 4)
        if self.bench.device.type == "cuda":
            found["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        return found


def base_eager(bench: Bench) -> Iterator[Result]:
    """A step of the base model, uncompiled."""
    yield Training(bench, BASE).measured()


def base_compiled(bench: Bench) -> Iterator[Result]:
    """A step of the base model with `training.compile`."""
    yield Training(bench, BASE, is_compiled=True).measured()


def big_compiled(bench: Bench) -> Iterator[Result]:
    """A step of the big model with `training.compile`."""
    yield Training(bench, BIG, is_compiled=True).measured()


def decoding(bench: Bench) -> Iterator[Result]:
    """Beam search in bf16, every output of the same length: step by step, and by graphs."""
    shape, length = bench.shape(BASE), 4 if bench.small else 30
    transformer = new_transformer(configuration(shape, "bf16"))
    transformer.initialize(1)
    transformer = transformer.to(bench.device, torch.bfloat16).eval()
    pool = DecodeBufferPool(transformer)

    def eager(src: Tensor, beam: int) -> list[list[Hypothesis]]:
        steps = Without(Stepper(transformer, src, beam, length), [EOS_ID])
        return _searched(steps, len(src), beam, length, bench.device)

    def graph(src: Tensor, beam: int) -> list[list[Hypothesis]]:
        with torch.inference_mode(), pool.stepper(src, beam, length) as steps:
            return _searched(Without(steps, [EOS_ID]), len(src), beam, length, bench.device)

    for n in (1, 4) if bench.small else (32, 1, 1024):
        src = torch.randint(4, shape.vocabulary, (n, _MEAN), device=bench.device)
        for beam in (4, 1):
            found = {}
            for way in (eager, graph):
                found[way] = [hypotheses[0].tokens for hypotheses in way(src, beam)]
                seconds = bench.seconds(partial(way, src, beam), repeats=3, warm_up=1)
                yield {
                    "way": way.__name__, "sentences": n, "beam": beam,
                    "ms_per_step": round(1e3 * seconds / length, 3),
                    "sentences_s": round(n / seconds, 1),
                    "like_eager": sum(map(eq, found[way], found[eager])),
                }  # fmt: skip


def test_set(bench: Bench) -> Iterator[Result]:
    """As many sentences as newstest2014 has, in bf16, outputs about as long as sources.

    One batch at a time and two in turn; the first pass captures graphs, the second has them.
    """
    shape = bench.shape(BASE)
    transformer = new_transformer(configuration(shape, "bf16"))
    transformer.initialize(1)
    transformer = transformer.to(bench.device, torch.bfloat16).eval()
    decoding = Decoding(beam=4, length_penalty=0.6, max_extra_length=2)
    parts = [
        Part(torch.randint(4, shape.vocabulary, (n - 1,)).tolist(), prefix=[])
        for n in lengths(10 if bench.small else 3_003)[0].tolist()
    ]
    for at_once in (1, 2):
        found = PartSearch([transformer], decoding, reads_as=tuple, untrained=[EOS_ID])
        found.batches_at_once = at_once
        for state in ("first", "again"):
            bench.wait()
            began = time.perf_counter()
            found.find(parts, SearchOptions())
            seconds = time.perf_counter() - began
            yield {
                "batches_at_once": at_once, "pass": state, "sentences": len(parts),
                "sentences_s": round(len(parts) / seconds, 1), "in_s": round(seconds, 3),
            }  # fmt: skip


def deterministic(bench: Bench) -> Iterator[Result]:
    """The same four steps twice in deterministic mode: the weights' hashes, and the cost."""
    torch.use_deterministic_algorithms(True)
    try:
        hashes = []
        for _ in range(2):
            steps = Training(bench, BASE)
            for _ in range(4):
                steps.step()
            hashes.append(_hash(steps.loss_module))
        seconds = bench.seconds(steps.step)
        yield {"same": hashes[0] == hashes[1], "hashes": hashes, "ms": round(1e3 * seconds, 2)}
    finally:
        torch.use_deterministic_algorithms(False)


def _hash(module: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for parameter in module.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def profiled(bench: Bench) -> Iterator[Result]:
    """Where the time of an eager step goes: the first 15."""
    steps = Training(bench, BASE)
    steps.step()
    bench.wait()
    is_gpu = bench.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_gpu else [])]
    with profile(activities=activities) as found:
        steps.step()
        bench.wait()
    key = "self_device_time_total" if is_gpu else "self_cpu_time_total"
    events = sorted(found.key_averages(), key=lambda event: -getattr(event, key))
    total = sum(getattr(event, key) for event in events)
    for event in events[:15]:
        spent = getattr(event, key)
        yield {"name": event.key[:80], "calls": event.count, "ms": round(spent / 1e3, 3),
               "share": round(spent / total, 4)}  # fmt: skip


# with their deadlines, seconds; together less than eight minutes
PARTS = [
    (versions, 5.0),
    (ceilings, 20.0),
    (parity, 30.0),
    (against_fp64, 20.0),
    (base_compiled, 90.0),
    (decoding, 60.0),
    (big_compiled, 90.0),
    (test_set, 40.0),
    (base_eager, 30.0),
    (deterministic, 40.0),
    (profiled, 20.0),
]

if __name__ == "__main__":
    main()
