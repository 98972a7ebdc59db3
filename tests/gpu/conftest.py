"""The simulated GPU for the files `simulated_*.py`, which `inside.py` runs."""

import pytest


@pytest.fixture
def gpu():
    """A simulated GPU that computes on the CPU, for the duration of the test."""
    from recipes.speed.simulated.device import SimulatedGpu  # needs the stub of CUDA

    with SimulatedGpu(has_values=True) as gpu:
        yield gpu
