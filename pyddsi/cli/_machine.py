"""What `pyddsi doctor` asks about this machine, and what it finds."""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pyddsi

__all__ = ["Finding", "Interface", "Machine"]

UP, LOOPBACK, MULTICAST = 0x1, 0x8, 0x1000  # flags of an interface
SIOCGIFADDR = 0x8915
HEARD_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the report. `mend` are commands or settings that mend it."""

    name: str
    level: str
    text: str
    mend: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface."""

    name: str
    address: str | None
    up: bool
    loopback: bool
    multicast: bool
    mtu: int


class Machine:
    """What is asked about this machine. `root` is where its files are."""

    def __init__(self, config: pyddsi.Config, root: Path = Path("/")) -> None:
        self.config = config
        self.root = root
        host, _, port = config.group.rpartition(":")
        self.group = (host.strip("[]"), int(port)) if host else None

    def read(self, path: str) -> str:
        """A file's text, or none."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        """A file's number, if it has one."""
        text = self.read(path)
        return int(text, 0) if text.removeprefix("0x").isalnum() and text[:1].isdigit() else None

    def granted(self, option: int, wanted: int) -> int:
        """How large a socket's buffer becomes that is to be so large; at most that."""
        with self._socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, option, wanted)
            return min(wanted, probe.getsockopt(socket.SOL_SOCKET, option) // 2)

    def interfaces(self) -> list[Interface]:
        """All of them."""
        return [self._interface(name) for _, name in socket.if_nameindex()]

    def _interface(self, name: str) -> Interface:
        place = f"sys/class/net/{name}"
        flags = self.number(f"{place}/flags") or 0
        address = None
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            found = fcntl.ioctl(
                probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15])
            )
            address = socket.inet_ntoa(found[20:24])
        return Interface(
            name,
            address,
            bool(flags & UP),
            bool(flags & LOOPBACK),
            bool(flags & MULTICAST),
            self.number(f"{place}/mtu") or 0,
        )

    def own_address(self) -> str:
        """By which of our addresses packets to the group leave first, as a session finds it. OSError if there is no way."""
        assert self.group is not None  # noqa: S101 - who asks has looked
        with self._socket() as probe:
            self._choose(probe)
            probe.connect(self.group)
            return str(probe.getsockname()[0])

    def ways(self) -> list[Interface]:
        """The interfaces that can carry a group to other machines."""
        return [
            one
            for one in self.interfaces()
            if one.up and one.multicast and not one.loopback and one.address
        ]

    def candidate(self) -> str:
        """The interface that a remedy is about: one that could carry a group, if there is one."""
        able = self.ways() or [one for one in self.interfaces() if not one.loopback]
        return able[0].name if able else "eth0"

    def _family(self) -> socket.AddressFamily:
        six = self.group is not None and ip_address(self.group[0]).version == 6
        return socket.AF_INET6 if six else socket.AF_INET

    def _socket(self) -> socket.socket:
        return socket.socket(self._family(), socket.SOCK_DGRAM)

    def _index(self) -> int:
        name = self.config.interface
        for one in self.interfaces():
            if name and name in {one.name, one.address}:
                return socket.if_nametoindex(one.name)
        return 0 if name or self._routed() else self._first()

    def _routed(self) -> bool:
        """Whether a route leads to the group."""
        with self._socket() as probe, suppress(OSError):
            probe.connect(self.group)  # type: ignore[arg-type]  # who asks has looked
            return True
        return False

    def _first(self) -> int:
        """Without one: the first interface that can send to a group, else loopback."""
        able = self.ways() or [one for one in self.interfaces() if one.loopback and one.up]
        return socket.if_nametoindex(able[0].name) if able else 0

    def _choose(self, probe: socket.socket) -> None:
        index = self._index()
        if index and self._family() == socket.AF_INET:
            raw = struct.pack("=4s4si", bytes(4), bytes(4), index)
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, raw)
        elif index:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)

    def hears_itself(self) -> bool:
        """Whether a packet to the group, at another port, comes back. OSError if it cannot be sent."""
        assert self.group is not None  # noqa: S101 - as above
        host = self.group[0]
        packed = socket.inet_pton(self._family(), host)
        with self._socket() as ear, self._socket() as mouth:
            ear.bind(("", 0))
            if self._family() == socket.AF_INET:
                raw = struct.pack("=4s4si", packed, bytes(4), self._index())
                ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, raw)
            else:
                raw = struct.pack("=16si", packed, self._index())
                ear.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, raw)
            self._choose(mouth)
            ear.settimeout(HEARD_SECONDS)
            mouth.sendto(b"pyddsi doctor", (host, ear.getsockname()[1]))
            with suppress(TimeoutError):
                return ear.recv(64) == b"pyddsi doctor"
        return False
