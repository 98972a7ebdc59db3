"""Batches the requests of all clients and passes them to the model processes.

The event loop adds work to the queue and receives futures. For each model process, a thread takes
work from the queue, passes the work to the process and waits for the result. If a client
disconnects or times out, its future is cancelled. Cancelling a future also cancels its work, unless
the work has started.
"""

import asyncio
import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation
from nmt.errors import InputError, Note, where
from nmt.serving.model_process import (
    AbandonedError,
    EndedError,
    FailedError,
    Model,
    ModelProcess,
)

# A batch is chosen from a pool of texts. Each of n waiting requests contributes at most
# max(_SHARE, _POOL / n) texts to the pool.
_SHARE, _POOL = 16, 512
# Maximum number of texts per batch; the translator may split a batch further. Batches are small,
# because new requests wait until the current batch is finished. If many requests are waiting,
# batches are larger, because one large batch takes less time than several small batches.
_BATCH_TEXTS, _MOST_BATCH_TEXTS = 64, 256
_PATIENCE = 0.1  # maximum delay of a batch, as a fraction of the previous batch's duration
_LOOK_S = 0.002  # seconds between checks whether enough requests have arrived
_TEXT_CHARACTERS = 250  # typical length of a text in characters
_SHORTEST = 150  # added to each length, because a short text may have a longer translation
_WORD = 4  # minimum characters per word when the length of a text is estimated
# Seconds between attempts to start a process: the first interval and the longest interval
_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0


class FullQueueError(Exception):
    """Raised if the request queue is full."""


class NotReadyError(Exception):
    """Raised if the model is not loaded yet or the server is stopping."""


class OtherModelError(InputError):
    """Raised if the model's files were replaced after the first model process had loaded them."""

    def __init__(self) -> None:
        super().__init__(
            "The model on disk differs from the model that this server has loaded. Restart the "
            "server to load the new model."
        )


@dataclass(eq=False)
class _Work:
    """A request that contains either texts to translate or a function to call.

    Texts are translated in batches with the texts of other requests.
    """

    future: asyncio.Future[Any]
    texts: Sequence[str] = ()
    prefixes: Sequence[str] = ()
    options: SearchOptions = field(default_factory=SearchOptions)
    call: tuple[Any, ...] | None = None  # a function and its arguments
    sizes: list[int] = field(default_factory=list)  # lengths of the texts, from `translate`
    left: list[int] = field(default_factory=list)  # indices of texts that are not in a batch yet
    found: dict[int, list[Translation]] = field(default_factory=dict)  # by index of the text


@dataclass(frozen=True)
class _Item:
    work: _Work
    number: int  # index of the text in its request

    @property
    def text(self) -> str:
        return self.work.texts[self.number]

    @property
    def size(self) -> int:
        return self.work.sizes[self.number]


class Batcher:
    """A request queue with one thread per model process.

    If a model process is killed, the batcher starts a replacement. If the replacement cannot be
    started, the batcher tries again at growing intervals. A replacement is rejected if the model on
    disk has changed.

    Args:
        processes: functions that create model processes, one function per model process. Each
            function is called again if its process must be replaced.
        queue: maximum number of waiting requests.
        note: called with a warning if a process is killed or a replacement cannot be started.

    Attributes:
        model: the description of the model, or None until the model is loaded and warmed up.
        failure: the error that prevented the model from loading, or None if no error occurred.
    """

    def __init__(
        self,
        processes: Sequence[Callable[[], ModelProcess]],
        queue: int,
        note: Note = lambda text: None,
    ):
        self.model: Any = None  # a Model, once requests are accepted
        self.failure: BaseException | None = None
        self.seconds = 0.0  # computing time in seconds, summed over processes
        self.batches = self.translated = 0  # numbers of batches and texts translated so far
        self._queue, self._note = queue, note
        self._waiting: deque[_Work] = deque()
        self._changed = threading.Condition()
        self._ending = threading.Event()
        self._missing = 0  # killed processes that have not been replaced yet
        self._is_other = False  # whether the last failed attempt found a different model on disk
        self._busy = 0  # number of processes that are computing
        self._computed = 0  # number of requests that busy processes are computing
        self._crowd = 0  # number of waiting and running requests when the last batch was formed
        self._processes: list[ModelProcess] = []
        self._loop: asyncio.AbstractEventLoop
        self._threads = [
            threading.Thread(target=self._run, args=(new,), name="model", daemon=True)
            for new in processes
        ]
        self._loading = self._running = len(self._threads)
        self._found: Model | None = None  # the model of the first process that is ready

    def start(self, after_load: Callable[[], None] = lambda: None) -> None:
        """Starts loading the model.

        Args:
            after_load: called in the event loop after loading has succeeded or failed.
        """
        self._loop = asyncio.get_running_loop()
        self._after_load = after_load
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Cancels the waiting requests and kills the model processes."""
        with self._changed:
            self._ending.set()
            dropped, self._waiting = self._waiting, deque()
            self._changed.notify_all()
        for work in dropped:
            work.future.cancel()
        for thread in self._threads:
            while thread.is_alive():
                for process in [*self._processes]:  # one of them may only just have started
                    process.end()
                thread.join(0.1)

    @property
    def is_ready(self) -> bool:
        """Whether new requests are accepted."""
        return self.model is not None and self._running > 0 and not self._ending.is_set()

    @property
    def has_died(self) -> bool:
        """Whether all requests are rejected because no model process is running."""
        return self.model is not None and not self._running and not self._ending.is_set()

    @property
    def problem(self) -> str:
        """The reason why a model process is not running, or "" if all of them are running."""
        if not self._missing:
            return ""
        if self._is_other:
            return str(OtherModelError())
        return "A model process was killed and cannot be restarted. The server keeps trying."

    @property
    def patience_s(self) -> int:
        """The estimated time to process a full queue, in whole seconds from 1 to 60."""
        each_s = self.seconds / max(self.translated, 1) / len(self._threads)
        return round(min(max(each_s * self._queue, 1), 60))

    @property
    def waiting(self) -> int:
        """The number of requests in the queue."""
        return len(self._waiting)

    def translate(
        self, texts: Sequence[str], options: SearchOptions, prefixes: Sequence[str] = ()
    ) -> asyncio.Future[list[list[Translation]]]:
        """Queues texts for translation. A batch may also contain texts of other requests.

        Args:
            prefixes: one prefix per text, with which the text's translation must begin, or () for
                no prefixes.

        Returns:
            A future that resolves to the n-best translations of each text, in the format of
            `Translator.n_best`.

        Raises:
            FullQueueError, NotReadyError: raised by this method itself, not by the future.
        """
        work = _Work(self._loop.create_future(), texts, prefixes, options)
        work.left = list(range(len(texts)))
        work.sizes = [max(len(text), _WORD * len(text.split())) for text in texts]
        if not texts:
            work.future.set_result([])
            return work.future
        return self._queued(work)

    def call(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Queues the call `function(translator, *arguments)`, which is not part of a batch.

        Args:
            function: a module-level function. The function and its arguments are pickled.

        Returns:
            A future that resolves to the function's return value.

        Raises:
            FullQueueError, NotReadyError: raised by this method itself, not by the future.
        """
        work = _Work(self._loop.create_future(), call=(function, *arguments))
        return self._queued(work)

    def _queued(self, work: _Work) -> asyncio.Future[Any]:
        with self._changed:
            if not self.is_ready:
                raise NotReadyError
            if len(self._waiting) >= self._queue:
                raise FullQueueError
            self._waiting.append(work)
            self._changed.notify()
        work.future.add_done_callback(partial(self._forget, work))
        return work.future

    def _forget(self, work: _Work, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception():
            with self._changed:
                if work in self._waiting:
                    self._waiting.remove(work)

    def _run(self, new: Callable[[], ModelProcess]) -> None:
        """Passes work from the queue to a model process. Each model process has its own thread."""
        try:
            self._work_off(new)
        finally:
            with self._changed:
                self._running -= 1
            self._tell(self._drop_if_dead)

    def _work_off(self, new: Callable[[], ModelProcess]) -> None:
        process = self._first(new)
        with self._changed:
            self._loading -= 1
            is_last = not self._loading
        if is_last:
            self._tell(self._loaded)
        while process:
            self._pass_work(process)
            self._processes.remove(process)
            process.close()
            process = None if self._ending.is_set() else self._replaced(new)

    def _pass_work(self, process: ModelProcess) -> None:
        """Passes work to a model process until the process exits or the server stops."""
        took_s = 0.0  # duration of the last batch
        while (window := self._next(process, took_s * _PATIENCE)) is not None:
            began = time.perf_counter()
            try:
                if isinstance(window, _Work):
                    self._do(process, window)
                else:
                    self._translate(process, window)
            except EndedError as error:
                works = [window] if isinstance(window, _Work) else [item.work for item in window]
                self._tell(_fail, works, error)
                return
            finally:
                with self._changed:
                    self._busy -= 1
                    self._computed -= 1 if isinstance(window, _Work) else _requests(window)
            took_s = time.perf_counter() - began

    def _first(self, new: Callable[[], ModelProcess]) -> ModelProcess | None:
        """Starts a model process. Returns None if the process is not needed or cannot start."""
        try:
            return self._started(new)
        except BaseException as error:
            if not self._ending.is_set():
                self.failure = self.failure or error
            return None

    def _replaced(self, new: Callable[[], ModelProcess]) -> ModelProcess | None:
        """Starts a replacement for a model process that has exited, and repeats failed attempts.

        Returns:
            The new model process, or None if the server is stopping.
        """
        self._note("nmt: warning: A model process was killed. A replacement is starting.")
        wait_s = _RETRY_S
        if process := self._restarted(new, wait_s):
            return process
        with self._changed:
            self._running -= 1
            self._missing += 1
        self._tell(self._drop_if_dead)
        while not (process or self._ending.wait(wait_s)):
            wait_s = min(2 * wait_s, _LONGEST_RETRY_S)
            process = self._restarted(new, wait_s)
        with self._changed:
            self._running += 1
            self._missing -= 1
        return process

    def _restarted(self, new: Callable[[], ModelProcess], wait_s: float) -> ModelProcess | None:
        """Tries once to start a model process. Returns None if the process cannot be started.

        Args:
            wait_s: the number of seconds until the next attempt, which is stated in the warning.
        """
        try:
            return self._started(new)
        except BaseException as error:
            why = error if isinstance(error, InputError | FailedError) else where(error)
            self._is_other = isinstance(error, OtherModelError)
            if not self._ending.is_set():
                self._note(
                    f"nmt: warning: The model process could not be started. {why} "
                    f"The server will try again in {wait_s:g} s."
                )
            return None

    def _drop_if_dead(self) -> None:
        """Fails all waiting requests if no model process is left."""
        if self.has_died:
            with self._changed:
                dropped, self._waiting = self._waiting, deque()
            _fail(dropped, EndedError())

    def _started(self, new: Callable[[], ModelProcess]) -> ModelProcess | None:
        """Starts a model process and waits until the process is ready.

        Returns None if the process is not needed.

        Raises:
            OtherModelError: the process has loaded a different model than the first model process.
            InputError, FailedError, EndedError: see `ModelProcess.start`.
        """
        process = new()
        self._processes.append(process)
        try:
            model = process.start()
            with self._changed:
                self._found = self._found or model
            if model and self._found and model.sha256 != self._found.sha256:
                raise OtherModelError
        except BaseException:
            self._processes.remove(process)
            process.close()
            raise
        return process if model else None

    def _loaded(self) -> None:
        if not self.failure:
            self.model = self._found
        self._after_load()

    def _next(self, process: ModelProcess, patience_s: float) -> list[_Item] | _Work | None:
        """Waits until the queue contains work for a model process, then removes and returns it.

        Clients that have received a response usually send their next requests immediately. The next
        batch is therefore delayed briefly, until the queue contains the process's share of the
        requests. The share is the number of requests that were unanswered when the last batch was
        formed, divided by the number of model processes. Without this delay, the first request to
        arrive would be translated alone, and the others would have to wait.

        Returns:
            A batch of texts or a request to call a function, or None if the process has exited or
            the server is stopping.
        """
        while True:
            with self._changed:
                while not self._waiting and not self._ending.is_set():
                    self._changed.wait()
            share, until = self._crowd // len(self._threads), time.perf_counter() + patience_s
            while 0 < len(self._waiting) < share and time.perf_counter() < until:
                time.sleep(_LOOK_S)
            with self._changed:
                if self._ending.is_set() or process.has_ended:
                    self._changed.notify()  # leaves the work to another process
                    return None
                if self._waiting:  # false if another thread has taken the work
                    return self._taken()

    def _taken(self) -> list[_Item] | _Work:
        self._crowd = len(self._waiting) + self._computed
        self._busy += 1
        if self._waiting[0].call:
            self._computed += 1
            return self._waiting.popleft()
        batch = self._window(self._waiting[0].options)
        self._computed += _requests(batch)
        if self._waiting:
            self._changed.notify()  # wakes an idle process
        return batch

    def _window(self, options: SearchOptions) -> list[_Item]:
        """Forms a batch from the first text in the queue and texts of similar length.

        All texts in the batch have the given search options. The batch is chosen from a pool that
        contains a limited number of texts per request, so that a long request does not block other
        requests. When the batch has been formed, the request at the head of the queue is moved to
        the end.
        """
        alike = [work for work in self._waiting if not work.call and work.options == options]
        share = max(_SHARE, _POOL // len(alike))
        pool = [_Item(work, number) for work in alike for number in work.left[:share]]
        most = min(max(_BATCH_TEXTS, len(alike)), _MOST_BATCH_TEXTS)
        batch = _of_like_length(pool, pool[0], most)
        for item in batch:
            item.work.left.remove(item.number)
        self._waiting.rotate(-1)
        self._waiting = deque(work for work in self._waiting if work.call or work.left)
        return batch

    def _do(self, process: ModelProcess, work: _Work) -> None:
        """Executes a request to call a function, unless the request was cancelled."""
        if work.future.cancelled():
            return
        assert work.call
        began = time.perf_counter()
        try:
            result = process.call(*work.call, sharing=self._sharing())
        except EndedError:
            raise
        except Exception as error:
            self._tell(_fail, [work], error)
        else:
            self._tell(_finish, work, result)
        self._count(began)

    def _translate(self, process: ModelProcess, batch: list[_Item]) -> None:
        """Translates a batch.

        If the translation fails, translates each half of the batch, to isolate faulty texts.
        """
        batch = [item for item in batch if not item.work.future.done()]
        if not batch:
            return
        texts = [item.text for item in batch]
        prefixes = [item.work.prefixes[item.number] if item.work.prefixes else "" for item in batch]

        def is_wanted() -> bool:
            return not all(item.work.future.done() for item in batch)

        began = time.perf_counter()
        try:
            found = process.n_best(
                texts,
                batch[0].work.options,
                prefixes,
                is_wanted=is_wanted,
                sharing=self._sharing(batch),
            )
        except AbandonedError:
            return
        except EndedError:
            raise
        except Exception as error:
            if len(batch) == 1:
                self._tell(_fail, [batch[0].work], error)
            else:
                self._translate(process, batch[: len(batch) // 2])
                self._translate(process, batch[len(batch) // 2 :])
            return
        self._count(began, len(batch))
        self._tell(_deliver, batch, found)

    def _sharing(self, batch: Sequence[_Item] = ()) -> int:
        """Returns the number of processes among which the CPU cores are divided.

        If there is only one request, returns 1, so that this request can use all cores.
        """
        is_alone = self._busy == 1 and _requests(batch) < 2 and not self._waiting
        return 1 if is_alone else len(self._threads)

    def _count(self, began: float, texts: int = 0) -> None:
        with self._changed:
            self.seconds += time.perf_counter() - began
            self.batches += bool(texts)
            self.translated += texts

    def _tell(self, function: Callable[..., None], *arguments: Any) -> None:
        """Schedules a function call in the event loop, unless the event loop is closed."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)


def _requests(batch: Sequence[_Item]) -> int:
    return len({id(item.work) for item in batch})


def _of_like_length(pool: list[_Item], wanted: _Item, most: int) -> list[_Item]:
    """Returns a batch of `wanted` and the items of `pool` that are closest to `wanted` in length.

    Args:
        most: maximum number of texts in the batch. Batches of long texts contain fewer texts.
    """
    pool = sorted(pool, key=lambda item: item.size)
    begin, size = pool.index(wanted), wanted.size
    end = begin + 1
    while begin > 0 or end < len(pool):
        above = pool[end].size - size if end < len(pool) else sys.maxsize
        below = size - pool[begin - 1].size if begin else sys.maxsize
        longest = pool[end if above <= below else end - 1].size
        number = end - begin + 1
        if number > most or number * (longest + _SHORTEST) > most * _TEXT_CHARACTERS:
            break
        if above <= below:
            end += 1
        else:
            begin -= 1
    return pool[begin:end]


def _deliver(batch: list[_Item], found: list[list[Translation]]) -> None:
    for item, translations in zip(batch, found, strict=True):
        work = item.work
        work.found[item.number] = translations
        if len(work.found) == len(work.texts):
            _finish(work, [work.found[number] for number in range(len(work.texts))])


def _finish(work: _Work, result: Any) -> None:
    if not work.future.done():
        work.future.set_result(result)


def _fail(works: Iterable[_Work], error: Exception) -> None:
    for work in works:
        if not work.future.done():
            work.future.set_exception(error)
