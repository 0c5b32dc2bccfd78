"""
Where packets go, and where they come from: the recorded addresses, and what they are exchanged for.

    recorded 10.77.0.1:48935 → 239.255.0.1:7447        map 10.77.0.0/16=127.77.0.0/16, port 7447=17447
    sent    127.77.0.1:48935 → 239.255.0.1:17447       a group stays unless a map names it

Everyone who sent gets a socket of its own, so that receivers can tell them apart. Who is mapped has the address and port
that the map says; anybody else's would be somebody else's, so these get any port of this machine.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from types import TracebackType
from typing import Any, Self

from pyddsi._endpoints import raw_endpoint
from pyddsi._native import ffi, lib
from pyddsi._values import whole
from pyddsi.capture import Endpoint
from pyddsi.errors import ReplayError

__all__ = ["Route", "Sockets"]

Network = IPv4Network | IPv6Network
PORTS = 65_535
SEND_BYTES = 1 << 20
SIOCGIFADDR = 0x8915


def _network(text: str, what: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(
            f"{what}: {error}; a network is such as 10.0.0.0/8, or a single address"
        ) from None


class Route:
    """
    The exchange of addresses.

    to: everything goes there, groups included: ("127.0.0.1", 7447)
    maps: networks, each with the one that takes its place, for who sends as for who receives: {"10.0.0.0/8": "127.0.0.0/8"}
    ports: ports, each with the one that takes its place
    interface: by which groups are reached: a name (eth0), or its IPv4 address
    """

    def __init__(
        self,
        *,
        to: tuple[str, int] | None = None,
        maps: Mapping[str, str] | None = None,
        ports: Mapping[int, int] | None = None,
        interface: str = "",
    ) -> None:
        self.to = None
        if to is not None:
            self.to = Endpoint(str(ip_address(to[0])), whole("the port of to", to[1], 1, PORTS))
        self.maps = [_pair(old, new) for old, new in (maps or {}).items()]
        self.ports = {
            whole("a port", old, 1, PORTS): whole("a port", new, 1, PORTS)
            for old, new in (ports or {}).items()
        }
        self.interface = interface

    def source(self, recorded: Endpoint) -> Endpoint | None:
        """Who is to send instead; None: anybody."""
        address = self._address(recorded.address)
        return None if address is None else Endpoint(address, self._port(recorded.port))

    def target(self, recorded: Endpoint) -> Endpoint:
        """Where it goes instead."""
        if self.to is not None:
            return self.to
        address = self._address(recorded.address)
        return Endpoint(address or recorded.address, self._port(recorded.port))

    def _port(self, port: int) -> int:
        return self.ports.get(port, port)

    def _address(self, text: str) -> str | None:
        """What takes the place of an address; None: no map names it."""
        address = ip_address(text)
        for old, new in self.maps:
            if address.version == old.version and address in old:
                host = int(address) & int(old.hostmask) if new.prefixlen < new.max_prefixlen else 0
                return str(new.network_address + host)
        return None


def _pair(old: str, new: str) -> tuple[Network, Network]:
    one, two = _network(old, f"map {old}={new}"), _network(new, f"map {old}={new}")
    single = two.prefixlen == two.max_prefixlen
    room = two.max_prefixlen - two.prefixlen
    if not single and one.max_prefixlen - one.prefixlen > room:
        raise ValueError(
            f"map {old}={new}: {new} has no room for all addresses of {old}; give a network as large, or one address"
        )
    return one, two


class Sockets:
    """The sockets of a replay, and its ways: from one of them to an address."""

    def __init__(self, route: Route, replay: Any) -> None:
        self._route = route
        self._replay = replay
        self._stack = ExitStack()
        self._ways: dict[tuple[Endpoint, Endpoint], int] = {}
        self._numbers: dict[tuple[Endpoint, int], tuple[int, socket.socket]] = {}
        self.senders: dict[str, str] = {}
        """Who sends, by who was recorded."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def way(self, source: Endpoint, target: Endpoint) -> int:
        """The number of the way that a packet takes."""
        known = self._ways.get((source, target))
        return known if known is not None else self._find(source, target)

    def _find(self, source: Endpoint, target: Endpoint) -> int:
        to = self._route.target(target)
        family = ip_address(to.address).version
        number, from_ = self._socket(source, family)
        self._try(from_, family, to)
        raw = ffi.new("pyddsi_endpoint *", raw_endpoint("to", (to.address, to.port)))
        found = int(lib.pyddsi_replay_way(self._replay, number, raw))
        if found < 0:
            raise ReplayError(
                f"the capture has more than {lib.PYDDSI_REPLAY_WAYS_MAX} pairs of senders and receivers; "
                "replay less of it"
            )
        self._ways[source, target] = found
        return found

    def _socket(self, recorded: Endpoint, family: int) -> tuple[int, socket.socket]:
        if (recorded, family) in self._numbers:
            return self._numbers[recorded, family]
        wanted = self._route.source(recorded)
        made = self._open(recorded, wanted, family)
        self._stack.callback(made.close)
        scope = self._index() if family == 6 else 0
        number = int(lib.pyddsi_replay_socket(self._replay, made.fileno(), family, scope))
        if number < 0:
            raise ReplayError(
                f"the capture has more than {lib.PYDDSI_REPLAY_SOCKETS_MAX} senders, and each takes a socket; "
                "replay less of it"
            )
        self.senders[str(recorded)] = str(Endpoint(*made.getsockname()[:2]))
        self._numbers[recorded, family] = number, made
        return number, made

    def _open(self, recorded: Endpoint, wanted: Endpoint | None, family: int) -> socket.socket:
        if wanted is not None and ip_address(wanted.address).version != family:
            raise ReplayError(
                f"{recorded} would send from {wanted.address} to an address of the other family; "
                "map both to the same"
            )
        try:
            made = socket.socket(
                socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_DGRAM
            )
        except OSError as error:
            raise ReplayError(
                f"no socket for {recorded}: {error.strerror}; `ulimit -n` says how many there may be"
            ) from error
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
            self._steer(made, family)
            anybody = Endpoint("0.0.0.0" if family == 4 else "::", 0)  # noqa: S104 - it only sends
            made.bind(self._plain(wanted or anybody, family))
        except (OSError, ReplayError) as error:
            made.close()
            if isinstance(error, ReplayError):
                raise
            raise ReplayError(_no_bind(recorded, wanted, error)) from error
        return made

    def _steer(self, made: socket.socket, family: int) -> None:
        """Make it send to groups by the interface."""
        name = self._route.interface
        if not name:
            return
        if family == 6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, self._index())
            return
        try:
            own, index = ip_address(name).packed, 0
        except ValueError:
            own, index = bytes(4), self._index()
            with suppress(
                OSError
            ):  # without an address of its own it takes what the system chooses
                asked = struct.pack("256s", name.encode()[:15])
                own = fcntl.ioctl(made.fileno(), SIOCGIFADDR, asked)[20:24]
        raw = struct.pack("=4s4si", bytes(4), own, index)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, raw)

    def _index(self) -> int:
        name = self._route.interface
        if not name:
            return 0
        try:
            return socket.if_nametoindex(name)
        except OSError:
            there = ", ".join(one for _, one in socket.if_nameindex())
            raise ReplayError(f"there is no interface {name!r}; there are {there}") from None

    def _try(self, sender: socket.socket, family: int, to: Endpoint) -> None:
        """Whether there is a way, said at once and not packet by packet."""
        with socket.socket(sender.family, socket.SOCK_DGRAM) as probe:
            try:
                self._steer(probe, family)
                probe.bind((sender.getsockname()[0], 0, *sender.getsockname()[2:]))
                probe.connect(self._plain(to, family))
            except OSError as error:
                raise ReplayError(_no_way(to, error)) from error

    def _plain(self, end: Endpoint, family: int) -> tuple[Any, ...]:
        """An address as sockets take it; one of a link alone is that of the interface."""
        near = family == 6 and (end.multicast or ip_address(end.address).is_link_local)
        return (end.address, end.port, 0, self._index()) if near else (end.address, end.port)


def _no_way(to: Endpoint, error: OSError) -> str:
    """Why nothing can be sent there."""
    mend = "map its network to one of this machine, or say where everything is to go"
    if to.multicast or ip_address(to.address).is_link_local:
        mend = "name the interface by which it is reached, such as lo"
    return f"there is no way to {to}: {error.strerror}; {mend}"


def _no_bind(recorded: Endpoint, wanted: Endpoint | None, error: OSError) -> str:
    """Why a sender has no socket."""
    if wanted is None:
        return f"{recorded} cannot send: {error.strerror}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{recorded} is to send from {wanted}, which is in use; "
            f"map its port to another, or its network to one that is free"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            f"{recorded} is to send from {wanted.address}, which is no address of this machine; "
            f"map it to one that is, such as one of 127.0.0.0/8"
        )
    return f"{recorded} cannot send from {wanted}: {error.strerror}"
