"""Reads and writes safetensors files that contain fp32 weights or optimizer states.

Because a file may come from an untrusted source, the size and the content of its header are checked
before any tensor is read. A malicious file therefore cannot crash the process or exhaust memory.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from nmt.errors import NoModelError, StorageError

_MAX_HEADER_BYTES = 10_000_000  # enough for the names and shapes of about 100,000 tensors

Shapes = Mapping[str, tuple[int, ...]]


def shapes_of(tensors: Mapping[str, Tensor]) -> Shapes:
    """Maps the name of each tensor to its shape."""
    return {key: tuple(value.shape) for key, value in tensors.items()}


def refuse_unfit(expected: Shapes, found: Shapes, file: Path, remedy: str) -> None:
    """Raises NoModelError if the names or shapes of tensors differ from the expected ones.

    Args:
        remedy: the last sentence of the error message, which tells the user what to do.
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


def read_tensors(
    file: BinaryIO, path: Path, shapes: Shapes, *, are_states: bool = False
) -> dict[str, Tensor]:
    """Reads the tensors of a safetensors file into memory, after checking the file's header.

    The file is read once, from its start to its end, so that the caller can compute the hash of the
    bytes that are read (see `manifest.verified`). The file is not memory-mapped, because a later
    change of the file by another process would change the tensors or crash this process.

    Args:
        file: the opened safetensors file.
        path: the path of the file, which is used in error messages.
        shapes: the names and shapes of the model's parameters.
        are_states: whether the file contains optimizer states, named `STATE.PARAMETER`, instead of
            parameters. If `are_states` is True, the file must contain each state for every
            parameter, with the parameter's shape, because fused optimizers would otherwise write
            out of bounds.

    Raises:
        NoModelError: the file is damaged, or contains tensors with unexpected names or shapes, with
            types other than fp32, or with values that are not finite.
        OSError: the operating system cannot read the file.
    """
    try:
        found = _read_header(file)
        if are_states:
            states = {key.partition(".")[0] for key in found}
            shapes = {f"{state}.{key}": shapes[key] for key in shapes for state in states}
        refuse_unfit(shapes, found, path, f"Restore {path.parent} from a copy.")
        # dtype is set explicitly, because a program may have changed torch's default dtype
        tensors = {key: torch.empty(shape, dtype=torch.float32) for key, shape in found.items()}
        for tensor in tensors.values():
            data = tensor.numpy().reshape(-1).view(np.uint8)
            if file.readinto(data) != len(data):  # type: ignore[attr-defined]
                raise ValueError("the file became shorter while it was read")
    except ValueError as error:
        raise NoModelError(
            f"{path} is not a valid safetensors file ({error}). Restore it from a copy."
        ) from None
    for name, tensor in tensors.items():
        if not torch.stack(tensor.aminmax()).isfinite().all():  # needs no copy of the tensor
            raise NoModelError(
                f"{path} is damaged: {name} has values that are not finite. "
                "Restore the file from a copy."
            )
    return tensors


class _Entry(BaseModel):
    """A tensor's entry in the header of a safetensors file."""

    model_config = ConfigDict(strict=True)

    dtype: str
    shape: tuple[NonNegativeInt, ...]
    data_offsets: tuple[int, int]


_HEADER = TypeAdapter(dict[str, _Entry | dict[str, str]])


def _read_header(file: BinaryIO) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the tensors in a safetensors file, in the order of their data.

    The format is documented at https://huggingface.co/docs/safetensors. All tensors must be of type
    fp32, and there must be no gaps between the data of different tensors.

    Raises:
        ValueError: the header is not valid, or does not match the size of the file.
    """
    size = int.from_bytes(file.read(8), "little")
    if size > _MAX_HEADER_BYTES:
        raise ValueError(
            f"its header of {size:,} bytes exceeds the maximum of {_MAX_HEADER_BYTES:,}"
        )
    try:
        header = _HEADER.validate_json(file.read(size))
    except ValidationError as error:
        raise ValueError(f"its header is damaged: {error.errors()[0]['msg']}") from None
    header.pop("__metadata__", None)
    entries = {key: each for key, each in header.items() if isinstance(each, _Entry)}
    other = {each.dtype for each in entries.values()} - {"F32"}
    if other:
        raise ValueError(f"its tensors have type {', '.join(sorted(other))} instead of F32")
    entries = dict(sorted(entries.items(), key=lambda item: item[1].data_offsets))
    end = 0
    for each in entries.values():
        begin, end = end, end + 4 * math.prod(each.shape)
        if each.data_offsets != (begin, end):
            raise ValueError("its tensors overlap, leave gaps, or do not fit their shapes")
    there = os.fstat(file.fileno()).st_size - 8 - size
    if len(entries) != len(header) or there != end:
        raise ValueError(f"it has {there} bytes of data, but its header describes {end}")
    return {key: each.shape for key, each in entries.items()}


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Writes a safetensors file; raises StorageError if this fails, as when the disk is full."""
    contiguous = {key: value.detach().contiguous() for key, value in tensors.items()}
    try:
        save_file(contiguous, path, metadata)
    except SafetensorError as error:
        raise StorageError(
            f"{path} cannot be written ({error}). Check the free disk space and the permissions of "
            "the directory."
        ) from None
