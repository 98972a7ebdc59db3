"""A translator without torch, which a child process loads quickly."""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nmt.decoding.translation import Translation
from nmt.errors import ArgumentError, NoModelError


class Far:
    """Translates to upper case; special words raise errors, hang or kill the process."""

    config, tokenizer, max_part, sha256 = SimpleNamespace(), SimpleNamespace(), 7, ""
    is_exported = True

    def n_best(self, texts, options=None, *, prefix="", progress=None) -> Any:
        for text in texts:
            if text == "wrong":
                raise ArgumentError("too long, {prefix}, shorten it")
            if text == "huge":
                try:
                    raise MemoryError
                except MemoryError:
                    raise ArgumentError("out of memory") from None
            if text == "poison":
                raise RuntimeError("quotes the text: poison")
            if text == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            while text == "for ever":
                progress(1)
        return [[Translation(text.upper(), -1.0, -1.0, [5, 2], 1)] for text in texts]


def far() -> Far:
    return Far()


def not_needed() -> None:
    return None


def none_there() -> Far:
    raise NoModelError("no such model, m, name another")


def broken() -> Far:
    raise ZeroDivisionError("quotes something")


def told_of(translator: Any, path: Path, *more: Any) -> Any:
    path.write_text(type(translator).__name__)
    return os.getpid(), more


def pid(translator: Any) -> int:
    return os.getpid()


def busy(translator: Any) -> None:
    while True:
        time.sleep(1)


def greedy(translator: Any) -> None:
    raise MemoryError


class Threaded(Far):
    """A translator that computes with torch."""

    is_exported = False
