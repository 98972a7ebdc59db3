"""Computes the GPU memory and kernels of the paper's training steps, without a GPU.

    python -m recipes.speed.memory

takes steps of `nmt train` with configs/transformer_base.yaml and configs/transformer_big.yaml on a
simulated GPU (`simulated/device.py`), and prints the table of docs/speed.md. This takes
about 15 seconds, and needs Linux, a CPU build of PyTorch and a C++ compiler.
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
