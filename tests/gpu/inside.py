"""Runs pytest in a process that has a simulated GPU: `python -m tests.gpu.inside PATHS`.

The stub of CUDA must be loaded before torch and cannot be unloaded, so these tests need a process
of their own. `test_simulated_gpu.py` starts this module.
"""

import sys

import pytest

from recipes.speed.simulated import stub

if __name__ == "__main__":
    stub.load()
    sys.exit(pytest.main(["-n", "0", "-p", "no:cacheprovider", *sys.argv[1:]]))
