"""Checkpoints written in a thread, so that a GPU computes meanwhile.

Not on a CPU, where the thread would take a core from the step, and copies of weights and moments as
much memory again as these need.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import torch
from torch import Tensor


class Writer:
    """Writes one thing after another in a thread; its errors are raised by the next call.

    Leaving its block waits for what is being written.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "writer")
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: TracebackType | object) -> None:
        with self._thread:
            if kind is None:  # else that error is told, not another one
                self.wait()

    def write(self, deed: Callable[[], None]) -> None:
        """Begins a deed, once the one before is done."""
        self.wait()
        self._last = self._thread.submit(deed)

    def check(self) -> None:
        """Raises what the last deed has raised, if it is over."""
        if self._last and self._last.done():
            self.wait()

    def wait(self) -> None:
        """Waits until the last deed is done; raises what it has raised."""
        last, self._last = self._last, None
        if last:
            last.result()


def copied(*parts: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Copies in memory of the host, complete when this returns, page-locked for a GPU's tensors."""
    found = [
        {name: tensor.to("cpu", non_blocking=True, copy=True) for name, tensor in part.items()}
        for part in parts
    ]
    if torch.cuda.is_available():
        torch.cuda.current_stream().synchronize()
    return found
