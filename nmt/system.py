"""Wraps Linux features for which other systems need a fallback or an error message.

`nmt` is tested only on Linux. macOS also provides the POSIX functions that `nmt` needs. Windows
lacks some of these functions, so `nmt` reports an error on Windows.
"""

import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

from nmt.errors import InputError

try:
    import fcntl
    import resource
except ImportError:  # on Windows, which `refuse_windows` reports
    pass


def refuse_windows() -> None:
    """Raises InputError on a system without POSIX file locks and signals."""
    if os.name != "posix":
        raise InputError(
            f"nmt needs Linux or macOS, but this system is {sys.platform}. On Windows, run it in "
            "the Windows Subsystem for Linux (WSL)."
        )


def lock_file(descriptor: int, *, wait: bool = False) -> None:
    """Locks an open file or directory for this process, until the descriptor is closed.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is False.
        OSError: the file system does not support locks.
    """
    refuse_windows()
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def machine_and_namespace() -> tuple[str, str] | None:
    """Returns identifiers of the machine and the PID namespace, or None if there is no `/proc`."""
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text()
        return machine, str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def process_descriptor(pid: int) -> int | None:
    """Returns a file descriptor that becomes readable when the process `pid` ends.

    Returns None on systems other than Linux, on Linux kernels without `pidfd_open`, and in
    containers that forbid this system call.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def cpu_name() -> str:
    """Returns the name of the CPU on Linux, or the CPU architecture's name on other systems."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "CPU"


def peak_process_memory() -> int:
    """Returns the peak memory of this process in bytes."""
    refuse_windows()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
