"""Helpers for code that runs on a CPU or on a GPU."""

import sys
from contextlib import AbstractContextManager, nullcontext

import torch


def is_gpu(device: torch.device) -> bool:
    """Returns whether the device is a GPU, which runs asynchronously and supports CUDA graphs."""
    return device.type == "cuda"


def as_current(device: torch.device) -> AbstractContextManager[object]:
    """Makes a GPU this thread's current device within the block; does nothing for a CPU.

    torch creates streams, events and graphs on the current GPU, not on the tensors' GPU.
    """
    return torch.cuda.device(device) if is_gpu(device) else nullcontext()


def free_bytes(device: torch.device) -> int:
    """Returns a GPU's free memory in bytes; for a CPU, `sys.maxsize`."""
    return torch.cuda.mem_get_info(device)[0] if is_gpu(device) else sys.maxsize


def avoid_cudnn() -> None:
    """Disables the cuDNN attention backend for the whole process.

    torch prefers this backend for attention with a bias. However, cuDNN takes half a second per new
    shape to build a plan, and its gradients are NaN for some sequence lengths (H100, torch 2.11 and
    later).
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
