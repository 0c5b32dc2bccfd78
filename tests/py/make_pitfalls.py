"""
One capture for each pitfall that captures are known to have, and what must be seen in it.

    python -m tests.py.make_pitfalls FOLDER        writes them all
    seen = write_pitfalls(folder)                  the same, and file name -> Seen

A file is named after its pitfall, and a pitfall is a function here, whose first sentence is the rule. What must be seen is
written down by hand and not computed by the code that makes the file, so that both have to be wrong in the same way for a
mistake to pass. Any reader can be held against it: ours, tshark, scapy. (Those two look into tunnels and drop nothing that
is doubled; the rest they see alike.)

Beyond reach of a small file are only offsets over 2^31; pitfalls of sessions, plots and clusters belong elsewhere.
(This file is long because there are many of the others.)
"""

from __future__ import annotations

import gzip
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.py import make_capture as make

NOW, SECOND = make.NOW, make.SECOND
TIMES = (NOW, NOW + SECOND)  # of two packets of make.pcap
HELLO = make.udp(b"hello")
PACKET = make.ipv4(HELLO)
PACKET6 = make.ipv6(HELLO)
FRAME = make.ethernet(PACKET)


@dataclass(frozen=True)
class Seen:
    """What a reader finds in a file."""

    frames: int
    """As Wireshark counts."""
    datagrams: int = 0
    """UDP, those in pieces once."""
    size: int = 0
    """The bytes of these, as far as they were captured."""
    cut: int = 0
    """Of these, the ones that the snap length cut."""
    tcp: int = 0
    """Bytes of TCP, in order and once."""
    holes: int = 0
    """Places in these where bytes are missing."""
    others: int = 0
    """Frames with nothing for us, fragments that were given up among them."""
    times: tuple[int | None, ...] = ()
    """Of the datagrams, in nanoseconds, where they are what the file is about."""
    repeated: int = 0
    """Datagrams that were there before."""
    dropped: int = 0
    """Frames that the capturing has lost."""
    over_wire: int = 0
    """Frames of which more was captured than there was."""
    over_snap: int = 0
    """Frames longer than their snap length."""
    tail: int = 0
    """Bytes of a last record that is not whole."""
    damage: str = ""
    """Words about what ends the reading."""


Files = dict[str, tuple[bytes, Seen]]


