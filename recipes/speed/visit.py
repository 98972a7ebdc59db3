"""Visits a system: times the work of one system in this process.

    python -m recipes.speed.visit marian train --precision bf16

This command prints a JSON object. Each system is a module in `peers` with some of these functions:

    version() -> str
    training_step(shape, precision) -> a function: Batch -> loss, in nats per token
    translation(shape, precision) -> a function: Sources, beam -> number of tokens per translation
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch

from nmt.benchmark.machine import peak_memory
from nmt.errors import InputError
from recipes.speed.clock import CPU, Clock
from recipes.speed.workload import BASE, SMALL, Sources, sources, training_batches

WARM_UP = 2  # number of untimed steps
TASKS = "train", "translate"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one visit, and prints its result."""
    parser = argparse.ArgumentParser(description="Times one system in this process.")
    parser.add_argument("system")
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--steps", type=int, default=5, help="timed training steps")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--best", type=float, default=0.0, metavar="FLOPS",
                        help="highest rate of the probe so far, in FLOPs per second")  # fmt: skip
    parser.add_argument("--small", action="store_true", help="use a tiny model, to test the script")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    print(json.dumps(visit(**vars(arguments))))


def visit(
    system: str, task: str, precision: str, steps: int, threads: int, best: float, small: bool
) -> dict[str, Any]:
    """Times a system.

    Returns:
        A dictionary. `results` contains the rate of each kind of work, in tokens or sentences per
        second, or None if the machine was always slow. The other keys include those of
        `Clock.facts`.
    """
    module = _module(system)
    clock = Clock(best, is_trial=small)
    if task == "train":
        results = _train(module, precision, steps, clock, small)
    else:
        results = _translate(module, precision, clock, small)
    return {
        "system": system,
        "version": module.version(),
        "precision": precision,
        "threads": threads,
        "results": results,
        "peak_gib": peak_memory(CPU) / 2**30,
    } | clock.facts


def _module(system: str) -> ModuleType:
    """Imports a system's module, which is possible only in the environment of the system."""
    match system:
        case "nmt":
            from recipes.speed.peers import nmt as module
        case "nmt_packed":
            from recipes.speed.peers import nmt_packed as module
        case "ctranslate2":
            from recipes.speed.peers import ctranslate2 as module
        case "fairseq":
            from recipes.speed.peers import fairseq as module
        case "joeynmt":
            from recipes.speed.peers import joeynmt as module
        case "marian":
            from recipes.speed.peers import marian as module
        case "sockeye":
            from recipes.speed.peers import sockeye as module
        case "torch_transformer":
            from recipes.speed.peers import torch_transformer as module
        case _:
            raise ValueError(f"Unknown system: {system}.")
    return module


def _train(
    module: ModuleType, precision: str, steps: int, clock: Clock, small: bool
) -> dict[str, Any]:
    """Times training on the same batches in the same order as for all other systems."""
    shape, tokens = (SMALL, 200) if small else (BASE, 2_400)
    by_length = getattr(module, "BY_LENGTH", True)
    n = WARM_UP + steps
    batches = training_batches(shape, n=n, tokens=tokens, by_length=by_length)
    step = module.training_step(shape, precision)
    losses: list[float] = []

    def work(batch: Any) -> None:
        losses.append(step(batch))

    for batch in batches[:WARM_UP]:
        work(batch)
    timed = batches[WARM_UP:]
    seconds = clock.times([partial(work, batch) for batch in timed])
    if not all(map(math.isfinite, losses)):
        values = ", ".join(f"{loss:.4g}" for loss in losses)
        raise InputError(
            f"{module.__name__} has a loss that is not finite ({values}), so its speed is not "
            "comparable."
        )
    amount = sum(batch.target_tokens for batch in timed)
    return {"training": _result(amount, seconds) | {"losses": [losses[0], losses[-1]]}}


def _translate(module: ModuleType, precision: str, clock: Clock, small: bool) -> dict[str, Any]:
    shape, n = (SMALL, 8) if small else (BASE, 200)
    batches = sources(shape, n=n)
    translate = module.translation(shape, precision)
    results = {}
    for name, beam in (("beam 4", 4), ("greedy", 1)):
        translate(batches[-1], beam)  # the smallest batch, with the longest sentences
        seconds = clock.times([_forced(translate, batch, beam) for batch in batches])
        results[name] = _result(n, seconds)
    return results


def _forced(
    translate: Callable[[Sources, int], list[int]], batch: Sources, beam: int
) -> Callable[[], None]:
    def work() -> None:
        lengths = set(translate(batch, beam))
        if lengths != {batch.output_length}:
            raise InputError(
                f"With beam {beam}, the translations have "
                f"{' or '.join(map(str, sorted(lengths)))} tokens. All must have "
                f"{batch.output_length} tokens for the speeds to be comparable."
            )

    return work


def _result(amount: int, seconds: list[float] | None) -> dict[str, Any]:
    return {"rate": amount / sum(seconds) if seconds else None, "seconds": seconds}


if __name__ == "__main__":
    main()
