"""A model in a process of its own, so that what it computes holds up no client.

Python runs one thread at a time: in the server's process, the model would wait for the event loop
and the event loop for the model.
"""

import contextlib
import gc
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from nmt.config import Config
from nmt.cpu_memory import keep_freed_memory
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation
from nmt.documents.passages import Translates
from nmt.errors import InputError, is_out_of_memory, where
from nmt.processes import end_with_parent, start_deaf
from nmt.serving.inside import sees_inside

Load = Callable[[], Translates | None]  # None: this process is not needed

_LOOK_S = 0.1  # how often a batch is asked for whether anybody waits for it
_GIVE_UP = None  # sent instead of a call
_WARM_UP = ["1 2 3", "4 5 6 7 8 9"]  # whatever the languages are


class AbandonedError(Exception):
    """Nobody waits any more for what is being translated."""


class EndedError(InputError):
    """The process has ended; what it was to do is lost."""

    def __init__(self) -> None:
        super().__init__(
            "the model's process was ended from outside, see the system's log, start again; "
            "if memory was short, with fewer processes"
        )


class FailedError(Exception):
    """A fault of ours in the process; the message says where, and quotes no text."""


@dataclass(frozen=True)
class Model:
    """What is known of a model without the model."""

    config: Config
    tokenizer: Tokenizer
    max_part: int  # tokens of a sentence, or of a part of it
    sees_inside: bool

    @classmethod
    def of(cls, translator: Any) -> "Model":
        """What is known of a translator's."""
        return cls(
            translator.config, translator.tokenizer, translator.max_part, sees_inside(translator)
        )


class ModelProcess:
    """A process with a translator, which does one call at a time.

    Args:
        load: gives the translator, in the process: it is pickled.
    """

    def __init__(self, load: Load):
        context = multiprocessing.get_context("spawn")  # a fork of threads can hang
        self._connection, self._theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._theirs, load), daemon=True)

    def start(self) -> Model | None:
        """Starts the process and waits until its model is loaded and warm.

        Returns:
            None: the process is not needed, and has ended.

        Raises:
            InputError: as `load` does.
            FailedError, EndedError: see `call`.
        """
        start_deaf(self._process)
        self._theirs.close()  # so that reading ends when the process does
        return self._answer()

    def call(self, function: Callable[..., Any], *arguments: Any, sharing: int = 1) -> Any:
        """What `function(translator, *arguments)` gives in the process.

        Args:
            function: of a module; it and its arguments are pickled.
            sharing: processes among which the cores are shared.

        Raises:
            InputError: as the function does.
            FailedError: it raised something else.
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
        """What `Translator.n_best` gives.

        Args:
            is_wanted: asked now and then.

        Raises:
            AbandonedError: it was not wanted any more.
            others: see `call`.
        """
        self._send((_n_best, (texts, options, prefixes), sharing, True))
        while not self._connection.poll(_LOOK_S):
            if not is_wanted():
                self._send(_GIVE_UP)
                break
        return self._answer()

    def end(self) -> None:
        """Ends the process at once; from any thread, and more than once."""
        with contextlib.suppress(ValueError):  # it is closed
            if self._process.pid is not None:
                self._process.kill()

    def close(self) -> None:
        """Ends the process and gives back what it took; from the thread that uses it."""
        self.end()
        if self._process.pid is not None:
            self._process.join()
        self._process.close()
        self._connection.close()
        self._theirs.close()

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended; asked between two calls."""
        return self._connection.poll()

    def _send(self, job: Any) -> None:
        try:
            self._connection.send(job)
        except OSError:
            raise EndedError from None

    def _answer(self) -> Any:
        try:
            result, error, context = self._connection.recv()
        except (EOFError, OSError):  # before an answer, or in the middle of one
            raise EndedError from None
        if error:
            error.__context__ = context
            raise error
        return result


def _n_best(
    translator: Translates,
    texts: Sequence[str],
    options: SearchOptions,
    prefixes: Sequence[str],
    progress: Callable[[int], object],
) -> list[list[Translation]]:
    return translator.n_best(texts, options, prefix=prefixes, progress=progress)


def _serve(calls: Connection, load: Load) -> None:
    """The process: one call after the other, until the server has gone or ends it."""
    end_with_parent()
    keep_freed_memory()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _work_off(calls, load)


def _work_off(calls: Connection, load: Load) -> None:
    loaded: list[Translates] = []

    def start() -> Model | None:
        translator = load()
        if translator is None:
            return None
        loaded.append(translator)
        return _warm(translator)

    calls.send(_outcome(start))
    for translator in loaded:
        cores = _threads(translator)
        while True:
            job = calls.recv()
            if job is not _GIVE_UP:  # that came after the end of what it was sent for
                function, arguments, sharing, gives_up = job
                _set_threads(translator, max(cores // sharing, 1))
                more = [partial(_go_on, calls)] if gives_up else []
                calls.send(_outcome(function, translator, *arguments, *more))


def _warm(translator: Translates) -> Model:
    """What is known of a model, after its first translations, which are slower than the rest."""
    translator.n_best(_WARM_UP, SearchOptions())
    gc.collect()
    gc.freeze()  # what lives as long as the process is not looked through again and again
    return Model.of(translator)


def _go_on(calls: Connection, _: int) -> None:
    """Called between batches: AbandonedError if the server has said to give up."""
    if calls.poll():
        calls.recv()
        raise AbandonedError


def _threads(translator: Translates) -> int:
    """How many the translator computes with, of its own accord."""
    if not sees_inside(translator):
        return 1
    import torch  # an exported model is served without it

    return torch.get_num_threads()


def _set_threads(translator: Translates, number: int) -> None:
    if sees_inside(translator):
        import torch

        if torch.get_num_threads() != number:
            torch.set_num_threads(number)


def _outcome(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any, Any]:
    """A result, or an error and what it came from, as they can be sent."""
    try:
        return function(*arguments), None, None
    except (InputError, AbandonedError) as error:
        short = is_out_of_memory(error.__context__ or error)
        return None, error, MemoryError() if short else None
    except Exception as error:
        if is_out_of_memory(error):
            return None, InputError("out of memory"), MemoryError()
        return None, FailedError(where(error)), None
