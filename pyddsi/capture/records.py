"""The container: a pcap or pcapng file becomes records, one after the other.

A record is (number, time, link type, block, start, end): the captured bytes are `block[start:end]` and stay where the
window has them. They must never be read past `end`: what stands there belongs to the next record.

Time is integer nanoseconds since 1970 all the way, because floating point cannot hold it; a finer resolution is
rounded down. In pcapng each interface has its own link type, resolution and offset, each section has its own byte
order and its own interfaces, and only the numbering of packets runs through the whole file.

A length that cannot be true ends the reading: behind it nobody knows where the next record begins, and an error that
names the byte is better than a guessed packet.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from pyddsi.capture.window import Window

PACKET_BYTES_MAX = 256 * 1024
"""The longest packet believed, which is tcpdump's own limit."""
NG_BLOCK_BYTES_MAX = 1024 * 1024
"""The longest pcapng block that is looked into: a packet with its options. A block nobody reads may be longer."""
NG_INTERFACES_MAX = 65536
"""Interfaces in one pcapng section."""

Record = tuple[int, int | None, int, bytes, int, int]
"""number, time in ns (None: not recorded), link type, block, start, end."""

_PCAP = {  # the magic number as it lies in the file: byte order, and ns in a unit of the fraction
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_PCAP_LINK_MASK = 0x03FFFFFF  # above it: whether frames end in a check sequence
_SECOND = 1_000_000_000

_NG_MAGIC = b"\x0a\x0d\x0d\x0a"
_NG_ORDER = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_SECTION = 0x0A0D0D0A
_INTERFACE, _OBSOLETE, _SIMPLE, _ENHANCED = 1, 2, 3, 6
_LEAST = {_INTERFACE: 20, _OBSOLETE: 32, _SIMPLE: 16, _ENHANCED: 32}  # sizes with nothing in them
_OPTION_END, _OPTION_RESOLUTION, _OPTION_OFFSET = 0, 9, 14
_COUNTED = {9, 0x204, 0x208, 0x216, 0x217, 0x221, 0x222, 0xBAD, 0x40000BAD}
"""Journal entries, system calls, vendors' blocks: no packets, yet Wireshark gives each a frame number."""


def read_records(window: Window, skipped: Counter[str]) -> Iterator[Record]:
    """The records of the capture in `window`. Its header is read at once, and refused if it is none."""
    if window.block[:4] in _PCAP:
        order, unit = _PCAP[window.block[:4]]
        if len(window.fill(0, 24)) < 24:
            raise window.cut()
        return _pcap(window, order, unit)
    head = window.fill(0, 12)
    if not head.startswith(_NG_MAGIC) or (len(head) >= 12 and head[8:12] not in _NG_ORDER):
        raise window.stranger()
    if len(head) < 12:
        raise window.cut()
    return _pcapng(window, skipped)


def _pcap(window: Window, order: str, unit: int) -> Iterator[Record]:
    block = window.block
    link = Struct(order + "I").unpack_from(block, 20)[0] & _PCAP_LINK_MASK
    unpack = Struct(order + "IIII").unpack_from
    at = 24
    while True:
        if len(block) - at < 16:
            block, at = window.fill(at, 16), 0
            if len(block) < 16:
                break
        seconds, fraction, captured, _ = unpack(block, at)
        if captured > PACKET_BYTES_MAX:
            raise window.damaged(
                at, f"a packet of {captured} bytes, above the limit of {PACKET_BYTES_MAX}"
            )
        end = at + 16 + captured
        if end > len(block):
            block, at, end = window.fill(at, 16 + captured), 0, 16 + captured
            if end > len(block):
                raise window.cut()
        window.count += 1
        yield window.count, seconds * _SECOND + fraction * unit, link, block, at + 16, end
        at = end
    if block:
        raise window.cut()


def _pcapng(window: Window, skipped: Counter[str]) -> Iterator[Record]:
    block, at, section = window.block, 0, _Section("<")
    while True:
        if len(block) - at < 12:
            block, at = window.fill(at, 12), 0
            if len(block) < 12:
                break
        kind, size = section.head(block, at)
        if kind == _SECTION:  # the same in either byte order, which is told only now
            order = block[at + 8 : at + 12]
            if order not in _NG_ORDER:
                raise window.damaged(at, f"a section whose byte order mark is {order.hex(' ')}")
            section = _Section(_NG_ORDER[order])
            kind, size = section.head(block, at)
        if size < 12 or size % 4:
            raise window.damaged(at, f"a block of {size} bytes, which no block can have")
        if kind not in _LEAST:
            if kind in _COUNTED:
                window.count += 1
                skipped[f"pcapng block {kind:#x}"] += 1
            at = window.skip(at, size)
            block = window.block
            continue
        if not _LEAST[kind] <= size <= NG_BLOCK_BYTES_MAX:
            raise window.damaged(
                at, f"a block of type {kind} with {size} bytes, which it cannot have"
            )
        if size > len(block) - at:
            block, at = window.fill(at, size), 0
            if size > len(block):
                raise window.cut()
        try:
            if kind == _INTERFACE:
                section.add(block, at, size)
            else:
                time_ns, link, start, end = section.packet(kind, block, at, size)
                window.count += 1
                yield window.count, time_ns, link, block, start, end
        except _DamageError as damage:
            raise window.damaged(at, str(damage)) from None
        at += size
    if block:
        raise window.cut()


class _DamageError(Exception):
    """What in a pcapng block cannot be true; the walk adds where it stands."""


class _Interface(NamedTuple):
    """What an interface says of its packets: time_ns = ticks * multiply // divide + offset_ns."""

    link: int
    snap: int
    multiply: int
    divide: int
    offset_ns: int


class _Section:
    """One pcapng section: a byte order, and the interfaces told so far."""

    def __init__(self, order: str) -> None:
        self.head = Struct(order + "II").unpack_from
        self._enhanced = Struct(order + "IIIII").unpack_from
        self._obsolete = Struct(order + "HHIIII").unpack_from
        self._interface = Struct(order + "HHI").unpack_from
        self._option = Struct(order + "HH").unpack_from
        self._signed = Struct(order + "q").unpack_from
        self._last = Struct(order + "I").unpack_from
        self._interfaces: list[_Interface] = []

    def add(self, block: bytes, at: int, size: int) -> None:
        """An interface description: link type and how its clock ticks."""
        self._check(block, at, size)
        if len(self._interfaces) == NG_INTERFACES_MAX:
            raise _DamageError(f"more than {NG_INTERFACES_MAX} interfaces in one section")
        link, _, snap = self._interface(block, at + 8)
        resolution, offset = 6, 0
        option, end = at + 16, at + size - 4
        while option + 4 <= end:
            code, length = self._option(block, option)
            value, option = option + 4, option + 4 + length + -length % 4
            if code == _OPTION_END:
                break
            if option > end:
                raise _DamageError(f"option {code} of an interface runs out of its block")
            if code == _OPTION_RESOLUTION and length == 1:
                resolution = block[value]
            elif code == _OPTION_OFFSET and length == 8:
                offset = self._signed(block, value)[0]
        multiply = _SECOND
        divide = 1 << (resolution & 0x7F) if resolution & 0x80 else 10**resolution
        if _SECOND % divide == 0:  # the usual clocks, and for them no large numbers
            multiply, divide = _SECOND // divide, 1
        self._interfaces.append(_Interface(link, snap, multiply, divide, offset * _SECOND))

    def packet(
        self, kind: int, block: bytes, at: int, size: int
    ) -> tuple[int | None, int, int, int]:
        """A packet block: time, link type, and where its bytes are."""
        self._check(block, at, size)
        index, high, low, start = 0, 0, 0, at + 28
        if kind == _ENHANCED:
            index, high, low, captured, _ = self._enhanced(block, at + 8)
        elif kind == _OBSOLETE:
            index, _, high, low, captured, _ = self._obsolete(block, at + 8)
        else:
            captured, start = self._last(block, at + 8)[0], at + 12
        if index >= len(self._interfaces):
            raise _DamageError(
                f"a packet of interface {index}, and {len(self._interfaces)} were described"
            )
        link, snap, multiply, divide, offset_ns = self._interfaces[index]
        room = at + size - 4 - start
        if kind == _SIMPLE:  # it tells the original length only: no more can be there than was kept
            captured = min(captured, room, snap or captured)
        if captured > room or captured > PACKET_BYTES_MAX:
            raise _DamageError(
                f"a packet of {captured} bytes in a block of {size}, "
                f"where {min(room, PACKET_BYTES_MAX)} are the most there can be"
            )
        time_ns = None if kind == _SIMPLE else (high << 32 | low) * multiply // divide + offset_ns
        return time_ns, link, start, start + captured

    def _check(self, block: bytes, at: int, size: int) -> None:
        last = self._last(block, at + size - 4)[0]
        if last != size:
            raise _DamageError(
                f"a block whose length is {size} at its beginning and {last} at its end"
            )
