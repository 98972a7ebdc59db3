"""The one-line messages of system errors."""

import errno
import os

import pytest
import torch

from nmt.errors import Status, is_out_of_memory, of_system


@pytest.mark.parametrize(
    ("number", "status", "what_to_do"),
    [
        (errno.ENOENT, Status.INPUT, "Check the path"),
        (errno.ENOSPC, Status.STORAGE, "free disk space"),
        (errno.EACCES, Status.STORAGE, "Check the permissions"),
        (errno.ENOMEM, Status.INPUT, "more memory"),
        (errno.EMFILE, Status.STORAGE, "Raise the limit on open files (ulimit -n)"),
    ],
)
def test_a_system_error_names_a_remedy(number: int, status: Status, what_to_do: str):
    error = of_system(OSError(number, os.strerror(number), "f"))
    assert error.status == status
    assert str(error).startswith(f"{os.strerror(number)}: f. ") and what_to_do in str(error)


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.AcceleratorError("CUDA error: out of memory\nSearch for `cudaError'", 2), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (MemoryError(), True),
        (OSError("Cannot allocate memory (os error 12)"), True),
        (RuntimeError("Resource temporarily unavailable"), True),
        (RuntimeError("can't start new thread"), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)), False),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), False),
        (
            torch.AcceleratorError("CUDA error: an illegal memory access was encountered", 700),
            False,
        ),
        (ValueError("CUDA error: out of memory"), False),
    ],
    ids=repr,
)
def test_when_memory_ran_out(error: Exception, is_one: bool):
    assert is_out_of_memory(error) == is_one
