"""
Captures made by hand for the tests: packets from the inside out, then the file around them.

    pcap([ethernet(ipv4(udp(b"hello")))])
    section() + interface() + enhanced(ethernet(ipv4(udp(b"hello"))))

Whatever a real writer may get wrong can be said with a keyword: a length, an order of bytes, an offset. Checksums are
left zero, as they are in captures taken before the network card filled them in. `read` and `data` are the other way.
"""

import io
import re
import struct
from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from pyddsi.capture import Datagram, Segment, read_datagrams
from pyddsi.errors import CaptureError

CAPTURE = Path(__file__).resolve().parents[2] / "csrc" / "capture"
TCP, UDP = 6, 17
FIN, SYN, RST, ACK = 1, 2, 4, 16
IPV4, IPV6 = 0x0800, 0x86DD
HERE, THERE = ("10.0.0.1", 40000), ("10.0.0.2", 7447)
HERE6, THERE6 = ("fe80::1", 40000), ("ff02::7447", 7447)
SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND + 123_456_789

Address = tuple[str, int]
Ways = tuple[Address, Address]


def udp(data: bytes, ways: Ways = (HERE, THERE), *, length: int | None = None) -> bytes:
    """A UDP header and its data."""
    ports = ways[0][1], ways[1][1]
    return struct.pack(">HHHH", *ports, 8 + len(data) if length is None else length, 0) + data


def tcp(
    data: bytes,
    sequence: int,
    flags: int = ACK,
    ways: Ways = (HERE, THERE),
    *,
    options: bytes = b"",
    offset: int | None = None,
) -> bytes:
    """A TCP header and its data; the sequence number may be beyond 32 bits and is wrapped."""
    ports = ways[0][1], ways[1][1]
    words = 5 + len(options) // 4 if offset is None else offset
    fields = (*ports, sequence & 0xFFFFFFFF, 0, words << 4, flags, 1024, 0, 0)
    return struct.pack(">HHIIBBHHH", *fields) + options + data


def ipv4(
    payload: bytes,
    protocol: int = UDP,
    ways: Ways = (HERE, THERE),
    *,
    options: bytes = b"",
    place: int = 0,
    identity: int = 1,
    length: int | None = None,
) -> bytes:
    """An IPv4 header around a payload; `place` is the field of the fragment's flags and offset."""
    size = 20 + len(options)
    total = size + len(payload) if length is None else length
    fields = (0x40 | size // 4, 0, total, identity, place, 64, protocol, 0)
    addresses = b"".join(ip_address(address).packed for address, _ in ways)
    return struct.pack(">BBHHHBBH", *fields) + addresses + options + payload


def ipv6(
    payload: bytes,
    protocol: int = UDP,
    ways: Ways = (HERE6, THERE6),
    *,
    extensions: Iterable[tuple[int, bytes]] = (),
    length: int | None = None,
) -> bytes:
    """An IPv6 header around a payload; each extension is its kind and its bytes without the first."""
    for kind, extension in reversed(list(extensions)):
        payload = bytes([protocol]) + extension + payload
        protocol = kind
    size = len(payload) if length is None else length
    addresses = b"".join(ip_address(address).packed for address, _ in ways)
    return struct.pack(">IHBB", 6 << 28, size, protocol, 64) + addresses + payload


def ethernet(packet: bytes, kind: int | None = None, tags: Iterable[int] = ()) -> bytes:
    """An Ethernet frame, padded to the 60 bytes a card sends; a tag is its ethertype."""
    if kind is None:
        kind = IPV6 if packet[0] >> 4 == 6 else IPV4
    vlans = b"".join(struct.pack(">HH", tag, 100) for tag in tags)
    frame = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01" + vlans + struct.pack(">H", kind) + packet
    return frame.ljust(60, b"\xee")


def pcap(
    packets: Iterable[bytes],
    *,
    order: str = "<",
    unit: int = 1000,
    link: int = 1,
    snap: int | None = None,
    step_ns: int = SECOND,
) -> bytes:
    """A classic file, its packets `step_ns` apart; `unit` is 1000 for microseconds and 1 for nanoseconds."""
    magic = 0xA1B2C3D4 if unit == 1000 else 0xA1B23C4D
    time_ns = NOW
    out = [struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, snap or 65535, link)]
    for packet in packets:
        kept = packet[:snap]
        seconds, rest = divmod(time_ns, SECOND)
        out.append(
            struct.pack(order + "IIII", seconds, rest // unit, len(kept), len(packet)) + kept
        )
        time_ns += step_ns
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<", *, last: int | None = None) -> bytes:
    """Any pcapng block; `last` is a wrong length at its end."""
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    ends = size if last is None else last
    return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", ends)


def section(order: str = "<") -> bytes:
    """A section header."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """An option of a block."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(
    order: str = "<",
    *,
    link: int = 1,
    snap: int = 0,
    resolution: int | None = None,
    offset: int | None = None,
) -> bytes:
    """An interface description, with a name among its options to be passed over."""
    options = option(2, b"eth12", order)
    if resolution is not None:
        options += option(9, bytes([resolution]), order)
    if offset is not None:
        options += option(14, struct.pack(order + "q", offset), order)
    options += option(0, b"", order)
    return block(1, struct.pack(order + "HHI", link, 0, snap) + options, order)


def enhanced(
    packet: bytes,
    ticks: int = NOW // 1000,
    order: str = "<",
    *,
    index: int = 0,
    size: int | None = None,
) -> bytes:
    """An enhanced packet block with a comment behind the packet; `size` is a wrong captured length."""
    kept = len(packet) if size is None else size
    head = struct.pack(order + "IIIII", index, ticks >> 32, ticks & 0xFFFFFFFF, kept, len(packet))
    comment = option(1, b"seen", order) + option(0, b"", order)
    return block(6, head + packet + bytes(-len(packet) % 4) + comment, order)


def obsolete(packet: bytes, ticks: int = NOW // 1000, order: str = "<", *, index: int = 0) -> bytes:
    """The packet block that the enhanced one replaced."""
    words = (index, 7, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    return block(2, struct.pack(order + "HHIIII", *words) + packet, order)


def simple(packet: bytes, order: str = "<", *, original: int | None = None) -> bytes:
    """A simple packet block: no time, no interface, and of the lengths only the original one."""
    size = len(packet) if original is None else original
    return block(3, struct.pack(order + "I", size) + packet, order)


def read(content: bytes) -> tuple[list[Datagram | Segment], Counter[str], CaptureError | None]:
    """All there is in a capture: what came out, what was skipped, and the error it ended with."""
    items = []
    with read_datagrams(io.BytesIO(content)) as capture:
        try:
            for item in capture:
                items.append(item)  # noqa: PERF402 - what comes before the error counts
        except CaptureError as error:
            return items, capture.skipped, error
        cut = CaptureError(capture.problems[0]) if capture.problems else None
        return items, capture.skipped, cut


def data(content: bytes) -> list[bytes]:
    """What the datagrams of a good capture held."""
    items, _, error = read(content)
    assert error is None
    return [item.data for item in items]


def limit(name: str) -> int:
    """A limit of the core's room for captures, as its headers have it."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(CAPTURE.glob("*.h")))
    found = re.search(rf"#define {name}\s+(?:\\\n)?\s*(\S[^/\n]*)", text)
    assert found is not None, name
    number = re.sub(r"U?INT(32|64)_C\((\d+)\)|(\d+)U", lambda m: m[2] or m[3], found[1])
    return int(eval(number, {"__builtins__": {}}))  # noqa: S307 - numbers and a shift, out of our own headers
