"""Compares results on a GPU with results on a CPU and with those of the reference implementation.

Each result has the key `ok`, which is true if the check succeeded.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from operator import eq
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.config import Config, load
from nmt.data import layout
from nmt.data.prepare import prepare
from nmt.decoding.beam_search import Hypothesis, StepInterface, search
from nmt.decoding.buffer_pool import DecodeBufferPool
from nmt.model.attention import Visibility, attention
from nmt.model.kernels.dropout import Dropout, Randomness
from nmt.model.kernels.flex import flex_suits
from nmt.model.stepper import Stepper
from nmt.runs.model_directory import new_transformer
from nmt.runs.state import FastPath
from nmt.training.fast_paths import Reference, set_path
from nmt.training.loss import TransformerLoss, smoothed_cross_entropy
from nmt.training.run_log import read_log
from nmt.training.step import autocast
from nmt.training.train import train
from nmt.translator import Translator
from recipes.speed.gpu.bench import ROW, Bench, Part, Result, Training
from recipes.speed.peers.nmt import CONFIG, configuration, packed
from recipes.speed.workload import BASE, SMALL, Batch, Shape, sources, training_batches

DEMO = CONFIG.with_name("demo.yaml")
CPU = torch.device("cpu")
_ROUNDING = 1e-3  # relative tolerance for fp32 gradients summed in another order


def parity(bench: Bench) -> Iterator[Result]:
    """Compares a tiny model's fp32 loss, gradients and translations on the GPU and on the CPU."""
    shape = replace(SMALL, dropout=0.0)
    (batch,) = training_batches(shape, n=1, tokens=800)
    (ours_loss, ours), (cpu_loss, cpu) = (
        _loss_and_gradients(configuration(shape, "fp32"), batch, device)
        for device in (bench.device, CPU)
    )
    loss = abs(ours_loss / cpu_loss - 1)
    gradient = max(difference(ours[name], cpu[name]) for name in cpu)
    yield {
        "loss": ours_loss, "loss_difference": loss, "gradient_difference": gradient,
        "ok": loss < 1e-4 and gradient < _ROUNDING,
    }  # fmt: skip
    for beam in (1, 4):
        ours_found, cpu_found = (_translated(shape, beam, each) for each in (bench.device, CPU))
        alike = sum(map(eq, ours_found, cpu_found))
        yield {"beam": beam, "translations": len(cpu_found), "like_the_cpu": alike,
               "ok": alike == len(cpu_found)}  # fmt: skip


