"""Checks and measures one GPU in less than eight minutes; prints a JSON line per result.

    python -m recipes.speed.gpu > gpu.jsonl

First come the checks: whether the GPU computes the same as a CPU, whether compiled layers and CUDA
graphs agree with plain code, and whether a small run resumes exactly. If there is a second GPU,
translation on it and training on both GPUs are also checked. Then come the measurements, the most
valuable first. Each
part has a deadline, and an error ends only its own part. The exit status is 1 if a check failed.
`--device cpu --small` runs all parts in tiny sizes.
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
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the command")
    arguments = parser.parse_args(argv)
    if arguments.device.type == "cuda" and not torch.cuda.is_available():
        parser.error("There is no GPU here. To try the command, add --device cpu --small.")
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
