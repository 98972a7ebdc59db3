"""What is different on a GPU: it works on a queue by itself, and one GPU is the current one."""

import sys
from contextlib import AbstractContextManager, nullcontext

import torch


def is_gpu(device: torch.device) -> bool:
    """Returns whether the host goes on while the device computes, and steps can be captured."""
    return device.type == "cuda"


def as_current(device: torch.device) -> AbstractContextManager[object]:
    """Makes a GPU the current one of this thread in the block; does nothing for a CPU.

    Streams, events and graphs are made on the current GPU, whichever the tensors are on.
    """
    return torch.cuda.device(device) if is_gpu(device) else nullcontext()


def free_bytes(device: torch.device) -> int:
    """Returns a GPU's memory that no process has taken; for a CPU no bound."""
    return torch.cuda.mem_get_info(device)[0] if is_gpu(device) else sys.maxsize


def avoid_cudnn() -> None:
    """Disables the cuDNN attention backend for the whole process.

    torch prefers it there for attention with a bias, but it makes a plan for each new shape, which
    takes half a second, and it gives NaN gradients at some lengths (H100, torch 2.11 and later).
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