def pcap(
    records: Iterable[tuple[int, bytes, int]],
    *,
    order: str = "<",
    unit: int = 1,
    link: int = 1,
    snap: int = 65535,
) -> bytes:
    """A file of (time in ns, captured bytes, original length)."""
    magic = 0xA1B2C3D4 if unit == 1000 else 0xA1B23C4D
    out = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, snap, link)
    for time_ns, kept, original in records:
        seconds, rest = divmod(time_ns, SECOND)
        out += struct.pack(order + "IIII", seconds, rest // unit, len(kept), original) + kept
    return out


def at_once(frames: Iterable[bytes], *, link: int = 1) -> bytes:
    """A file of whole frames of one moment."""
    return pcap(((NOW, frame, len(frame)) for frame in frames), link=link)


# ---- containers ------------------------------------------------------------------------------------------------


def magic() -> Files:
    """Four magic numbers are read; the files with longer record headers are named and refused."""
    found: Files = {}
    for order, high in (("<", "low"), (">", "high")):
        for unit, name in ((1000, "us"), (1, "ns")):
            content = make.pcap([FRAME, FRAME], order=order, unit=unit)
            times = tuple(time // unit * unit for time in TIMES)
            found[f"magic_{name}_{high}.pcap"] = content, Seen(2, 2, 10, times=times)
    longer = make.pcap([FRAME])[4:24] + bytes(24) + FRAME
    for number, name in ((0xA1B2CD34, "Kuznetzov"), (0xA1B234CD, "Mesquita")):
        content = struct.pack("<I", number) + longer
        found[f"magic_{name.lower()}.pcap"] = content, Seen(0, damage=f"modified ({name})")
    return found


def check_sequence() -> Files:
    """The upper bits of the link type tell of check bytes behind each frame, which are no payload."""
    # without the lengths that a network card would have filled in, the end of the frame is all there is
    raw = make.ipv4(make.udp(b"hello", length=0), length=0) + b"\xfc\xfc\xfc\xfc"
    ng = make.section() + make.block(1, struct.pack("<HHI", 101, 0, 0) + make.option(13, b"\x20"))
    return {
        "check_sequence.pcap": (make.pcap([raw, raw], link=0x24000065), Seen(2, 2, 10)),
        "check_sequence.pcapng": (ng + make.enhanced(raw), Seen(1, 1, 5)),
    }


def nanoseconds() -> Files:
    """Times are integers: two packets 100 ns apart are not at one time."""
    times = (NOW, NOW + 100)
    records = [(time, FRAME, len(FRAME)) for time in times]
    coarse = NOW // 1000 * 1000
    return {
        "nanoseconds.pcap": (pcap(records), Seen(2, 2, 10, times=times)),
        "microseconds.pcap": (pcap(records, unit=1000), Seen(2, 2, 10, times=(coarse, coarse))),
    }


def clocks() -> Files:
    """In pcapng each interface has its resolution, also a power of two, and an offset; each section its byte order."""
    content = make.section("<") + make.interface(link=1) + make.interface(link=101, resolution=9)
    content += make.interface(link=101, resolution=0x80 | 10, offset=-3600)
    content += make.enhanced(PACKET, NOW, index=1) + make.enhanced(FRAME, NOW // 1000, index=0)
    content += make.enhanced(PACKET, 5000 * 1024 + 512, index=2)
    content += make.section(">") + make.interface(">", link=101, resolution=3)
    content += make.enhanced(PACKET, NOW // 1000000, ">")
    times = (NOW, NOW // 1000 * 1000, 1400 * SECOND + SECOND // 2, NOW // 1000000 * 1000000)
    return {"clocks.pcapng": (content, Seen(4, 4, 20, times=times))}


def old_blocks() -> Files:
    """Simple packets have no time, and the obsolete packet block still exists."""
    content = make.section() + make.interface() + make.simple(FRAME) + make.obsolete(FRAME)
    times = (None, NOW // 1000 * 1000)
    return {"old_blocks.pcapng": (content, Seen(2, 2, 10, times=times))}


def blocks_without_packets() -> Files:
    """Wireshark gives a number to some blocks that hold no packet, and so must we; others count for nothing."""
    journal = make.block(9, b"__REALTIME_TIMESTAMP=1700000000000000\nMESSAGE=link is up\n")
    content = make.section() + make.interface() + make.block(4, bytes(100)) + journal
    content += make.enhanced(FRAME) + make.block(0x77, bytes(2_000_000)) + make.enhanced(FRAME)
    return {"blocks_without_packets.pcapng": (content, Seen(3, 2, 10, others=1))}


def odd_lengths() -> Files:
    """More captured than there was, nothing captured, an original length of 0: accepted, and counted."""
    lengths = [len(FRAME), len(FRAME) - 1, 0]
    records = [(NOW, FRAME, original) for original in lengths] + [(NOW, b"", 60)]
    return {"odd_lengths.pcap": (pcap(records), Seen(4, 3, 15, others=1, over_wire=2))}


def snap_cut() -> Files:
    """A snap length cuts through a message: what is whole of it is read, and nothing behind it."""
    message = b"\x67\x00\x02" + struct.pack("<H", 1 << 7 | 100) + bytes(100)
    long_one = make.ethernet(make.ipv4(make.udp(message)))
    content = make.pcap([long_one, FRAME], snap=80)
    size = 80 - 42 + 5
    return {"snap_cut.pcap": (content, Seen(2, 2, size, cut=1))}


def snap_told() -> Files:
    """A snap length of 0, of 2^31, or below the packets that follow is a hint; only the limit of a frame counts."""
    record = [(NOW, FRAME, len(FRAME))]
    too_long = struct.pack("<IIII", 1, 1, 262145, 262145)
    return {
        "snap_none.pcap": (pcap(record, snap=0), Seen(1, 1, 5)),
        "snap_huge.pcap": (pcap(record, snap=1 << 31), Seen(1, 1, 5)),
        "snap_small.pcap": (pcap(record, snap=20), Seen(1, 1, 5, over_snap=1)),
        "frame_too_long.pcap": (
            pcap(record) + too_long + FRAME,
            Seen(1, 1, 5, damage="262145 bytes"),
        ),
    }


def cut_tail() -> Files:
    """A last record that is not whole, as in a file that is still written, is a tail and no fault."""
    start = make.section() + make.interface()
    ng = start + make.enhanced(FRAME) * 2
    return {
        "cut_tail.pcap": (make.pcap([FRAME, FRAME])[:-1], Seen(1, 1, 5, tail=16 + 59)),
        "cut_head.pcap": (make.pcap([FRAME]) + bytes(7), Seen(1, 1, 5, tail=7)),
        "cut_tail.pcapng": (ng[:-1], Seen(1, 1, 5, tail=(len(ng) - len(start)) // 2 - 1)),
    }


def disorder() -> Files:
    """Time goes backwards, to 1970 and two years ahead; the order is that of the file."""
    times = (NOW, NOW - SECOND, 0, NOW + 730 * 86400 * SECOND, NOW)
    content = pcap((time, FRAME, len(FRAME)) for time in times)
    return {"disorder.pcap": (content, Seen(5, 5, 25, times=times))}


def dropped() -> Files:
    """The capturing itself has lost frames and says so: that is no loss of the protocol's."""

    def told(count: int) -> bytes:
        options = make.option(4, struct.pack("<Q", 9)) + make.option(5, struct.pack("<Q", count))
        return make.block(5, struct.pack("<III", 0, 0, 0) + options + make.option(0, b""))

    content = make.section() + make.interface() + make.enhanced(FRAME) + told(3)
    content += make.enhanced(FRAME) + told(7)
    return {"dropped.pcapng": (content, Seen(2, 2, 10, dropped=7))}


def packed() -> Files:
    """A file is gzipped by what it holds, whatever its name is."""
    return {"packed.pcap": (gzip.compress(make.pcap([FRAME, FRAME]), mtime=0), Seen(2, 2, 10))}


# ---- links -----------------------------------------------------------------------------------------------------


def tags() -> Files:
    """VLAN tags, two of them, and a priority tag (VLAN 0) stand in front of IP."""
    priority = FRAME[:12] + struct.pack(">HH", 0x8100, 0xE000) + FRAME[12:]
    frames = [
        make.ethernet(PACKET, tags=[0x8100]),
        make.ethernet(PACKET6, tags=[0x88A8, 0x8100]),
        priority,
    ]
    return {"tags.pcap": (at_once(frames), Seen(3, 3, 15))}


def tunnels() -> Files:
    """What is inside MPLS, PPPoE, GRE and VXLAN is not looked at, and each of them is counted."""
    frames = [
        make.ethernet(b"\x00\x01\x01\x40" + PACKET, 0x8847),
        make.ethernet(
            b"\x11\x00\x00\x01" + struct.pack(">HH", len(PACKET) + 2, 0x21) + PACKET, 0x8864
        ),
        make.ethernet(make.ipv4(struct.pack(">HH", 0, 0x0800) + PACKET, 47)),
        FRAME,
    ]
    outer = ("10.0.0.1", 40000), ("10.0.0.2", 4789)
    vxlan = make.ethernet(make.ipv4(make.udp(b"\x08\0\0\0\0\0\x01\0" + FRAME, outer), ways=outer))
    return {
        "tunnels.pcap": (at_once(frames), Seen(4, 1, 5, others=3)),
        "vxlan.pcap": (at_once([vxlan, FRAME]), Seen(2, 1, 5, others=1)),
    }


def links() -> Files:
    """Cooked captures, raw IP and loopback in its host's byte order are read; 802.11 is counted."""
    cooked = struct.pack(">HHH8s", 0, 1, 6, bytes(8))
    cooked2 = struct.pack(">HHIHBB8s", make.IPV4, 0, 2, 1, 0, 6, bytes(8))
    null = [b"\x02\0\0\0" + PACKET, b"\0\0\0\x02" + PACKET]
    null += [family + b"\0\0\0" + PACKET6 for family in (b"\x0a", b"\x18", b"\x1c", b"\x1e")]
    six = struct.pack(">H", make.IPV6)
    return {
        "link_cooked.pcap": (
            at_once([cooked + b"\x08\0" + PACKET, cooked + six + PACKET6], link=113),
            Seen(2, 2, 10),
        ),
        "link_cooked2.pcap": (
            at_once([cooked2 + PACKET, six + cooked2[2:] + PACKET6], link=276),
            Seen(2, 2, 10),
        ),
        "link_raw.pcap": (at_once([PACKET, PACKET6], link=101), Seen(2, 2, 10)),
        "link_null.pcap": (at_once(null, link=0), Seen(6, 6, 30)),
        "link_loop.pcap": (at_once(null[1:2], link=108), Seen(1, 1, 5)),
        "link_80211.pcap": (at_once([FRAME, FRAME], link=105), Seen(2, others=2)),
    }


def twice() -> Files:
    """A capture on all interfaces shows a datagram on its way out and again on its way in."""
    cooked = struct.pack(">HHH8sH", 4, 1, 6, bytes(8), make.IPV4)
    packets = [make.ipv4(make.udp(bytes([n] * 20)), identity=n) for n in range(10)]
    records = []
    for n, packet in enumerate(packets):
        for delay in (0, 20_000):
            frame = cooked + packet
            records.append((NOW + n * SECOND + delay, frame, len(frame)))
    return {"twice.pcap": (pcap(records, link=113), Seen(20, 20, 400, repeated=10))}


# ---- IP, UDP and TCP -------------------------------------------------------------------------------------------

LONG = make.udp(bytes(range(256)) * 8)


def piece4(start: int, stop: int, identity: int = 1) -> bytes:
    """A part of LONG as an IPv4 fragment."""
    more = 0x2000 if stop < len(LONG) else 0
    return make.ipv4(LONG[start:stop], place=start // 8 | more, identity=identity)


def piece6(start: int, stop: int) -> bytes:
    """A part of LONG as an IPv6 fragment."""
    fragment = b"\0" + struct.pack(">HI", start | (stop < len(LONG)), 1)
    return make.ipv6(LONG[start:stop], extensions=[(44, fragment)])


def fragments() -> Files:
    """Fragments are put together in any order; one without its head is counted and begins no flow of its own."""
    whole = [piece4(1600, len(LONG)), piece4(0, 800), piece4(800, 1600)]
    whole += [piece6(0, 1600), piece6(1600, len(LONG))]
    lost = [piece4(800, 1600, 2), piece4(1600, len(LONG), 2), PACKET]
    return {
        "fragments.pcap": (at_once(whole, link=101), Seen(5, 2, 2 * 2048)),
        "fragments_lost.pcap": (at_once(lost, link=101), Seen(3, 1, 5, others=2)),
    }


def ipv6() -> Files:
    """Extension headers stand in front of UDP; two links may have the same link-local addresses."""
    eight = b"\0" + bytes(6)
    packets = [
        make.ipv6(HELLO, extensions=[(0, eight)]),
        make.ipv6(HELLO, extensions=[(0, b"\x02" + bytes(22)), (60, eight), (43, eight)]),
        make.ipv6(HELLO, extensions=[(51, b"\x04" + bytes(22))]),
    ]
    same = make.section() + make.interface(link=101) + make.interface(link=101)
    same += make.enhanced(PACKET6, index=0) + make.enhanced(PACKET6, index=1)
    return {
        "ipv6_extensions.pcap": (at_once(packets, link=101), Seen(3, 3, 15)),
        "link_local.pcapng": (same, Seen(2, 2, 10)),
    }


def udp() -> Files:
    """Where UDP's length contradicts IP's, IP's wins; a wrong checksum is the network card's, not an error."""
    lengths = [make.ethernet(make.ipv4(make.udp(b"hello", length=n))) for n in (0, 7, 20, 65535)]
    wrong = make.ethernet(make.ipv4(HELLO[:6] + b"\xde\xad" + HELLO[8:]))
    return {
        "udp_length.pcap": (at_once(lengths), Seen(4, 4, 20)),
        "udp_checksum.pcap": (at_once([wrong, FRAME]), Seen(2, 2, 10)),
        "padding.pcap": (at_once([make.ethernet(make.ipv4(make.udp(b"")))]), Seen(1, 1, 0)),
    }


def tcp() -> Files:
    """Bytes of TCP come out in order and once, with repeats, a late packet, a wrap, a hole, a beginning in the middle."""

    def packet(data: bytes, sequence: int, flags: int = make.ACK) -> bytes:
        return make.ipv4(make.tcp(data, sequence, flags), make.TCP)

    opened = packet(b"", 0xFFFFFFF0, make.SYN)
    data = bytes(range(100))
    first = 0xFFFFFFF1

    def part(start: int, stop: int) -> bytes:
        return packet(data[start:stop], first + start)

    late = [opened, part(0, 10), part(20, 30), part(20, 30), part(5, 25), part(30, 100)]
    closed = packet(b"", first + 100, make.FIN | make.ACK)
    hole = [opened, part(0, 10), part(60, 100), closed]
    return {
        "tcp_order.pcap": (at_once([*late, closed], link=101), Seen(7, tcp=100)),
        "tcp_hole.pcap": (at_once(hole, link=101), Seen(4, tcp=50, holes=1)),
        "tcp_middle.pcap": (at_once([part(50, 60), part(60, 100)], link=101), Seen(2, tcp=50)),
    }


PITFALLS = (
    magic,
    check_sequence,
    nanoseconds,
    clocks,
    old_blocks,
    blocks_without_packets,
    odd_lengths,
    snap_cut,
    snap_told,
    cut_tail,
    disorder,
    dropped,
    packed,
    tags,
    tunnels,
    links,
    twice,
    fragments,
    ipv6,
    udp,
    tcp,
)


def pitfalls() -> Files:
    """All files: name, content and what must be seen."""
    found: Files = {}
    for make_files in PITFALLS:
        found.update(make_files())
    return found


def write_pitfalls(folder: Path) -> dict[str, Seen]:
    """Write all files; name and what must be seen of each."""
    folder.mkdir(parents=True, exist_ok=True)
    seen = {}
    for name, (content, wanted) in pitfalls().items():
        (folder / name).write_bytes(content)
        seen[name] = wanted
    return seen


if __name__ == "__main__":
    for written, what in write_pitfalls(Path(sys.argv[1])).items():
        print(f"{written}: {what}")
