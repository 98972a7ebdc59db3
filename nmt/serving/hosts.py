"""Checks the host names to which requests are addressed.

The owner of a web page can let the page's host name resolve to 127.0.0.1 (DNS rebinding). The
browser then sends the page's requests to a server on this machine, and the page can read the
answers. The Host header of such requests still contains the page's host name.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d*)?")


class Hosts:
    """The host names that are accepted in the Host header, which may also contain a port.

    Args:
        names: names to accept in addition to localhost, 127.0.0.0/8 and [::1].
    """

    def __init__(self, names: Collection[str] = ()):
        self._names = {"localhost", *map(_plain, names)}
        self.serve = lru_cache(maxsize=64)(self._serve)  # clients send few distinct headers

    @classmethod
    def of(cls, address: str, allowed: Collection[str]) -> "Hosts | None":
        """Returns the names that a server on an IP address accepts, or None if it accepts any name.

        Args:
            allowed: further host names to accept; "*" accepts any name. If `allowed` is empty, a
                server that other machines can reach accepts any name, because it does not know its
                own names.
        """
        is_checked = "*" not in allowed and (allowed or _is_loopback(address))
        return cls(allowed) if is_checked else None

    def _serve(self, header: bytes) -> bool:
        found = _HOST.fullmatch(header.decode("latin-1"))
        name = _plain(found[1]) if found else ""
        return name in self._names or _is_loopback(name)


def _plain(name: str) -> str:
    return name.strip("[]").removesuffix(".").lower()


def _is_loopback(address: str) -> bool:
    """Returns whether this is a loopback IP address."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return ip.is_loopback
