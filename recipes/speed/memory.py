"""Measures the GPU memory and counts the kernels in training steps, without a GPU.

    python -m recipes.speed.memory

This script takes the steps of `nmt train` with configs/transformer_base.yaml and
configs/transformer_big.yaml on a simulated GPU (`simulated/device.py`), and prints the table in
docs/speed.md. The script takes about 15 seconds, and needs Linux, a CPU build of PyTorch and a C++
compiler.
"""

from nmt.cli.terminal import run_script
from recipes.speed.simulated import stub


def main() -> None:
    """Prints the table."""
    stub.load()
    from recipes.speed.simulated.training import table  # imports torch after the stub

    for line in table():
        print(line, flush=True)


if __name__ == "__main__":
    run_script("memory", main)
