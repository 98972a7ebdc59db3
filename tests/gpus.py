"""Makes the machine's GPUs visible to chosen processes; `conftest` hides them from all others.

If GPUs were visible everywhere, all tests would run on them, with several workers at once, and
tests with several ranks would fail on machines with fewer GPUs than ranks.
"""

import os
import subprocess
import sys
from functools import cache


def environment() -> dict[str, str]:
    """Returns the environment of a process with visible GPUs."""
    found = dict(os.environ)
    del found["CUDA_VISIBLE_DEVICES"]
    visible = found.pop("NMT_TESTS_GPUS")
    if visible != "all":
        found["CUDA_VISIBLE_DEVICES"] = visible
    # counts GPUs without initializing CUDA, after which a process must not fork
    return found | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


@cache
def count() -> int:
    """Returns the number of GPUs that are visible in the environment of `environment`."""
    import torch  # imported late: `conftest` sets the number of threads first

    if torch.version.cuda is None and torch.version.hip is None:
        return 0
    script = "import torch; print(torch.cuda.device_count())"
    command = [sys.executable, "-c", script]
    return int(subprocess.run(command, env=environment(), capture_output=True, check=True).stdout)
