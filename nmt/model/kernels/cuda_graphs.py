"""Steps captured as CUDA graphs, which launch all kernels of a step at once.

A graph repeats its kernels on the addresses that it was captured with: whatever it reads and writes
must stay where it is for as long as the graph is replayed.
"""

import weakref
from collections.abc import Callable

import torch
from torch import Tensor

from nmt.model.devices import as_current

Step = Callable[[], Tensor]


class Capturer:
    """Captures steps on one GPU whose graphs share the memory of their intermediate results.

    They can share it because they are replayed on one stream, one after the other, and hold their
    outputs, whose memory is their own.
    """

    def __init__(self, device: torch.device):
        self.device = device
        with as_current(device):
            # of graphs that share memory, and not torch's default, which is on another GPU if that
            # was the first to capture
            self._stream = torch.cuda.Stream(device)
        self._newest: weakref.ref[torch.cuda.CUDAGraph] | None = None

    def captured(self, step: Step) -> Step:
        """Returns `step` as a graph: each call returns the same tensor with new content.

        Raises:
            RuntimeError: `step` cannot be captured, or memory ran out.
        """
        newest = self._newest() if self._newest else None
        with as_current(self.device):
            current = torch.cuda.current_stream(self.device)
            self._stream.wait_stream(current)
            # libraries choose kernels and allocate memory in the first call
            with torch.cuda.stream(self._stream):
                step()
            current.wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            capture = torch.cuda.graph(
                graph,
                pool=newest.pool() if newest else None,
                stream=self._stream,
                # other threads, such as a loader's, may use the GPU meanwhile
                capture_error_mode="thread_local",
            )
            # if the capture fails at its end, torch itself leaves the thread on the other stream
            with torch.cuda.stream(current), capture:
                output = step()
        self._newest = weakref.ref(graph)

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay
