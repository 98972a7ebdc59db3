"""Builds and loads a stub of CUDA for a CPU build of PyTorch; `device` explains its purpose.

The stub must be loaded before `torch` is imported, because torch looks for CUDA only once.
Therefore this module does not import torch. The stub cannot be unloaded.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from nmt.errors import InputError

SOURCE = Path(__file__).with_name("cuda_stub.cpp")


@cache
def load() -> None:
    """Loads the stub, so that torch finds one CUDA device when it is imported later.

    Raises:
        InputError: torch is not a CPU build, torch has been imported, or the stub cannot be
            compiled.
    """
    if reason := why_not():
        raise InputError(reason)
    if "torch" in sys.modules:
        raise InputError(
            "The CUDA stub must be loaded before torch, but torch is already imported."
        )
    ctypes.CDLL(str(_torch() / "lib" / "libtorch_cpu.so"), mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(_built()), mode=ctypes.RTLD_GLOBAL)


def why_not() -> str | None:
    """Returns the reason why the stub cannot be used on this machine, or None if there is none."""
    if not (_torch() / "lib" / "libtorch_cpu.so").exists():
        return "A GPU can be simulated on Linux only. Use a Linux machine."
    if list((_torch() / "lib").glob("libtorch_cuda*")):
        return "This PyTorch is built with CUDA. Install a CPU build to simulate a GPU."
    if not _compiler():
        return "No C++ compiler was found. Install g++, or set CXX to a compiler."
    return None


def _torch() -> Path:
    spec = find_spec("torch")
    assert spec and spec.origin
    return Path(spec.origin).parent


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "g++"))


def _built() -> Path:
    """Compiles the stub in about three seconds, unless it is compiled for this torch version."""
    key = f"{metadata.version('torch')} {_torch()} {SOURCE.read_text()}"
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nmt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder))
    except OSError:  # the home directory is missing or read-only
        folder = made = Path(tempfile.mkdtemp())
    library = folder / f"cuda_stub_{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
    try:
        if not library.exists():
            command = [
                str(_compiler()), "-std=c++20", "-shared", "-fPIC", f"-I{_torch() / 'include'}",
                str(SOURCE), "-o", str(made / library.name),
            ]  # fmt: skip
            found = subprocess.run(command, capture_output=True, text=True)
            if found.returncode:
                raise InputError(f"The CUDA stub cannot be compiled: {found.stderr[-500:]}")
            (made / library.name).replace(library)  # another process may be compiling, too
    finally:
        if made != folder:
            shutil.rmtree(made)
    return library
