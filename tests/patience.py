"""Time limits after which tests consider a process hung; no machine should need that long."""

import time
from collections.abc import Callable

PATIENCE_S = 500  # below training.process_group_timeout_s, so that tests notice ranks that hang


def wait_until(is_so: Callable[[], bool], interval_s: float = 0.01) -> None:
    """Waits until a condition holds; fails if the time limit is exceeded."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s in vain"
        time.sleep(interval_s)
