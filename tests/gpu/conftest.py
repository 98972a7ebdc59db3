"""The simulated GPU of the files `simulated_*.py`, which `inside.py` runs."""

import pytest


@pytest.fixture
def gpu():
    """A GPU that computes, on the CPU, for as long as the test runs."""
    from recipes.speed.simulated.device import SimulatedGpu  # needs the stub of CUDA

    with SimulatedGpu(has_values=True) as gpu:
        yield gpu
