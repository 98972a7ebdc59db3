"""How long tests wait before they take a process for hung: longer than any machine needs."""

import time
from collections.abc import Callable

PATIENCE_S = 500  # below training.process_group_timeout_s, so that ranks that hang are seen hanging


def wait_until(is_so: Callable[[], bool], interval_s: float = 0.01) -> None:
    """Returns once it is so; fails when it takes longer than any machine would."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s in vain"
        time.sleep(interval_s)
