"""Captures written: datagrams as a pcap file, or a pcapng file, that every tool reads."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from pyddsi.capture.dissect import Endpoint
from pyddsi.errors import CaptureError

_MAGIC = 0xA1B23C4D  # times in nanoseconds
_SECTION, _INTERFACE, _ENHANCED = 0x0A0D0D0A, 1, 6  # pcapng's blocks
_ORDER = 0x1A2B3C4D
_TIME_RESOLUTION = struct.pack("<HHBxxxI", 9, 1, 9, 0)  # 10^-9 s, and the end of the options
_LINK_RAW = 101  # a packet begins with its IP header
_UDP = 17
_SECOND = 1_000_000_000
_SNAP = 262_144


def _sum(data: bytes) -> int:
    """The checksum of an IP header."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def _packet(source: Endpoint, target: Endpoint, data: bytes) -> bytes:
    """The datagram with its UDP and IP headers; UDP's checksum is left out, as IPv4 allows."""
    udp = struct.pack(">HHHH", source.port, target.port, 8 + len(data), 0) + data
    one, two = ip_address(source.address), ip_address(target.address)
    if one.version == 6 or two.version == 6:
        return struct.pack(">IHBB", 6 << 28, len(udp), _UDP, 64) + _six(one) + _six(two) + udp
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, _UDP, 0)
    head += one.packed + two.packed
    return head[:10] + struct.pack(">H", _sum(head)) + head[12:] + udp


def _six(address: object) -> bytes:
    packed: bytes = getattr(address, "packed")  # noqa: B009 - either kind of address has it
    return packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed


def _block(kind: int, body: bytes) -> bytes:
    """A block of pcapng: its length stands at both ends."""
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


def _head(*, ng: bool) -> bytes:
    """How the file begins."""
    if not ng:
        return struct.pack("<IHHIIII", _MAGIC, 2, 4, 0, 0, _SNAP, _LINK_RAW)
    section = struct.pack("<IHHq", _ORDER, 1, 0, -1)
    interface = struct.pack("<HHI", _LINK_RAW, 0, _SNAP) + _TIME_RESOLUTION
    return _block(_SECTION, section) + _block(_INTERFACE, interface)


def _record(time_ns: int, packet: bytes, *, ng: bool) -> bytes:
    """A packet with its time."""
    size = len(packet)
    if not ng:
        return struct.pack("<IIII", *divmod(time_ns, _SECOND), size, size) + packet
    head = struct.pack("<IIIII", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, size, size)
    return _block(_ENHANCED, head + packet)


def write_datagrams(
    path: str | os.PathLike[str], datagrams: Iterable[tuple[int, Endpoint, Endpoint, bytes]]
) -> int:
    """
    Write (time in nanoseconds, source, destination, data) as a capture: pcapng if the name ends so, else pcap. Returns
    how many. Raises CaptureError.
    """
    ng = os.fspath(path).endswith(".pcapng")
    count = 0
    try:
        with Path(path).open("wb") as file:
            file.write(_head(ng=ng))
            for time_ns, source, target, data in datagrams:
                file.write(_record(time_ns, _packet(source, target, data), ng=ng))
                count += 1
    except OSError as error:
        raise CaptureError(f"{os.fspath(path)} cannot be written: {error.strerror}") from error
    return count
