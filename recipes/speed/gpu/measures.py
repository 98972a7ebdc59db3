"""Measures the speed of training and translation on a GPU, and the GPU's limits."""

import platform
from collections.abc import Iterator
from functools import partial
from operator import eq

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import nmt
from nmt.benchmark import machine
from nmt.benchmark.workload import lengths
from nmt.config import Decoding
from nmt.decoding.batched_search import BatchedSearch, SearchInput
from nmt.decoding.beam_search import Hypothesis
from nmt.decoding.buffer_pool import DecodeBufferPool
from nmt.decoding.constraints import Without
from nmt.decoding.options import SearchOptions
from nmt.model.kernels.flex import flex_suits
from nmt.model.special_ids import EOS_ID
from nmt.model.stepper import Stepper
from nmt.runs.model_directory import new_transformer
from nmt.runs.state import FastPath
from recipes.speed.gpu.bench import BIG, MEAN_LENGTH, TOKENS, Bench, Part, Result, Training
from recipes.speed.gpu.checks import searched
from recipes.speed.peers.nmt import configuration
from recipes.speed.workload import BASE, Shape


def versions(bench: Bench) -> Iterator[Result]:
    """Reports the versions of the software and the hardware."""
    found: Result = {"nmt": nmt.__version__, "torch": torch.__version__}
    found |= {"python": platform.python_version(), "small": bench.small}
    if bench.is_gpu:
        facts = torch.cuda.get_device_properties(bench.device)
        found |= {"device": facts.name, "memory_gib": round(facts.total_memory / 2**30, 1)}
        found |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    yield found


def ceilings(bench: Bench) -> Iterator[Result]:
    """Measures memory bandwidth in TB/s and matrix multiplications of base and big in TFLOP/s."""
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


def base_step(bench: Bench) -> Iterator[Result]:
    """Measures a training step of base on each execution path, the fastest path first."""
    for path in (*_compiled(bench, BASE), "eager"):
        yield from _with_and_without_graphs(path, Training(bench, BASE, path))


def big_step(bench: Bench) -> Iterator[Result]:
    """Measures a training step of big on the fastest execution path."""
    for path in _compiled(bench, BIG)[:1]:
        yield from _with_and_without_graphs(path, Training(bench, BIG, path))


def _with_and_without_graphs(path: FastPath, steps: Training) -> Iterator[Result]:
    yield {"path": path} | steps.measured()
    if steps.is_replayed:
        steps.loss_module.graphs = None
        yield {"path": path} | steps.measured()


def _compiled(bench: Bench, shape: Shape) -> list[FastPath]:
    """Returns the paths with compiled layers, fastest first; tiny models are not compiled."""
    if bench.small:
        return []
    config = configuration(shape, "bf16")
    return ["flex", "compiled"] if flex_suits(config.model, bench.device) else ["compiled"]


def decoding(bench: Bench) -> Iterator[Result]:
    """Measures bf16 beam search with equal output lengths, by plain steps and by CUDA graphs."""
    shape, length = bench.shape(BASE), 4 if bench.small else 30
    transformer = new_transformer(configuration(shape, "bf16"))
    transformer.initialize(1)
    transformer = transformer.to(bench.device, torch.bfloat16).eval()
    pool = DecodeBufferPool(transformer)

    @torch.inference_mode()
    def eager(src: Tensor, beam: int) -> list[list[Hypothesis]]:
        steps = Without(Stepper(transformer, src, beam, length), [EOS_ID])
        return searched(steps, len(src), beam, length, bench.device)

    def graph(src: Tensor, beam: int) -> list[list[Hypothesis]]:
        with torch.inference_mode(), pool.stepper(src, beam, length) as steps:
            return searched(Without(steps, [EOS_ID]), len(src), beam, length, bench.device)

    for n in (1, 4) if bench.small else (32, 1, 1024):
        src = torch.randint(4, shape.vocabulary, (n, MEAN_LENGTH), device=bench.device)
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
    """Measures bf16 translation of 3,003 random sentences, the number of sentences in newstest2014.

    The lengths of the outputs are similar to those of the sources. Measures one batch at a time,
    and two batches alternately. The first pass captures the CUDA graphs that the second pass uses.
    """
    shape = bench.shape(BASE)
    transformer = new_transformer(configuration(shape, "bf16"))
    transformer.initialize(1)
    transformer = transformer.to(bench.device, torch.bfloat16).eval()
    decoding = Decoding(beam=4, length_penalty=0.6, max_extra_length=2)
    parts = [
        SearchInput(torch.randint(4, shape.vocabulary, (n - 1,)).tolist(), prefix=[])
        for n in lengths(10 if bench.small else 3_003)[0].tolist()
    ]
    for at_once in (1, 2):
        found = BatchedSearch([transformer], decoding, reads_as=tuple, untrained=[EOS_ID])
        found.batches_at_once = at_once
        for state in ("first", "again"):
            seconds = machine.seconds(partial(found.find, parts, SearchOptions()), bench.device)
            yield {
                "batches_at_once": at_once, "pass": state, "sentences": len(parts),
                "sentences_s": round(len(parts) / seconds, 1), "in_s": round(seconds, 3),
            }  # fmt: skip


def deterministic(bench: Bench) -> Iterator[Result]:
    """Takes four steps twice in deterministic mode; reports hashes of the weights, and the time."""
    torch.use_deterministic_algorithms(True)
    try:
        hashes = []
        for _ in range(2):
            steps = Training(bench, BASE)
            for _ in range(4):
                steps.step()
            hashes.append(steps.digest())
        seconds = bench.seconds(steps.step)
        yield {"same": hashes[0] == hashes[1], "hashes": hashes, "ms": round(1e3 * seconds, 2)}
    finally:
        torch.use_deterministic_algorithms(False)


def profiled(bench: Bench) -> Iterator[Result]:
    """Reports the 20 kernels that take the most time in a step on the fastest execution path."""
    path = next(iter(_compiled(bench, BASE)), "eager")
    steps = Training(bench, BASE, path)
    steps.step()
    machine.synchronize(bench.device)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if bench.is_gpu else [])]
    with profile(activities=activities) as found:
        steps.step()
        machine.synchronize(bench.device)
    device, key = ("CUDA", "device") if bench.is_gpu else ("CPU", "cpu")
    times = {
        event: getattr(event, f"self_{key}_time_total")
        for event in found.key_averages()
        if event.device_type.name == device
    }
    total = sum(times.values())
    yield {"path": path, "kernels": sum(event.count for event in times),
           "ms": round(total / 1e3, 3)}  # fmt: skip
    for event in sorted(times, key=times.__getitem__, reverse=True)[:20]:
        yield {"name": event.key[:80], "calls": event.count, "ms": round(times[event] / 1e3, 3),
               "share": round(times[event] / total, 4)}  # fmt: skip


# parts with their deadlines in seconds; with the checks, the deadlines sum to under 11 minutes
MEASURES: list[tuple[Part, float]] = [
    (versions, 5.0),
    (ceilings, 15.0),
    (base_step, 90.0),
    (decoding, 35.0),
    (big_step, 65.0),
    (test_set, 20.0),
    (deterministic, 15.0),
    (profiled, 5.0),
]
