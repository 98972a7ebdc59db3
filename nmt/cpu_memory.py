"""How the C library hands memory back, which costs tensor programs on a CPU dearly."""

import ctypes

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # malloc.h of glibc


def keep_freed_memory() -> None:
    """Lets glibc keep freed memory for the next tensor instead of returning it to the kernel.

    By default every tensor above some 128 KiB is a fresh mapping whose pages the kernel zeroes
    anew at each use: 10 to 20 % of a training step of a small model (measured, 2 cores). Does
    nothing where the C library is not glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_MAX, 0)  # not even the largest tensors get a mapping of their own
    mallopt(_M_TRIM_THRESHOLD, 1 << 30)
    mallopt(_M_TOP_PAD, 64 << 20)
