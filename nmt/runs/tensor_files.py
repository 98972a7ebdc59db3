"""Reads and writes safetensors files of fp32 weights or optimizer state.

Files may come from anywhere. Names, types and shapes are therefore read first, from a bounded
header, so that no file crashes the process or fills the memory.
"""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.errors import NoModelError, StorageError

_MAX_HEADER_BYTES = 10_000_000  # names and shapes of some 100,000 tensors

Shapes = Mapping[str, tuple[int, ...]]


def shapes_of(tensors: Mapping[str, Tensor]) -> Shapes:
    """Returns the shape of each tensor."""
    return {key: tuple(value.shape) for key, value in tensors.items()}


def refuse_unfit(expected: Shapes, found: Shapes, file: Path) -> None:
    """Raises NoModelError unless names and shapes are as expected."""
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            raise NoModelError(
                f"In {file} tensor {key} has shape {found.get(key, 'none')}, but the configuration "
                f"requires {expected.get(key, 'none')}. Restore the files that belong together."
            )


def refuse_unfit_states(weights: Shapes, file: Path) -> None:
    """Raises NoModelError unless a file has each state `STATE.PARAMETER` for all parameters.

    With tensors of other shapes, fused optimizers would write out of bounds.

    Args:
        weights: names and shapes of the parameters.
    """
    found = read_shapes(file)
    states = {name.partition(".")[0] for name in found}
    expected = {f"{state}.{key}": shape for key, shape in weights.items() for state in states}
    refuse_unfit(expected, found, file)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Reads all tensors, memory-mapped.

    Raises:
        NoModelError: the file is damaged, or has types other than fp32 or non-finite values.
    """
    read_shapes(path)
    tensors = load_file(path)
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise NoModelError(
                f"{path} is damaged: {name} has values that are not finite. "
                "Restore the file from a copy."
            )
    return tensors


def read_shapes(path: Path) -> Shapes:
    """Reads the tensors' shapes from the header, which is checked.

    Raises:
        NoModelError: the header is damaged, or has types other than fp32.
    """
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
    try:
        if header_bytes > _MAX_HEADER_BYTES:
            raise ValueError(f"a header of {header_bytes} bytes")
        with safe_open(path, framework="pt") as content:
            slices = {key: content.get_slice(key) for key in content.keys()}  # noqa: SIM118
        other = {part.get_dtype() for part in slices.values()} - {"F32"}
        if other:
            raise ValueError(f"tensors of type {', '.join(sorted(other))} instead of F32")
        return {key: tuple(part.get_shape()) for key, part in slices.items()}
    except (SafetensorError, ValueError, OverflowError) as error:
        raise NoModelError(
            f"{path} is not a valid safetensors file ({error}). Restore it from a copy."
        ) from None


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Writes a file; raises StorageError on failure, for example on a full disk."""
    contiguous = {key: value.detach().contiguous() for key, value in tensors.items()}
    try:
        save_file(contiguous, path, metadata)
    except SafetensorError as error:
        raise StorageError(
            f"{path} cannot be written ({error}). Free disk space, or allow writing."
        ) from None
