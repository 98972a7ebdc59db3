"""Reads and writes safetensors files of fp32 weights or optimizer state.

A file may come from an untrusted source. Names, types and shapes are therefore read and checked
before the tensors, from a header of limited size, so that no file can crash the process or fill the
memory.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from nmt.errors import NoModelError, StorageError
from nmt.signals import deferred

_MAX_HEADER_BYTES = 10_000_000  # enough for the names and shapes of about 100,000 tensors

Shapes = Mapping[str, tuple[int, ...]]


def shapes_of(tensors: Mapping[str, Tensor]) -> Shapes:
    """Returns the shape of each tensor."""
    return {key: tuple(value.shape) for key, value in tensors.items()}


def refuse_unfit(expected: Shapes, found: Shapes, file: Path, remedy: str) -> None:
    """Raises NoModelError unless names and shapes are as expected.

    Args:
        remedy: the last sentence of the error message, which says what to do.
    """
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) == found.get(key):
            continue
        if key not in found:
            problem = f"{file} has no tensor {key}, which the configuration requires"
        elif key not in expected:
            problem = f"{file} has a tensor {key} that the configuration does not require"
        else:
            problem = (
                f"Tensor {key} in {file} has shape {found[key]}, but the configuration requires "
                f"{expected[key]}"
            )
        raise NoModelError(f"{problem}. {remedy}")


def read_tensors(path: Path, shapes: Shapes, *, are_states: bool = False) -> dict[str, Tensor]:
    """Checks a file's header and returns the file's tensors, which are memory-mapped.

    Args:
        shapes: names and shapes of the parameters.
        are_states: whether the file contains optimizer states, named `STATE.PARAMETER`. Each state
            must then exist for all parameters, with the parameter's shape, because fused optimizers
            would otherwise write out of bounds.

    Raises:
        NoModelError: the file is damaged, or contains unexpected names or shapes, types other than
            fp32, or values that are not finite.
        OSError: the operating system cannot open the file.
    """
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
    try:
        if header_bytes > _MAX_HEADER_BYTES:
            raise ValueError(f"a header of {header_bytes} bytes")
        with deferred(), safe_open(path, framework="pt") as content:
            slices = {key: content.get_slice(key) for key in content.keys()}  # noqa: SIM118
            other = {part.get_dtype() for part in slices.values()} - {"F32"}
            if other:
                raise ValueError(f"tensors of type {', '.join(sorted(other))} instead of F32")
            if are_states:
                states = {key.partition(".")[0] for key in slices}
                shapes = {f"{state}.{key}": shapes[key] for key in shapes for state in states}
            found = {key: tuple(part.get_shape()) for key, part in slices.items()}
            refuse_unfit(shapes, found, path, f"Restore {path.parent} from a copy.")
            tensors = {key: content.get_tensor(key) for key in slices}
    except RuntimeError as error:
        if os.strerror(errno.EMFILE) in str(error):  # torch reports it as text
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path)) from None
        raise
    except (SafetensorError, ValueError, OverflowError) as error:
        raise NoModelError(
            f"{path} is not a valid safetensors file ({error}). Restore it from a copy."
        ) from None
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise NoModelError(
                f"{path} is damaged: {name} has values that are not finite. "
                "Restore the file from a copy."
            )
    return tensors


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Writes tensors to a file; raises StorageError on failure, for example if the disk is full."""
    contiguous = {key: value.detach().contiguous() for key, value in tensors.items()}
    try:
        save_file(contiguous, path, metadata)
    except SafetensorError as error:
        raise StorageError(
            f"{path} cannot be written ({error}). Check the free disk space and the permissions of "
            "the directory."
        ) from None
