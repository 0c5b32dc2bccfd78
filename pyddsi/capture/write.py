"""Captures written: datagrams as a pcap file that every tool reads."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from pyddsi.capture.dissect import Endpoint
from pyddsi.errors import CaptureError

_MAGIC = 0xA1B23C4D  # times in nanoseconds
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


def write_datagrams(
    path: str | os.PathLike[str], datagrams: Iterable[tuple[int, Endpoint, Endpoint, bytes]]
) -> int:
    """Write (time in nanoseconds, source, destination, data) as a capture; returns how many. Raises CaptureError."""
    count = 0
    try:
        with Path(path).open("wb") as file:
            file.write(struct.pack("<IHHIIII", _MAGIC, 2, 4, 0, 0, _SNAP, _LINK_RAW))
            for time_ns, source, target, data in datagrams:
                packet = _packet(source, target, data)
                seconds, rest = divmod(time_ns, _SECOND)
                file.write(struct.pack("<IIII", seconds, rest, len(packet), len(packet)) + packet)
                count += 1
    except OSError as error:
        raise CaptureError(f"{os.fspath(path)} cannot be written: {error.strerror}") from error
    return count
