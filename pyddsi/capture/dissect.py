"""From a record to the UDP datagram or TCP packet inside.

    link layer            network                                      transport
    Ethernet (2 tags) ┐   IPv4, options ┐                              ┌ UDP ─► Datagram
    cooked v1, v2     ├─► IPv6, headers ├─► fragments wait, bounded ──►┤
    null, loop, raw   ┘                 ┘                              └ TCP ─► TcpPacket

Whatever is something else, or too broken to tell, is counted in `skipped` by its reason and passed over: a capture is
full of strangers and none of them is an error.

Two ends matter everywhere. `end` is how far bytes were captured; `stop` is how far the IP header says the packet goes.
Behind `stop` lies padding, which is not payload; between `end` and `stop` lies what a snap length cut away. Lengths
inside are believed only within these: a UDP length that contradicts IP loses. Checksums are not looked at, for half of
all captures are taken where the network card has not written them yet.
"""

from __future__ import annotations

import ipaddress
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from pyddsi.capture.fragments import Fragments

if TYPE_CHECKING:
    from collections import Counter

    from pyddsi.capture.fragments import Key
    from pyddsi.capture.records import Record

FLOWS_MAX = 65536
"""Pairs of endpoints whose objects are kept for the next packet; when full, all are forgotten and made again."""
TAGS_MAX = 2
"""VLAN tags passed."""
EXTENSIONS_MAX = 8
"""IPv6 extension headers passed."""

_ETHERTYPE_AT = {
    1: (12, 14),
    113: (14, 16),
    276: (0, 20),
}  # link type: the ethertype's place, the header's size
_FAMILY_LINKS = (0, 108)  # null writes its host's byte order, loop the network's
_FAMILIES = (2, 10, 24, 28, 30)  # IPv4 everywhere; IPv6 of Linux, NetBSD, FreeBSD, Darwin
_RAW_LINKS = (101, 12, 14, 228, 229)
_TAGS = (0x8100, 0x88A8, 0x9100)
_IP = (0x0800, 0x86DD)
_TCP, _UDP = 6, 17
_LEAST = {_TCP: 20, _UDP: 8}  # header sizes
_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _OPTIONS, _MOBILITY = 0, 43, 44, 51, 60, 135
_EXTENSIONS = (_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _OPTIONS, _MOBILITY)
_MORE_V4, _OFFSET_V4 = 0x2000, 0x1FFF
_MORE_V6, _OFFSET_V6 = 0x0001, 0xFFF8

_short = Struct(">H").unpack_from
_ports = Struct(">HH").unpack_from
_ipv4 = Struct(">BxHHHxBxx8s").unpack_from
_ipv6 = Struct(">HBx32s").unpack_from
_ipv6_fragment = Struct(">HI").unpack_from
_tcp = Struct(">I4xBB").unpack_from
_new = tuple.__new__  # a named tuple's own constructor is a call of Python, for each packet


class Endpoint(NamedTuple):
    """An address and a port; as a string `10.0.0.1:7447` or `[fe80::1]:7447`."""

    address: str
    port: int

    def __str__(self) -> str:
        return (
            f"[{self.address}]:{self.port}"
            if ":" in self.address
            else f"{self.address}:{self.port}"
        )

    @property
    def multicast(self) -> bool:
        """Whether the address is a group's."""
        return ipaddress.ip_address(self.address).is_multicast


class Datagram(NamedTuple):
    """One UDP datagram. `number` is the frame's as Wireshark counts, of a fragmented one the frame that completed it."""

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint
    data: bytes
    cut: bool = False
    """The snap length cut it: `data` is its beginning."""


class TcpPacket(NamedTuple):
    """One TCP packet as captured; `size` is what its payload measured, of which `data` may be the beginning."""

    number: int
    time_ns: int | None
    source: Endpoint
    destination: Endpoint
    sequence: int
    flags: int
    data: bytes
    size: int


class OtherError(Exception):
    """The record holds no UDP or TCP that could be reached; the text is the reason to count it under."""


_Payload = tuple[int, bytes, bytes, int, int, int]
"""What IP carries: protocol, both addresses, and where it lies: block, at, end, stop."""


class Dissector:
    """Holds what must be remembered between packets: fragments, and the names of endpoints."""

    def __init__(self, skipped: Counter[str]) -> None:
        self._flows: dict[bytes, tuple[Endpoint, Endpoint]] = {}
        self._fragments = Fragments(skipped)

    def finish(self) -> None:
        """The capture ended: the fragments that wait will not be completed."""
        self._fragments.finish()

    def dissect(self, record: Record) -> Datagram | TcpPacket | None:
        """What the record holds, None for a fragment that waits; or raises OtherError."""
        number, time_ns, link, block, at, end = record
        at = _network_at(link, block, at, end)
        version = block[at] >> 4 if at < end else 0
        if version == 4:
            payload = self._ipv4(block, at, end, time_ns)
        elif version == 6:
            payload = self._ipv6(block, at, end, time_ns)
        else:
            raise OtherError("bad IP header" if at < end else "short packet")
        if payload is None:
            return None
        protocol, addresses, block, at, end, stop = payload
        if protocol not in _LEAST:
            raise OtherError(f"IP protocol {protocol}")
        end = min(end, stop)
        if end - at < _LEAST[protocol]:
            raise OtherError("short packet")
        flow = addresses + block[at : at + 4]
        source, destination = self._flows.get(flow) or self._learn(flow)
        if protocol == _UDP:
            size = _short(block, at + 4)[0]
            if 8 <= size <= stop - at:
                stop = at + size
            data = block[at + 8 : min(stop, end)]
            return _new(Datagram, (number, time_ns, source, destination, data, stop > end))
        sequence, offset, flags = _tcp(block, at + 4)
        at += (offset >> 4) * 4
        if offset < 0x50 or at > stop:
            raise OtherError("bad TCP header")
        data = block[at:end]
        return _new(
            TcpPacket, (number, time_ns, source, destination, sequence, flags, data, stop - at)
        )

    def _ipv4(self, block: bytes, at: int, end: int, time_ns: int | None) -> _Payload | None:
        if end - at < 20:
            raise OtherError("short packet")
        first, total, identity, fragment, protocol, addresses = _ipv4(block, at)
        size = (first & 15) * 4
        # no length: the network card was to fill it in when it cut this into packets, after the capture
        stop = at + total if total else end
        at += size
        if size < 20 or stop < at:
            raise OtherError("bad IP header")
        if not fragment & (_MORE_V4 | _OFFSET_V4):
            return protocol, addresses, block, at, end, stop
        if stop > end:
            raise OtherError("fragment")
        return self._piece(
            (addresses, protocol, identity),
            time_ns,
            (fragment & _OFFSET_V4) * 8,
            block[at:stop],
            more=bool(fragment & _MORE_V4),
        )

    def _ipv6(self, block: bytes, at: int, end: int, time_ns: int | None) -> _Payload | None:
        if end - at < 40:
            raise OtherError("short packet")
        size, protocol, addresses = _ipv6(block, at + 4)
        stop = at + 40 + size if size else end
        at += 40
        for _ in range(EXTENSIONS_MAX):
            if protocol not in _EXTENSIONS:
                break
            if end - at < 8:
                raise OtherError("short packet")
            kind, protocol = protocol, block[at]
            if kind == _FRAGMENT:
                place, identity = _ipv6_fragment(block, at + 2)
                at += 8
                if stop > end:
                    raise OtherError("fragment")
                return self._piece(
                    (addresses, protocol, identity),
                    time_ns,
                    place & _OFFSET_V6,
                    block[at:stop],
                    more=bool(place & _MORE_V6),
                )
            at += (block[at + 1] + 2) * 4 if kind == _AUTHENTICATION else (block[at + 1] + 1) * 8
        return protocol, addresses, block, at, end, stop

    def _piece(
        self, key: Key, time_ns: int | None, offset: int, data: bytes, *, more: bool
    ) -> _Payload | None:
        whole = self._fragments.push(key, time_ns or 0, offset, data, more=more)
        if whole is None:
            return None
        addresses, protocol, _ = key
        return protocol, addresses, whole, 0, len(whole), len(whole)

    def _learn(self, flow: bytes) -> tuple[Endpoint, Endpoint]:
        if len(self._flows) == FLOWS_MAX:
            self._flows.clear()
        size = (len(flow) - 4) // 2
        source, destination = ipaddress.ip_address(flow[:size]), ipaddress.ip_address(flow[size:-4])
        ports = _ports(flow, 2 * size)
        pair = Endpoint(str(source), ports[0]), Endpoint(str(destination), ports[1])
        self._flows[flow] = pair
        return pair


def _network_at(link: int, block: bytes, at: int, end: int) -> int:
    """Where the IP header begins."""
    if link in _ETHERTYPE_AT:
        where, size = _ETHERTYPE_AT[link]
        kind_at, at, kind = at + where, at + size, 0
        for _ in range(TAGS_MAX + 1):
            if at > end:
                raise OtherError("short packet")
            kind = _short(block, kind_at)[0]
            if kind in _IP:
                return at
            if kind not in _TAGS:
                break
            kind_at, at = at + 2, at + 4
        raise OtherError(f"ethertype {kind:#06x}" if kind >= 0x0600 else "no ethertype (802.3)")
    if link in _RAW_LINKS:
        return at
    if link not in _FAMILY_LINKS:
        raise OtherError(f"link type {link}")
    if at + 4 > end:
        raise OtherError("short packet")
    family = block[at] | block[at + 3]  # below 256, so it is the first or the last in either order
    if family not in _FAMILIES:
        raise OtherError(f"address family {family}")
    return at + 4
