"""Runs a model in a separate process, so that translation does not block the server.

If the model and the event loop ran in the same process, they would slow each other down, because
Python runs only one thread at a time.
"""

import contextlib
import gc
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from nmt.config import Config
from nmt.cpu_memory import keep_freed_memory
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation
from nmt.errors import InputError, is_out_of_memory, where
from nmt.processes import end_with_parent, need_no_temporary_directory, start_deaf

if TYPE_CHECKING:
    from nmt.translator import Translator

Load = Callable[[], "Translator | None"]  # returns None if the process is not needed

_LOOK_S = 0.1  # seconds between checks whether a batch is still wanted
_GIVE_UP = None  # sent instead of a call, to abandon the current call
_WARM_UP = ["1 2 3", "4 5 6 7 8 9"]  # translated to warm up the model; digits work in all languages


class AbandonedError(Exception):
    """Raised if the current batch was abandoned because no client waits for its translations."""


class EndedError(InputError):
    """Raised if the model process has exited; its current work is lost."""

    def __init__(self) -> None:
        super().__init__(
            "The model process was killed. Check the system log, then restart the server. If "
            "memory ran out, start fewer processes."
        )


class FailedError(Exception):
    """Raised if an internal error occurs in the model process.

    The error message states the location in the code and does not quote a client's text.
    """


@dataclass(frozen=True)
class Model:
    """A description of the loaded model, which the model process sends to the server."""

    config: Config
    tokenizer: Tokenizer
    max_part: int  # maximum number of tokens in a sentence or in a part of a longer sentence
    sees_inside: bool  # False for an exported model, which provides only cross-attention
    sha256: str  # identifies the model's files, see `LoadedModel`

    @classmethod
    def of(cls, translator: "Translator") -> "Model":
        """Returns the description of a translator's model."""
        return cls(
            translator.config, translator.tokenizer, translator.max_part,
            not translator.is_exported, translator.sha256,
        )  # fmt: skip


class ModelProcess:
    """A process that loads a translator and executes one call at a time.

    Args:
        load: a function that returns the translator. The function is pickled and is called in the
            model process.
    """

    def __init__(self, load: Load):
        context = multiprocessing.get_context("spawn")  # forking a process with threads can hang
        self._connection, self._theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._theirs, load), daemon=True)

    def start(self) -> Model | None:
        """Starts the process and waits until its model is loaded and warmed up.

        Returns:
            A description of the model, or None if `load` returned None. If `load` returns None,
            the process is not needed and exits.

        Raises:
            InputError: `load` raised this error.
            FailedError, EndedError: see `call`.
        """
        start_deaf(self._process)
        self._theirs.close()  # so that reading fails when the process exits
        return self._answer()

    def call(self, function: Callable[..., Any], *arguments: Any, sharing: int = 1) -> Any:
        """Calls `function(translator, *arguments)` in the model process and returns the result.

        Args:
            function: a module-level function. The function and its arguments are pickled.
            sharing: number of model processes among which the CPU cores are divided.

        Raises:
            InputError: `function` raised this error.
            FailedError: `function` raised an exception that is not an InputError.
            EndedError: the process was killed, or `end` was called.
        """
        self._send((function, arguments, sharing, False))
        return self._answer()

    def n_best(
        self,
        texts: Sequence[str],
        options: SearchOptions,
        prefixes: Sequence[str],
        *,
        is_wanted: Callable[[], bool],
        sharing: int = 1,
    ) -> list[list[Translation]]:
        """Calls `Translator.n_best` in the model process and returns the result.

        Args:
            is_wanted: a function that is called at short intervals; when `is_wanted` returns False,
                the translation is abandoned.

        Raises:
            AbandonedError: `is_wanted` returned False.
            InputError, FailedError, EndedError: see `call`.
        """
        self._send((_n_best, (texts, options, prefixes), sharing, True))
        while not self._connection.poll(_LOOK_S):
            if not is_wanted():
                self._send(_GIVE_UP)
                break
        return self._answer()

    def end(self) -> None:
        """Kills the process. This method may be called repeatedly and from any thread."""
        with contextlib.suppress(ValueError):  # the process object is closed
            if self._process.pid is not None:
                self._process.kill()

    def close(self) -> None:
        """Kills the process and frees its resources.

        Only the thread that uses this object may call this method.
        """
        self.end()
        if self._process.pid is not None:
            self._process.join()
        self._process.close()
        self._connection.close()
        self._theirs.close()

    @property
    def has_ended(self) -> bool:
        """Whether the process has exited. The value is meaningless while a call is in progress."""
        return self._connection.poll()

    def _send(self, job: Any) -> None:
        try:
            self._connection.send(job)
        except OSError:
            raise EndedError from None

    def _answer(self) -> Any:
        try:
            result, error, context = self._connection.recv()
        except (EOFError, OSError):  # the process ended before or while it sent its result
            raise EndedError from None
        if error:
            error.__context__ = context
            raise error
        return result


def _n_best(
    translator: "Translator",
    texts: Sequence[str],
    options: SearchOptions,
    prefixes: Sequence[str],
    progress: Callable[[int], object],
) -> list[list[Translation]]:
    found = translator.n_best(texts, options, prefix=prefixes, progress=progress)
    if options.attention:  # responses contain only the attention of the best translation
        found = [[best, *(replace(each, attention=None) for each in rest)] for best, *rest in found]
    return found


def _serve(calls: Connection, load: Load) -> None:
    """Executes the server's calls in the model process until the server exits."""
    end_with_parent()
    need_no_temporary_directory()
    keep_freed_memory()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _work_off(calls, load)


def _work_off(calls: Connection, load: Load) -> None:
    loaded, *errors = _outcome(_loaded, load)
    translator, model = loaded or (None, None)
    calls.send((model, *errors))
    cores = 0  # the number of threads that torch uses by default
    while translator:
        job = calls.recv()
        if job is _GIVE_UP:  # belongs to a call that has ended
            continue
        function, arguments, sharing, gives_up = job
        if not translator.is_exported:
            import torch  # not needed to serve an exported model

            cores = cores or torch.get_num_threads()
            threads = max(cores // sharing, 1)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
        more = [partial(_go_on, calls)] if gives_up else []
        calls.send(_outcome(function, translator, *arguments, *more))


def _loaded(load: Load) -> "tuple[Translator, Model] | None":
    """Loads the translator, warms it up with two translations, and describes its model."""
    translator = load()
    if translator is None:
        return None
    translator.n_best(_WARM_UP, SearchOptions())
    gc.collect()
    gc.freeze()  # excludes permanent objects from garbage collection
    return translator, Model.of(translator)


def _go_on(calls: Connection, _: int) -> None:
    """Raises AbandonedError if the server has abandoned the call.

    `Translator.n_best` calls this function as its progress callback.
    """
    if calls.poll():
        calls.recv()
        raise AbandonedError


def _outcome(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any, Any]:
    """Calls a function and returns its result, the error that it raised and the error's context.

    All returned values can be pickled.
    """
    try:
        return function(*arguments), None, None
    except (InputError, AbandonedError) as error:
        short = is_out_of_memory(error.__context__ or error)
        return None, error, MemoryError() if short else None
    except Exception as error:
        if is_out_of_memory(error):
            return (
                None,
                InputError("The server ran out of memory. Send fewer or shorter texts."),
                MemoryError(),
            )
        return None, FailedError(where(error)), None
