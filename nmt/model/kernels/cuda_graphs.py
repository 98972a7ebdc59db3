"""Captures decoding and training steps as CUDA graphs, which launch all kernels of a step at once.

A CUDA graph replays its kernels on the memory addresses that were used during the capture. All
tensors that the graph reads or writes must therefore keep their addresses as long as the graph is
in use.
"""

import weakref
from collections.abc import Callable

import torch
from torch import Tensor

from nmt.model.devices import as_current

Step = Callable[[], Tensor]


class Capturer:
    """Captures decoding steps on one GPU as CUDA graphs that share one memory pool.

    The graphs can share a memory pool because they are replayed one after another on one stream,
    and because each graph has its own output tensor.
    """

    def __init__(self, device: torch.device):
        self.device = device
        with as_current(device):
            # torch's default capture stream may belong to another GPU
            self._stream = torch.cuda.Stream(device)
        self._newest: weakref.ref[torch.cuda.CUDAGraph] | None = None

    def captured(self, step: Step) -> Step:
        """Captures `step` and returns a function that replays it.

        Every call of the returned function overwrites and returns the same tensor.

        Raises:
            RuntimeError: `step` cannot be captured, or GPU memory ran out.
        """
        newest = self._newest() if self._newest else None
        with as_current(self.device):
            current = torch.cuda.current_stream(self.device)
            self._stream.wait_stream(current)
            # In the first call, libraries choose kernels and allocate memory.
            with torch.cuda.stream(self._stream):
                step()
            current.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            capture = torch.cuda.graph(
                graph,
                pool=newest.pool() if newest else None,
                stream=self._stream,
                # other threads, such as a data loader, may use the GPU during the capture
                capture_error_mode="thread_local",
            )
            # If ending the capture fails, torch does not restore the thread's stream.
            with torch.cuda.stream(current), capture:
                output = step()
        self._newest = weakref.ref(graph)

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay
