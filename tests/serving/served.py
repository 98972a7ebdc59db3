"""Runs a server in a thread of this process, with a translator that needs no model."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any

from nmt.errors import ArgumentError
from nmt.serving.app import create_app
from nmt.serving.limits import Limits
from nmt.serving.model_process import AbandonedError, Model
from nmt.serving.server import Server, configuration
from nmt.translator import SearchOptions, Translation
from tests.patience import PATIENCE_S, wait_until


class Shouting:
    """Translates to upper case, waits while `free` is not set, and raises errors for some words.

    Attributes:
        batches: the texts of each call so far.
    """

    is_exported = False
    max_part = 100  # in words
    sha256 = ""

    def __init__(self, symbols: Sequence[str] = ()):
        self.config = SimpleNamespace(
            data=SimpleNamespace(source_language="en", target_language="de"),
            decoding=SimpleNamespace(beam=4),
        )
        self.tokenizer = SimpleNamespace(
            symbols=symbols,
            split_tag=lambda text: ("", text),
            normalize=str,
            encode=lambda text: list(text.split()),
        )
        self.batches: list[list[str]] = []
        self.free = threading.Event()
        self.free.set()

    def beam(self, options: SearchOptions) -> int:
        return options.beam or 4

    def n_best(self, sentences, options=None, *, prefix="", progress=None):
        self.batches.append(list(sentences))
        assert self.free.wait(PATIENCE_S)
        if progress:
            progress(len(sentences))
        return [self._of(text, options or SearchOptions()) for text in sentences]

    def next_tokens(self, text: str, prefix: str, k: int) -> list[Any]:
        return [SimpleNamespace(piece="!", text=f"{prefix}!", probability=0.5)] * k

    def _of(self, text: str, options: SearchOptions) -> list[Translation]:
        if "poison" in text:
            raise RuntimeError("quotes the text: poison")
        if "wrong" in text:
            raise ArgumentError("too long, {prefix}, shorten it")
        if "huge" in text:
            try:
                raise MemoryError
            except MemoryError:
                raise ArgumentError("out of memory") from None
        shouted = [text.upper() + "!" * rank for rank in range(options.n_best)]
        links = [(n, n) for n, _ in enumerate(text.split())]
        return [
            Translation(each, -float(n), -1.0, [5, 2], 1, alignment=links)
            for n, each in enumerate(shouted)
        ]


class Here:
    """Wraps a translator of this process in the interface of a ModelProcess."""

    def __init__(self, translator: Any):
        self.translator = translator

    def start(self) -> Model:
        return Model.of(self.translator)

    def call(self, function, *arguments, sharing=1):
        return function(self.translator, *arguments)

    def n_best(self, texts, options, prefixes, *, is_wanted, sharing=1):
        def go_on(_: int) -> None:
            if not is_wanted():
                raise AbandonedError

        return self.translator.n_best(texts, options, prefix=prefixes, progress=go_on)

    has_ended = is_closed = False

    def close(self) -> None:
        self.is_closed = True
        self.end()

    def end(self) -> None:
        if isinstance(self.translator, Shouting):
            self.translator.free.set()


@contextmanager
def served(translator: Any, notes: list[str] | None = None, **limits: Any) -> Iterator[int]:
    """Yields the port of a running server that is ready."""
    bounds = Limits(**limits)
    told = [].append if notes is None else notes.append
    app = create_app([lambda: Here(translator)], bounds, note=told)
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = Server(configuration(app, bounds))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_until(lambda: app.state.batcher.is_ready)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        if isinstance(translator, Shouting):
            translator.free.set()
        thread.join()


def ask(port: int, path: str, question: Any = None, **headers: str) -> tuple[int, Any]:
    """Sends a POST, or a GET if there is no question; returns the status and the content."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    if question is None:
        connection.request("GET", path)
    else:
        body = question if isinstance(question, bytes) else json.dumps(question).encode()
        headers = {"content-type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    is_json = answer.headers.get_content_type() == "application/json"
    return answer.status, json.loads(content) if is_json else content.decode()
