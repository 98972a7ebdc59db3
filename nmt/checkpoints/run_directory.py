"""Where a run's checkpoints lie in its directory."""

import re
from pathlib import Path


def checkpoint_of(run: Path, step: int) -> Path:
    """The directory of a step's checkpoint."""
    return run / "checkpoints" / f"step-{step:08d}"


def by_step(run: Path) -> list[tuple[int, Path]]:
    """What stands under the name of a checkpoint, sound or not, newest first, with its step."""
    found = []
    for path in (run / "checkpoints").glob("step-*"):
        digits = re.fullmatch(r"step-([0-9]{8,16})", path.name)
        if digits and path == checkpoint_of(run, step := int(digits[1])):
            found.append((step, path))
    return sorted(found, reverse=True)
