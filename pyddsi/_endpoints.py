"""
Where peers are that are reached by connections: endpoints that say so as texts, as settings have them.

    10.0.0.9:7447           UDP (pyddsi.capture.Endpoint)
    tcp/10.0.0.9:7447       TCP
    unix//run/robot.sock    a Unix socket; of one who has connected to us with the number of its process behind
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from pyddsi.capture import Endpoint

__all__ = ["TcpEndpoint", "UnixEndpoint", "raw_endpoint", "unix_endpoint"]

UNIX = 20


class TcpEndpoint(Endpoint):
    """The other end of a TCP connection."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"tcp/{super().__str__()}"


class UnixEndpoint(Endpoint):
    """The other end of a Unix socket. address: the path; port: the process that has connected to us, else 0."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"unix/{self.address}" + (f" (process {self.port})" if self.port else "")

    @property
    def multicast(self) -> bool:
        """It never is."""
        return False


def unix_endpoint(ip: bytes, port: int, paths: tuple[str, ...]) -> UnixEndpoint:
    """An endpoint of the core with the kind 20; the session's paths are numbered."""
    path = paths[port] if port < len(paths) else f"@{port}"
    return UnixEndpoint(path, int.from_bytes(ip[:4], "big"))


def raw_endpoint(what: str, address: tuple[str, int]) -> dict[str, Any]:
    """An address as the core writes it."""
    wrong = (
        f"{what} is a pair of an IP address and a port, such as ('10.0.0.9', 7447), not {address!r}"
    )
    try:
        host, port = address
        packed = ip_address(host).packed
    except (TypeError, ValueError):
        raise ValueError(wrong) from None
    if type(port) is not int or not 0 < port < 65536:
        raise ValueError(wrong)
    return {"ip": packed.ljust(16, b"\0"), "port": port, "kind": 4 if len(packed) == 4 else 6}