def _loss_and_gradients(
    config: Config, batch: Batch, device: torch.device
) -> tuple[float, dict[str, Tensor]]:
    transformer = new_transformer(config)
    transformer.initialize(1)
    module = TransformerLoss(transformer.to(device), 0.1)
    loss, _ = module(packed(batch, layout.Shape(ROW, ROW), device))
    loss.backward()
    gradients = {name: p.grad.cpu() for name, p in module.named_parameters() if p.grad is not None}
    # the gradient of a key bias is zero, because the bias shifts all scores of a query equally
    for name, each in gradients.items():
        if name.endswith("query_key_value.bias"):
            each[len(each) // 3 : 2 * len(each) // 3] = 0
        if name.endswith("key_value.bias") and "query" not in name:
            each[: len(each) // 2] = 0
    return loss.item(), gradients


def difference(a: Tensor, b: Tensor) -> float:
    """Returns the largest absolute difference divided by the largest absolute value."""
    return ((a.double() - b.double()).abs().max() / b.abs().max().clamp_min(1e-12)).item()


def _translated(shape: Shape, beam: int, device: torch.device) -> list[list[int]]:
    """Returns the tokens of fp32 translations that are computed with plain steps."""
    transformer = new_transformer(configuration(shape, "fp32"))
    transformer.initialize(1)
    src = sources(shape, n=16, tokens=4_000)[0].src.to(device)
    steps = Stepper(transformer.to(device).eval(), src, beam, 20)
    return [each[0].tokens for each in searched(steps, len(src), beam, 20, device)]


def searched(
    steps: StepInterface, n: int, beam: int, length: int, device: torch.device
) -> list[list[Hypothesis]]:
    """Translates `n` sentences into at most `length` tokens each."""
    with torch.inference_mode():
        return search(steps, [length] * n, beam=beam, alpha=0.6, device=device)


def against_fp64(bench: Bench) -> Iterator[Result]:
    """Compares attention over packed sequences, and the loss, with fp64 results on the CPU."""
    torch.manual_seed(1)
    rows, length, d_k = (2, 24, 8) if bench.small else (8, ROW, 64)
    segments = torch.arange(length).expand(rows, -1) // 20 + 1
    positions = torch.arange(length).expand(rows, -1) % 20
    query, key, value = torch.randn(3, rows, 4, length, d_k, dtype=torch.float64)
    dropout = Dropout(0.0, Randomness())

    def attended(device: torch.device, dtype: torch.dtype) -> Tensor:
        s, p = segments.to(device), positions.to(device)
        visibility = Visibility((s, s), (p, p), causal=True)
        given = (each.to(device, dtype) for each in (query, key, value))
        return attention(*given, visibility, dropout).cpu()

    exact = attended(CPU, torch.float64)
    for dtype, allowed in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        found = difference(attended(bench.device, dtype), exact)
        yield {"attention": str(dtype), "difference": found, "ok": found < allowed}
    shape = bench.shape(BASE)
    hidden = torch.randn(300, shape.d_model, dtype=torch.float64)
    weight = torch.randn(shape.vocabulary, shape.d_model, dtype=torch.float64)
    weight *= shape.d_model**-0.5
    targets = torch.randint(4, shape.vocabulary, (300,))
    exact = F.cross_entropy(hidden @ weight.t(), targets, label_smoothing=0.1, reduction="sum")
    hidden, weight = (each.to(bench.device, torch.float32) for each in (hidden, weight))
    for low, allowed in ((False, 1e-5), (True, 1e-2)):
        with torch.autocast(bench.device.type, torch.bfloat16, enabled=low):
            loss, _ = smoothed_cross_entropy(hidden, weight, targets.to(bench.device), 0.1)
        found = difference(loss.cpu(), exact)
        kind = torch.bfloat16 if low else torch.float32
        yield {"loss": str(kind), "difference": found, "ok": found < allowed}


def graphs(bench: Bench) -> Iterator[Result]:
    """Compares fp32 translations with captured steps (CUDA graphs) and with plain steps."""
    shape, length, n = bench.shape(BASE), 4 if bench.small else 30, 4 if bench.small else 32
    transformer = new_transformer(configuration(shape, "fp32"))
    transformer.initialize(1)
    transformer = transformer.to(bench.device).eval()
    pool = DecodeBufferPool(transformer)
    src = torch.randint(4, shape.vocabulary, (n, 25), device=bench.device)
    for beam in (1, 4):
        plain = searched(Stepper(transformer, src, beam, length), n, beam, length, bench.device)
        with torch.inference_mode(), pool.stepper(src, beam, length) as steps:
            is_plain = isinstance(steps, Stepper)
            found = searched(steps, n, beam, length, bench.device)
        alike = sum(a[0].tokens == b[0].tokens for a, b in zip(found, plain, strict=True))
        is_ok = alike == n and not (is_plain and bench.is_gpu)
        yield {"beam": beam, "translations": n, "like_plain": alike, "is_plain": is_plain,
               "ok": is_ok}  # fmt: skip


def training_paths(bench: Bench) -> Iterator[Result]:
    """Compares steps of the base model on each fast path with the reference implementation."""
    steps = Training(bench, BASE, "compiled")
    batch, config = steps.tensors[0], steps.config
    reference = Reference.of(steps.loss_module, batch, config)
    paths: list[FastPath] = ["eager"]
    if not bench.small:  # compiling takes about 20 s on a GPU
        paths += ["compiled", "flex"] if flex_suits(config.model, bench.device) else ["compiled"]
    for path in paths:
        began = time.perf_counter()
        set_path(steps.loss_module, path)
        problem = reference.problem(steps.loss_module, batch, config)
        seconds = round(time.perf_counter() - began, 1)
        yield {"path": path, "problem": problem, "seconds": seconds, "ok": problem is None}


def dropout(bench: Bench) -> Iterator[Result]:
    """Checks by finite differences that gradients belong to the forward pass's dropout masks.

    If the loss changes linearly along the gradients, `ratio` is 1. With other masks in the backward
    pass than in the forward pass, it is about 0.7.
    """
    shape = replace(BASE, dropout=0.3)
    for path in ["eager"] if bench.small else ["eager", "compiled", "flex"]:
        steps = Training(bench, shape, path)
        batch, parameters = steps.tensors[0], list(steps.loss_module.parameters())

        def loss(steps: Training = steps, batch: layout.Batch = batch) -> Tensor:
            steps.loss_module.transformer.randomness.seed(1)
            with autocast(steps.config, bench.device):
                return steps.loss_module(batch)[0] / 1e4  # about a loss per token

        at_first = loss()
        at_first.backward()
        gradients = [each.grad for each in parameters]
        square = sum(float(each.square().sum()) for each in gradients)
        size, values = 0.01 * at_first.item() / square, []
        kept = [each.detach().clone() for each in parameters]
        for sign in (1, -1):
            with torch.no_grad():
                for parameter, before, gradient in zip(parameters, kept, gradients, strict=True):
                    parameter.copy_(before).add_(gradient, alpha=sign * size)
            values.append(loss().item())
        ratio = (values[0] - values[1]) / (2 * size * square)
        yield {"path": path, "ratio": round(ratio, 4), "ok": abs(ratio - 1) < 0.05}


def replayed(bench: Bench) -> Iterator[Result]:
    """Checks that steps replayed as CUDA graphs give the same bits as steps without CUDA graphs."""
    torch.use_deterministic_algorithms(True)
    try:
        found, is_replayed = [], False
        for has_graphs in (True, False):
            steps = Training(bench, BASE, "eager" if bench.small else "compiled")
            if not has_graphs:
                steps.loss_module.graphs = None
            for _ in range(4):
                steps.step()
            found.append((steps.unread[0].loss, steps.digest()))
            is_replayed |= steps.is_replayed
        is_ok = found[0] == found[1] and (is_replayed or not bench.is_gpu)
        yield {"is_replayed": is_replayed, "losses_and_hashes": found, "ok": is_ok}
    finally:
        torch.use_deterministic_algorithms(False)


def bf16_run(bench: Bench) -> Iterator[Result]:
    """Checks that a small bf16 run is resumed exactly, and that its model translates."""
    last = 4 if bench.small else 40
    with tempfile.TemporaryDirectory() as folder:
        bf16 = "training.precision=bf16"
        prepare(_small_run(Path(folder), "straight", last, last, bf16), note=lambda line: None)
        for run, stops in (("straight", [last]), ("resumed", [last // 2, last])):
            for steps in stops:
                train(_small_run(Path(folder), run, steps, last, bf16), note=lambda line: None)
        straight, resumed = (_logged(Path(folder, run)) for run in ("straight", "resumed"))
        yield {"steps": last, "losses": straight[-3:], "resumed_alike": straight == resumed,
               "ok": len(straight) == last and straight == resumed}  # fmt: skip
        translator = Translator.load(Path(folder, "resumed"), device=str(bench.device))
        [text, again] = translator.translate(["The man reads a book."] * 2)
        yield {"translation": text.text, "ok": bool(text.tokens) and text.text == again.text}
    torch.use_deterministic_algorithms(False)


def _small_run(folder: Path, name: str, steps: int, last: int, *overrides: str) -> Config:
    return load(
        DEMO,
        [
            f"data.directory={folder / 'data'}", "data.train=[{demo: {pairs: 2000}}]",
            "data.validation=[{demo: {pairs: 20}}]", "data.test=[]",
            "tokenizer.vocabulary_size=600", f"training.run_directory={folder / name}",
            f"training.max_steps={steps}", f"training.validate_every={last // 2}",
            f"training.checkpoint_every={last // 2}", "training.keep_checkpoints=2",
            "training.average_last=1", "training.log_every=1", "training.deterministic=true",
            *overrides,
        ],
    )  # fmt: skip


def _logged(run: Path) -> list[float]:
    return [line["loss"] for line in read_log(run) if "event" not in line]


def second_gpu(bench: Bench) -> Iterator[Result]:
    """Compares translations on the second GPU, if there is one, with translations on the first."""
    if torch.cuda.device_count() < 2:
        yield {"skipped": "The machine has fewer than two GPUs."}
        return
    found = [_translated(SMALL, 4, torch.device("cuda", n)) for n in (0, 1)]
    alike = sum(map(eq, *found))
    yield {"translations": len(found[0]), "like_the_first": alike, "ok": alike == len(found[0])}


def two_ranks(bench: Bench) -> Iterator[Result]:
    """Compares training losses on two GPUs, if there are two, with the losses on one GPU."""
    if torch.cuda.device_count() < 2:
        yield {"skipped": "The machine has fewer than two GPUs."}
        return
    with tempfile.TemporaryDirectory() as folder:
        losses = []
        for ranks in (1, 2):
            config = Path(folder, f"{ranks}.yaml")
            options = ("training.micro_batches=2", "training.precision=fp32",
                       "training.compile=false")  # fmt: skip
            config.write_text(_small_run(Path(folder), f"run{ranks}", 10, 10, *options).to_yaml())
            command = [sys.executable, "-m", "nmt", "prepare", str(config)]
            subprocess.run(command, check=True, capture_output=True)
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                       f"--nproc-per-node={ranks}", "-m", "nmt", "train", str(config)]  # fmt: skip
            subprocess.run(command, check=True, capture_output=True)
            losses.append(_logged(Path(folder, f"run{ranks}")))
        error = max(abs(a / b - 1) for a, b in zip(*losses, strict=True))
        yield {"steps": len(losses[0]), "difference": error, "ok": error < _ROUNDING}


# parts with their deadlines in seconds
CHECKS: list[tuple[Part, float]] = [
    (parity, 20.0),
    (against_fp64, 10.0),
    (graphs, 15.0),
    (training_paths, 100.0),
    (dropout, 60.0),
    (replayed, 60.0),
    (bf16_run, 70.0),
    (second_gpu, 10.0),
    (two_ranks, 45.0),
]
