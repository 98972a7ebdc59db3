"""The Host header: a foreign page whose host name resolves to this machine cannot read answers."""

import re
from http.client import HTTPConnection

import pytest

from nmt.cli import main
from nmt.errors import InputError
from nmt.serving.hosts import Hosts
from nmt.serving.limits import Limits
from nmt.serving.server import run_serve
from tests.patience import PATIENCE_S
from tests.serving.served import Here

OWN = ["localhost", "LocalHost:8000", "localhost.:1", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000"]
OTHERS = [
    "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
    "10.0.0.1", "[2001:db8::1]:80", "", ":8000", "::1", "localhost:80:80", "localhost@evil", "\xe9",
]  # fmt: skip


def served(hosts: Hosts, names: list[str]) -> set[str]:
    return {name for name in names if hosts.serve(name.encode("latin-1"))}


def test_names_of_this_machine_and_those_allowed_are_served():
    assert served(Hosts(), OWN + OTHERS) == set(OWN)
    allowed = Hosts(["Evil.example", "[2001:DB8::1]"])
    more = {"evil.example", "evil.example:8000", "[2001:db8::1]:80"}
    assert served(allowed, OWN + OTHERS) == {*OWN, *more}


@pytest.mark.parametrize(
    ("address", "allowed", "found"),
    [
        ("127.0.0.1", [], {"localhost"}),
        ("::1", [], {"localhost"}),
        ("::ffff:127.0.0.1", [], {"localhost"}),
        ("127.0.0.1", ["a.b"], {"localhost", "a.b"}),
        ("127.0.0.1", ["a.b", "*"], None),
        ("0.0.0.0", [], None),
        ("::", [], None),
        ("192.168.1.5", [], None),
        ("0.0.0.0", ["a.b"], {"localhost", "a.b"}),
    ],
)
def test_what_is_checked_depends_on_the_address(address: str, allowed: list, found: set | None):
    hosts = Hosts.of(address, allowed)
    assert (hosts and served(hosts, ["localhost", "a.b", "evil.example"])) == found


def answer(port: int, host: str, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path, headers={"Host": host})
    found = connection.getresponse()
    status, content = found.status, found.read().decode()
    connection.close()
    return status, content


def test_a_server_on_this_machine_alone_is_asked_by_no_page_from_elsewhere(monkeypatch):
    """Needs no model, because probes and the page are answered during loading."""
    notes: list[str] = []
    found: dict[tuple[str, str], tuple[int, str]] = {}

    def start(_: Here):
        port = int(re.search(r":(\d+)\. Loading", notes[0])[1])  # type: ignore[index]
        for host in ("evil.example", f"localhost:{port}", "a.b"):
            for path in ("/", "/health"):
                found[host[:4], path] = answer(port, host, path)
        raise InputError("no model")

    monkeypatch.setattr("nmt.serving.server.ModelProcess", Here)
    monkeypatch.setattr(Here, "start", start)
    limits = Limits()
    with pytest.raises(InputError, match="no model"):
        run_serve(
            [dict], host="localhost", port=0, limits=limits, note=notes.append, allow_host=["a.b"]
        )
    assert {place: status for place, (status, _) in found.items()} == {
        ("evil", "/"): 421, ("evil", "/health"): 421,
        ("loca", "/"): 200, ("loca", "/health"): 200,
        ("a.b", "/"): 200, ("a.b", "/health"): 200,
    }  # fmt: skip
    message = "This Host header is not accepted. The server's operator can allow it."
    assert found["evil", "/"][1] == f'{{"error":"{message}"}}'


@pytest.mark.parametrize("name", ["http://a.b", "a.b:80", "", "*.a.b", "a b"])
def test_what_is_no_name_is_refused(name: str, capsys):
    assert main(["serve", "M", "--allow-host", name]) == 2
    assert "--allow-host: must be * or a host name" in capsys.readouterr().err
