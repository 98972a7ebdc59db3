"""R25: hostile requests over raw sockets are refused, others are answered, memory is stable."""

import contextlib
import gzip
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.patience import PATIENCE_S
from tests.serving.served import Shouting, ask, served

POST = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
GOOD = json.dumps({"q": "a", "source": "en", "target": "de"}).encode()


@pytest.fixture(scope="module")
def port():
    with served(Shouting(), arrival_s=0.5) as port:
        yield port


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        yield client


def answer(client: socket.socket) -> tuple[int, dict]:
    """Reads an answer until the server closes the connection; (0, {}) without an answer."""
    data = b""
    try:
        while chunk := client.recv(65536):
            data += chunk
    except ConnectionResetError:
        pass
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head[9:12]), json.loads(body)) if head else (0, {})


def send_for_ever(client: socket.socket, chunk: bytes, limit: int) -> int:
    """Sends up to about `limit` bytes; returns how many until the server closed the connection."""
    sent = 0
    try:
        while sent < limit:
            client.sendall(chunk)
            sent += len(chunk)
    except OSError:
        pass
    return sent


def test_r25_a_gigabyte_is_refused_before_it_comes(port: int):
    with connected(port) as client:
        client.sendall(POST + b"Connection: close\r\nContent-Length: 1000000000\r\n\r\n")
        status, said = answer(client)
    assert status == 413 and "1,000,000 bytes" in said["error"]


@pytest.mark.parametrize("together", [True, False])
def test_a_client_that_offers_http_2_is_answered_in_http_1(port: int, together: bool):
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    head = POST + offer + b"Content-Length: %d\r\n\r\n" % len(GOOD)
    with connected(port) as client:
        for part in [head + GOOD] if together else [head, GOOD]:
            client.sendall(part)
            time.sleep(0.1)
        head, _, body = client.recv(65536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert json.loads(body) == {"translatedText": "A"}


def test_r25_chunks_are_counted(port: int):
    with connected(port) as client:
        client.sendall(POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):  # if data is sent after the refusal
            for _ in range(20):
                client.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")
            client.sendall(b"0\r\n\r\n")
        assert answer(client)[0] in (0, 413)  # 0 if the refusal came while sending
    assert ask(port, "/translate", b" " * 1_000_001)[0] == 413


def test_r25_memory_stays(port: int):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # peak, in KB
    with connected(port) as client:
        client.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
        assert send_for_ever(client, chunk, 200_000_000) < 50_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert ask(port, "/health")[0] == 200


def test_r25_a_head_without_end_is_refused(port: int):
    with connected(port) as client:
        send_for_ever(client, b"X-Header: value\r\n" * 100, 10_000_000)
        assert answer(client)[0] in (0, 400)  # 0 if the server reset the connection
    with connected(port) as client:
        client.sendall(POST + b"Connection: close\r\n" + b"X: y\r\n" * 5_000 + b"\r\n")
        assert answer(client)[0] in (0, 400)
    assert ask(port, "/health")[0] == 200


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # TLS
        (POST + b"Content-Length: -5\r\n\r\n", 400),
        (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (POST + b"Content-Length: 1" + b"0" * 5000 + b"\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (POST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
    ],
)
def test_r25_what_is_no_http_is_refused_in_json(port: int, request_line: bytes, status: int):
    with connected(port) as client:
        client.sendall(request_line)
        found, said = answer(client)
    assert found in (400, status) and said.keys() == {"error"}


def test_r25_slow_requests_end_while_others_are_answered(port: int):
    """Covers headers and bodies sent byte by byte, and connections without any data."""
    head = POST + b"Content-Length: 1000\r\n\r\n"
    beginnings = [POST + b"X: ", head, b""] * 15
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in beginnings]
    said: list[bytes] = []
    for client, data in zip(clients, beginnings, strict=True):
        client.sendall(data)
        client.settimeout(0)
    deadline = time.monotonic() + PATIENCE_S
    while clients and time.monotonic() < deadline:
        assert ask(port, "/health")[0] == 200
        for client in list(clients):
            try:
                if data := client.recv(1000):
                    said.append(data)
                    continue
            except BlockingIOError:
                with contextlib.suppress(OSError):
                    client.send(b"y")
                continue
            except OSError:
                pass
            clients.remove(client)
            client.close()
        time.sleep(0.02)
    assert not clients
    assert said and all(b" 408 " in each or b" 400 " in each for each in said)


def test_r25_two_hundred_at_once_are_all_answered(port: int):
    found: list[int] = []

    def client() -> None:
        found.append(ask(port, "/translate", GOOD)[0])

    threads = [threading.Thread(target=client) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 200


def test_r25_compressed_bodies_and_too_many_items_are_refused(port: int):
    bomb = gzip.compress(b" " * 50_000_000)
    assert ask(port, "/translate", bomb, content_encoding="gzip")[0] == 400
    many = b'{"q":[' + b'"",' * 300_000 + b'""],"source":"en","target":"de"}'
    assert ask(port, "/translate", many)[0] == 400
    deep = b'{"q":' + b"[" * 400_000
    assert ask(port, "/translate", deep)[0] == 400
    assert ask(port, "/translate", b'{"q":"\xff","source":"en","target":"de"}')[0] == 400


def test_r25_one_connection_too_many_is_closed():
    with served(Shouting(), connections=5) as port:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        try:
            deadline = time.monotonic() + PATIENCE_S
            with pytest.raises(ConnectionError):
                while time.monotonic() < deadline:
                    ask(port, "/health")
        finally:
            for client in clients:
                client.close()


def test_r25_an_answer_that_nobody_reads_is_given_up(port: int):
    """The client sends requests and never reads."""
    with socket.socket() as client:
        client.settimeout(PATIENCE_S)
        # set before connecting: if the buffer shrinks later, the kernel drops the server's reset
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.connect(("127.0.0.1", port))
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n" * 100
        assert send_for_ever(client, asked, 50_000_000) < 50_000_000
    assert ask(port, "/health")[0] == 200


@pytest.mark.parametrize(
    "parts",
    [
        (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n", b"\r\n"),  # bytes outside any request
        (b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n", b"1"),  # after the 404
    ],
)
def test_r25_a_client_that_has_its_answer_and_sends_no_more_is_let_go(port: int, parts: tuple):
    request, rest = parts
    with connected(port) as client:
        client.sendall(request)
        assert client.recv(65536)
        client.sendall(rest)
        with contextlib.suppress(ConnectionError):
            assert not client.recv(65536)  # blocks if it stays open


@pytest.mark.parametrize(
    ("request_line_and_hosts", "status"),
    [
        (b"GET /health HTTP/1.1\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: a\r\n", 400),
        (b"GET /health HTTP/1.0\r\n", 200),
    ],
)
def test_r25_a_request_needs_one_host(port: int, request_line_and_hosts: bytes, status: int):
    """RFC 9112, section 3.2; HTTP/1.0 has no Host header."""
    with connected(port) as client:
        client.sendall(request_line_and_hosts + b"Connection: close\r\n\r\n")
        got, said = answer(client)
    assert got == status and ("error" in said) == (status == 400)


def test_r25_what_comes_after_a_body_is_no_header(port: int):
    chunks = b"%x\r\n%b\r\n0\r\nHost: a\r\n\r\n" % (len(GOOD), GOOD)
    with connected(port) as client:
        client.sendall(POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)
        assert answer(client) == (200, {"translatedText": "A"})
