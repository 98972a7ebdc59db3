"""The GPUs of the machine, which `conftest` hides from all processes but those started with these.

Otherwise every test would run there, several workers at once, and tests of several ranks would fail
where there are fewer GPUs.
"""

import os
import subprocess
import sys
from functools import cache


def environment() -> dict[str, str]:
    """The environment of a process that sees the GPUs, as the caller of pytest would."""
    found = dict(os.environ)
    del found["CUDA_VISIBLE_DEVICES"]
    visible = found.pop("NMT_TESTS_GPUS")
    if visible != "all":
        found["CUDA_VISIBLE_DEVICES"] = visible
    # asks for GPUs without beginning to use one, after which a process must not fork
    return found | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


@cache
def count() -> int:
    """The number of GPUs that a process in that environment sees."""
    import torch  # not before `conftest` has set the number of threads

    if torch.version.cuda is None and torch.version.hip is None:
        return 0
    script = "import torch; print(torch.cuda.device_count())"
    command = [sys.executable, "-c", script]
    return int(subprocess.run(command, env=environment(), capture_output=True, check=True).stdout)
