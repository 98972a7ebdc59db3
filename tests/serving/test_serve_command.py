"""`nmt serve` in a process of its own reports its address, serves, and stops cleanly."""

import builtins
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nmt.cli import main
from nmt.errors import Stopped
from nmt.serving.limits import Limits
from nmt.serving.model_process import EndedError
from nmt.serving.server import run_serve
from nmt.translator import Translator
from tests.fixtures.make import TRAINED
from tests.patience import PATIENCE_S, wait_until
from tests.serving.served import Here, Shouting, ask

RUN = TRAINED / "run"


def started(*words: str) -> tuple[subprocess.Popen, int]:
    """Starts a server and waits until it is ready; returns the process and the port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nmt", "serve", str(RUN), "--port", "0", "--device", "cpu", *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    port = 0
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
            port = int(found[1])
        if line == "nmt: ready\n":
            assert port
            return process, port
    raise AssertionError(f"status {process.wait()}")


def test_requests_in_hand_are_finished_when_it_is_told_to_stop():
    process, port = started()
    texts = [f"The dog sees {number} cats." for number in range(80)]
    answers: list = []
    client = threading.Thread(
        target=lambda: answers.append(ask(port, "/api/translate", {"texts": texts}))
    )
    client.start()
    wait_until(lambda: "nmt_texts_total 0.0" not in ask(port, "/metrics")[1])
    process.send_signal(signal.SIGTERM)
    client.join()
    [(status, answer)] = answers
    _, told = process.communicate()
    assert (status, process.returncode) == (200, 143)
    assert told == "nmt: Stopped after answering all requests.\n"  # contains no client's text
    translator = Translator.load(RUN, device="cpu", precision="fp32")
    found = [each["text"] for each in answer["translations"][:5]]
    assert found == [each.text for each in translator.translate(texts[:5])]


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionError:
        return False
    return True


def test_a_second_signal_ends_it_at_once():
    process, port = started()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(
            b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
            b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n"
        )
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")  # waits for the body
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: not is_listening(port))
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate()
    assert (process.returncode, told) == (143, "")


def refusal(capsys, *words: str) -> tuple[int, str]:
    status = main(["serve", *words])
    *_, last = capsys.readouterr().err.splitlines()
    return status, last


def test_what_cannot_be_served_is_one_line(capsys, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        status, line = refusal(capsys, str(RUN), "--port", port)
        assert status == 2
        where = f"--host 127.0.0.1 --port {port}"
        assert "Address already in use" in line and where in line
    status, line = refusal(capsys, str(RUN), "--host", "300.1.1.1", "--port", "0")
    assert status == 2 and "--host 300.1.1.1" in line
    status, line = refusal(capsys, str(RUN), "--port", "65536")
    assert status == 2 and "0 to 65535" in line
    for path, expected, reason in (
        (tmp_path / "nothing", 2, "There is no model directory"),
        (tmp_path, 3, f"{tmp_path} is not a model, checkpoint or run"),
    ):
        assert main(["serve", str(path), "--port", "0"]) == expected
        [line] = capsys.readouterr().err.splitlines()  # does not say that it loads a model
        assert line.startswith(f"nmt: error: {reason}")


def test_a_missing_extra_is_named(capsys, monkeypatch):
    original = builtins.__import__

    def without(name, *others):
        if name.startswith("nmt.serving.server"):
            raise ModuleNotFoundError(name="uvicorn")
        return original(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    status, line = refusal(capsys, str(RUN))
    assert status == 2
    assert "uvicorn is not installed" in line and line.endswith("pip install 'nmt[serve]'")


def test_one_that_is_stopped_while_it_loads_is_never_ready(monkeypatch):
    notes: list[str] = []
    ended = threading.Event()

    def start(_: Here):
        os.kill(os.getpid(), signal.SIGTERM)
        assert ended.wait(PATIENCE_S)
        raise EndedError

    monkeypatch.setattr("nmt.serving.server.ModelProcess", Here)
    monkeypatch.setattr(Here, "start", start)
    monkeypatch.setattr(Here, "end", lambda _: ended.set())
    with pytest.raises(Stopped):
        run_serve([dict], host="localhost", port=0, limits=Limits(), note=notes.append)
    assert [note for note in notes if "ready" in note] == []


def test_requests_that_the_end_cuts_off_are_told_so(monkeypatch):
    translator, notes, answers = Shouting(), [], []
    translator.free.clear()

    def note(text: str) -> None:
        notes.append(text)
        if text == "nmt: ready":
            for thread in threads:
                thread.start()

    def client() -> None:
        port = int(re.search(r":(\d+)\. Loading", notes[0])[1])  # type: ignore[index]
        answers.append(ask(port, "/api/translate", {"text": "a"}))

    def stop() -> None:
        wait_until(lambda: translator.batches)
        os.kill(os.getpid(), signal.SIGINT)

    threads = [threading.Thread(target=work) for work in (client, stop)]
    monkeypatch.setattr("nmt.serving.server.ModelProcess", Here)
    with pytest.raises(Stopped, match="1 request got no response") as stopped:
        run_serve([translator], host="127.0.0.1", port=0, limits=Limits(shutdown_s=1), note=note)
    for thread in threads:
        thread.join()
    assert stopped.value.status == 130
    assert answers == [(503, {"error": "The server is stopping."})]
