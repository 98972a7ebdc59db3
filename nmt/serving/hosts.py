"""The names under which a server answers.

A page from anywhere may have its own name point to 127.0.0.1 (DNS rebinding). To the browser a
server on this machine is then that page's own, whose answers it may read: but the request's Host
header still has the page's name.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d*)?")


class Hosts:
    """Which values of the Host header are served, with any port or none.

    Args:
        names: besides those of this machine itself: localhost, 127.0.0.0/8 and [::1].
    """

    def __init__(self, names: Collection[str] = ()):
        self._names = {"localhost", *map(_plain, names)}
        self.serve = lru_cache(maxsize=64)(self._serve)  # clients send few different ones

    @classmethod
    def of(cls, address: str, allowed: Collection[str]) -> "Hosts | None":
        """Those of a server that listens on an IP address; None: all.

        Args:
            allowed: names given by whoever starts it; "*": any. If there are none, a server that
                other machines can reach has any: they know it by names that we do not.
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
    """Whether this is an IP address, and one of the machine for itself."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return ip.is_loopback
