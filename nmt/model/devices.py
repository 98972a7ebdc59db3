"""Provides helper functions for code that runs on both CPUs and GPUs."""

import sys
from contextlib import AbstractContextManager, nullcontext

import torch

from nmt.model.kernels.products import has_onednn


def is_gpu(device: torch.device) -> bool:
    """Returns whether `device` is a CUDA GPU, which is asynchronous and supports CUDA graphs."""
    return device.type == "cuda"


def as_current(device: torch.device) -> AbstractContextManager[object]:
    """Returns a context manager that makes a GPU the current device, or does nothing for a CPU.

    torch creates streams, events and graphs on the current GPU, even if the tensors are stored on
    another GPU.
    """
    return torch.cuda.device(device) if is_gpu(device) else nullcontext()


def supports_bf16(device: torch.device) -> bool:
    """Returns whether a device has instructions for bf16.

    Other devices compute bf16 by emulation, which can take 20 times as long as fp32.
    """
    if is_gpu(device):
        with as_current(device):
            return torch.cuda.is_bf16_supported(including_emulation=False)
    # With AVX-512, oneDNN accepts bf16 even if the processor lacks the instructions.
    is_emulated = torch.cpu._is_avx512_supported() and not torch.cpu._is_avx512_bf16_supported()
    return has_onednn(torch.bfloat16) and not is_emulated


def free_bytes(device: torch.device) -> int:
    """Returns the free memory of a GPU in bytes, or `sys.maxsize` for a CPU."""
    return torch.cuda.mem_get_info(device)[0] if is_gpu(device) else sys.maxsize


def total_bytes(device: torch.device) -> int:
    """Returns the size of a GPU's memory in bytes."""
    return torch.cuda.mem_get_info(device)[1]


def avoid_cudnn() -> None:
    """Disables the cuDNN attention backend for the whole process.

    torch prefers the cuDNN backend for attention with a bias. However, cuDNN takes half a second to
    build an execution plan for each new shape, and its gradients are NaN for some sequence lengths
    (H100, torch 2.11 and later).
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
