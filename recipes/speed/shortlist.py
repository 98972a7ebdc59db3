"""Measures the time that a shortlist saves in the beam search of the base model.

    python -m recipes.speed.shortlist

The script translates 32 random sentences of 25 tokens into exactly 30 tokens, alternately with and
without a shortlist. A shortlist contains 2,000, 4,000, 8,000 or 12,000 random token ids, which
differ between batches as in real text. For each precision, beam size and shortlist size, the script
prints the CPU seconds per batch with one thread, and the median and range of the speed-up over the
pairs of measurements.
"""

import argparse
import statistics
import time
from collections.abc import Sequence

import numpy as np
import torch

from nmt.benchmark.translating import random_transformer
from nmt.cpu_memory import keep_freed_memory
from nmt.decoding.beam_search import search
from nmt.decoding.constraints import Without
from nmt.model.stepper import Stepper
from recipes.speed.peers.nmt import configuration
from recipes.speed.workload import BASE, EOS, SMALL, Shape

SENTENCES, LENGTH, OUTPUT = 32, 25, 30
SIZES = (2_000, 4_000, 8_000, 12_000)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the speed-up and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="use a tiny model, to test the script")
    options = parser.parse_args(arguments)
    keep_freed_memory()
    torch.set_num_threads(1)
    shape, sizes = (SMALL, (200,)) if options.small else (BASE, SIZES)
    print("precision  beam  shortlist  full, s   short, s  speed-up")
    for precision in ("fp32", "bf16", "int8"):
        compare(shape, precision, sizes, options.pairs)


def compare(shape: Shape, precision: str, sizes: Sequence[int], pairs: int) -> None:
    """Measures and prints the results for a precision."""
    transformer = random_transformer(configuration(shape, "fp32"), "cpu", precision)
    random = np.random.default_rng(1)

    def seconds(src: torch.Tensor, beam: int, size: int | None) -> float:
        only = None
        begin = time.process_time()
        if size:
            ids = random.choice(np.arange(4, shape.vocabulary), size - 4, replace=False)
            only = torch.from_numpy(np.concatenate((np.arange(4), np.sort(ids))))
        with torch.inference_mode():
            steps = Without(Stepper(transformer, src, beam, OUTPUT, only), [EOS])
            search(steps, [OUTPUT] * len(src), beam=beam, alpha=0.6)
        return time.process_time() - begin

    for beam in (4, 1):
        for size in sizes:
            both = []
            for pair in range(-1, pairs):  # the first pair is a warm-up
                src = torch.from_numpy(random.integers(4, shape.vocabulary, (SENTENCES, LENGTH)))
                order = (None, size) if pair % 2 else (size, None)
                taken = {each: seconds(src, beam, each) for each in order}
                both.append((taken[None], taken[size]))
            whole, short = (statistics.median(each) for each in zip(*both[1:], strict=True))
            ratios = sorted(one / other for one, other in both[1:])
            print(
                f"{precision:9}  {beam:4}  {size:9}  {whole:7.2f}  {short:9.2f}  "
                f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
