"""Checks a GPU and measures its speed; prints one JSON line per result.

    python -m recipes.speed.gpu > gpu.jsonl

The command takes about six minutes, and at most eleven.

The checks run first. They compare the GPU's results with those of a CPU, compare compiled layers
and CUDA graphs with the reference implementation, and test whether a small run is resumed exactly.
If there is a second GPU, they also check translation on the second GPU and training on both GPUs.
Then the measurements run in order of importance. Each part has a deadline. If a part fails, the
remaining parts are still run. The exit status is 1 if a check failed. `--device cpu --small` runs
all parts with tiny sizes.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext

import torch

from nmt.training.distributed import process_group
from recipes.speed.gpu.bench import Bench, run
from recipes.speed.gpu.checks import CHECKS
from recipes.speed.gpu.measures import MEASURES


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all parts and returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m recipes.speed.gpu", description="Checks and measures nmt on a GPU."
    )
    parser.add_argument("--device", default="cuda", type=torch.device)
    parser.add_argument("--small", action="store_true", help="use tiny sizes, to test the command")
    arguments = parser.parse_args(argv)
    if arguments.device.type == "cuda" and not torch.cuda.is_available():
        parser.error("This machine has no GPU. To test the command, add --device cpu --small.")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at cuBLAS's first use
    with process_group(600) if arguments.device.type == "cuda" else nullcontext():
        bench = Bench(arguments.device, arguments.small)
        failed = run(bench, CHECKS)
        if failed:
            _report(failed)
        run(bench, MEASURES)
    if failed:
        _report(failed)  # repeats the versions at the end of the output
    return 1 if failed else 0


def _report(failed: list[str]) -> None:
    print(
        f"These checks FAILED: {', '.join(failed)}. Do not trust this GPU's results.",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
