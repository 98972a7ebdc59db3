"""Loads models that `nmt export` has written for CTranslate2.

This module does not import torch, so that an exported model can be used without torch.
"""

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import Config
from nmt.data.tokenizer import Tokenizer
from nmt.errors import ArgumentError, InputError, NoModelError, is_out_of_memory, of_system
from nmt.processes import cores
from nmt.runs.found_model import read_config
from nmt.storage import manifest
from nmt.storage.names import CONFIG, CTRANSLATE2_WEIGHTS, TOKENIZER

if TYPE_CHECKING:
    import ctranslate2

KIND = "ctranslate2"  # the value of `kind` in the manifest


@dataclass(frozen=True)
class ExportedModel:
    """A model that was exported for CTranslate2 and has been loaded."""

    config: Config
    tokenizer: Tokenizer
    translator: "ctranslate2.Translator"
    target_symbols: list[str]  # symbols that may be generated
    sha256: str  # hash of the manifest


def is_exported(path: str | Path) -> bool:
    """Returns whether a directory contains a CTranslate2 model, even if the model is incomplete.

    Raises:
        InputError: the operating system cannot access the directory, for example because its name
            is too long.
    """
    folder = Path(path)
    try:
        if (folder / CTRANSLATE2_WEIGHTS).exists():
            return True
    except OSError as error:
        raise of_system(error) from None
    with suppress(InputError):
        return bool(manifest.read(folder, KIND))
    return False


def refuse_unsupported(**given: object) -> None:
    """Raises ArgumentError if an option is set that exported models do not support.

    Args:
        given: the values of the unsupported options. A false or empty value means that the option
            is not set.
    """
    for name in (name for name, value in given.items() if value):
        raise ArgumentError(
            f"An exported model does not support {{{name}}}. "
            f"Remove {{{name}}}, or use the original model."
        )


def read_exported_config(path: Path) -> Config:
    """Returns the configuration of an exported model.

    Raises:
        NoModelError: the configuration or the manifest is missing or damaged.
    """
    manifest.verify(path, manifest.read(path, KIND), (CONFIG,))
    return read_config(path)


def load_exported(path: Path, device: str | None = None) -> ExportedModel:
    """Loads an exported model.

    On a CPU, the model decodes as many batches at the same time as there are threads: one per core,
    or `OMP_NUM_THREADS` if this environment variable is smaller.

    Args:
        device: the device for the model, such as "cpu", "cuda" or "cuda:1". If `device` is None,
            CTranslate2 uses a GPU if it finds one, and the CPU otherwise.

    Raises:
        InputError: the device does not exist, CTranslate2 cannot load the model onto a GPU, or
            `OMP_NUM_THREADS` is not a number of threads.
        NoModelError: a file of the model is missing or damaged, or CTranslate2 cannot load the
            model onto the CPU.
    """
    import ctranslate2

    content = manifest.read(path, KIND)
    manifest.verify(path, content)
    kind, _, index = str(device or "auto").partition(":")
    has_gpu = kind != "cpu" and ctranslate2.get_cuda_device_count() > 0
    threads = 1 if has_gpu else _threads()
    try:
        engine = _in_another_thread(
            lambda: ctranslate2.Translator(
                str(path), device=kind, device_index=int(index or 0),
                inter_threads=threads, intra_threads=1,
            )
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        cause = f"CTranslate2 cannot load {path} ({error})."
        if kind in ("auto", "cpu") and isinstance(error, RuntimeError):
            raise NoModelError(f"{cause} Export the model again.") from None
        raise InputError(f"{cause} Set the device to cpu, or export the model again.") from None
    return ExportedModel(
        read_exported_config(path),
        Tokenizer.load(path / TOKENIZER),
        engine,
        content["target_symbols"],
        content["sha256"],
    )


def _in_another_thread(construct: "Callable[[], ctranslate2.Translator]") -> Any:
    """Returns the result of `construct`, or raises the error that it raises.

    CTranslate2's constructor sets the number of OpenMP threads of the calling thread to
    `intra_threads`. In the caller's own thread, this would slow down PyTorch.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(construct())
        except BaseException as error:  # raised again in the calling thread
            outcome.set_exception(error)

    threading.Thread(target=run).start()
    return outcome.result()


def _threads() -> int:
    """Returns the number of cores, or `OMP_NUM_THREADS` if it is smaller."""
    asked = os.environ.get("OMP_NUM_THREADS")
    if not asked:
        return cores()
    number = re.match(r"\s*\+?0*([1-9]\d*)\s*(,|$)", asked, re.ASCII)  # for example 4 or 4,2
    if not number:
        raise InputError(
            f"The environment variable OMP_NUM_THREADS is {asked!r:.60}, which is not a number of "
            "threads. Set it to a positive integer, or unset it."
        )
    return min(int(number[1][:6]), cores())
