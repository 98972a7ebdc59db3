"""Checks the Host headers of requests, to prevent DNS rebinding attacks.

In a DNS rebinding attack, a browser on this machine opens a malicious web page, whose host name is
then resolved to 127.0.0.1. The browser therefore sends the page's requests to the server on this
machine, and the page can read the responses. The server can detect the attack, because the Host
header of these requests still contains the malicious page's host name.
"""

import re
from collections.abc import Collection
from ipaddress import IPv6Address, ip_address

_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d*)?")


class Hosts:
    """The host names that a server accepts in Host headers. A port in the header is ignored.

    Args:
        names: host names to accept in addition to localhost and loopback IP addresses.
    """

    def __init__(self, names: Collection[str] = ()):
        self._names = {"localhost", *map(_plain, names)}

    @classmethod
    def of(cls, address: str, allowed: Collection[str]) -> "Hosts | None":
        """Returns the host names that a server accepts, or None if the server accepts any name.

        Args:
            address: the IP address on which the server listens.
            allowed: additional host names to accept, or "*" to accept any host name. If `allowed`
                is empty and other machines can reach `address`, the server accepts any host name,
                because it does not know its own host names.
        """
        is_checked = "*" not in allowed and (allowed or _is_loopback(address))
        return cls(allowed) if is_checked else None

    def serve(self, header: bytes) -> bool:
        """Returns whether the server accepts a request with the given Host header."""
        found = _HOST.fullmatch(header.decode("latin-1"))
        name = _plain(found[1]) if found else ""
        return name in self._names or _is_loopback(name)


def _plain(name: str) -> str:
    return name.strip("[]").removesuffix(".").lower()


def _is_loopback(address: str) -> bool:
    """Returns whether `address` is a loopback IP address."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return ip.is_loopback
