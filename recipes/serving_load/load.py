"""Compares the speed of `nmt serve` with many concurrent clients to the speed of `nmt translate`.

    python recipes/serving_load/load.py runs/demo --input test.en

The two commands run alternately, twice each, in separate processes. Each client uses one
connection, on which it sends a sentence, waits for the response, and then sends the next sentence.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from nmt.cli.flags import add_model, positive
from nmt.cli.terminal import print_result, run_script, say
from nmt.data.kept_test_set import SOURCE
from nmt.errors import InputError
from nmt.storage.opening import read_lines

_ROUNDS = 2
_SETTLE_S = 3.0  # seconds of warm-up, to connect and to reach a stable batch size
_AT_LEAST_S = 10.0  # minimum difference between the two times of `nmt translate`, in seconds


@dataclass
class Load:
    """The responses that the clients received."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)  # number of timed responses by status
    latencies: list[float] = field(default_factory=list)  # seconds

    @property
    def per_second(self) -> float:
        return self.statuses[200] / self.seconds

    def percentile(self, share: float) -> float:
        """Returns the latency that the given share of the responses does not exceed."""
        return sorted(self.latencies)[
            min(int(share * len(self.latencies)), len(self.latencies) - 1)
        ]


class _Client(asyncio.Protocol):
    """A client that sends the next request as soon as the previous request is answered."""

    def __init__(self, requests: Iterator[bytes], load: Load, until: float):
        self.requests, self.load, self.until = requests, load, until
        self.done = asyncio.get_running_loop().create_future()
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.began = time.perf_counter()
        self.transport.write(next(self.requests))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.rest += data
        head, found, body = self.rest.partition(b"\r\n\r\n")
        if not found or len(body) < int(re.search(rb"(?i)content-length: *(\d+)", head)[1]):  # type: ignore[index]
            return
        now, self.rest = time.perf_counter(), b""
        if now < self.until:
            self.load.statuses[int(head[9:12])] += 1
            self.load.latencies.append(now - self.began)
            self.send()
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if time.perf_counter() < self.until:
            self.load.statuses[0] += 1
        self.done.set_result(None)


async def load(port: int, sentences: Sequence[str], clients: int, seconds: float) -> Load:
    """Runs clients for `seconds`, and returns their load; lost connections count as status 0."""
    found, loop = Load(seconds), asyncio.get_running_loop()
    requests = cycle([_request(sentence) for sentence in sentences])
    until = time.perf_counter() + seconds
    made = [
        await loop.create_connection(lambda: _Client(requests, found, until), "127.0.0.1", port)
        for _ in range(clients)
    ]
    await asyncio.gather(*(client.done for _, client in made))
    return found


def _request(sentence: str) -> bytes:
    body = json.dumps({"text": sentence}).encode()
    head = "POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@contextmanager
def server(model: Path) -> Iterator[int]:
    """Starts `nmt serve` and yields its port when it is ready."""
    command = [sys.executable, "-m", "nmt", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        output, port = "", 0
        for line in process.stderr:
            output += line
            if found := re.search(r":(\d+)\. Loading the model", line):
                port = int(found[1])
            if line == "nmt: ready\n":
                break
        else:
            raise InputError(f"nmt serve {model} did not start: {output}")
        try:
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


def sentences_per_second(model: Path, sentences: Sequence[str]) -> float:
    """Returns the rate of `nmt translate`, without start-up, in sentences per second."""
    number = len(sentences)
    while True:
        once, thrice = (_translate_s(model, sentences, times * number) for times in (1, 3))
        if thrice - once >= _AT_LEAST_S:
            return 2 * number / (thrice - once)
        number *= 2 + int(_AT_LEAST_S / max(thrice - once, 1.0))


def _translate_s(model: Path, sentences: Sequence[str], number: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text")
        text.write_text("".join(f"{each}\n" for each in islice(cycle(sentences), number)))
        command = [sys.executable, "-m", "nmt", "translate", str(model), "--input", str(text)]
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - began


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_model(parser)
    parser.add_argument("--input", type=Path, metavar="F",
                        help="one sentence per line (default: the model's test set)")  # fmt: skip
    parser.add_argument("--clients", type=positive, default=200, metavar="N",
                        help="concurrent clients (default: 200)")  # fmt: skip
    parser.add_argument("--seconds", type=positive, default=30, metavar="N",
                        help="seconds of load per round, in two rounds (default: 30)")  # fmt: skip
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    arguments = _arguments(words)
    text = arguments.input or arguments.model / "test_set" / SOURCE
    sentences = [line for line in read_lines(text) if line.strip()]
    if not sentences:
        raise InputError(f"{text} has only blank lines. Specify a text with sentences.")
    rates, loads = [], []
    for number in range(1, _ROUNDS + 1):
        rates.append(sentences_per_second(arguments.model, sentences))
        say(f"Round {number}: nmt translate, {rates[-1]:.0f} sentences per second.")
        with server(arguments.model) as port:
            asyncio.run(load(port, sentences, arguments.clients, _SETTLE_S))
            found = asyncio.run(load(port, sentences, arguments.clients, arguments.seconds))
        loads.append(found)
        say(f"Round {number}: nmt serve, {found.per_second:.0f} sentences per second.")
    statuses = sum((each.statuses for each in loads), Counter[int]())
    served = statistics.mean(each.per_second for each in loads)
    rate = statistics.mean(rates)
    print_result(
        json.dumps(
            {
                "clients": arguments.clients,
                "seconds": arguments.seconds * _ROUNDS,
                "statuses": dict(sorted(statuses.items())),
                "served_per_second": round(served, 1),
                "translate_per_second": round(rate, 1),
                "share": round(served / rate, 3),
                "median_s": round(statistics.median(each.percentile(0.5) for each in loads), 3),
                "p99_s": round(max(each.percentile(0.99) for each in loads), 3),
                "cores": os.cpu_count(),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    run_script("load.py", main)
