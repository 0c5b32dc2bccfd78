"""
What is inside the packets of a capture: link layers, IP with everything it can carry in front, fragments, and the
lengths that contradict each other.
"""

import random
import struct

import pytest

from pyddsi.capture import Datagram
from tests.py import make_capture as make
from tests.py.make_capture import data, read

WAIT_NS_MAX, WAITING_MAX = make.limit("PDI_PIECES_WAIT_NS"), make.limit("PDI_PIECES_WAITING_MAX")
PACKET = make.ipv4(make.udp(b"hello"))
PACKET6 = make.ipv6(make.udp(b"hello", (make.HERE6, make.THERE6)))
COOKED = struct.pack(">HHH8s", 0, 1, 6, bytes(8))
COOKED2 = struct.pack(">HHIHBB8s", make.IPV4, 0, 2, 1, 0, 6, bytes(8))
TAG = struct.pack(">HH", 100, make.IPV4)


@pytest.mark.parametrize(
    ("link", "frame"),
    [
        (1, make.ethernet(PACKET)),
        (1, make.ethernet(PACKET6)),
        (1, make.ethernet(PACKET, tags=[0x8100])),
        (1, make.ethernet(PACKET6, tags=[0x88A8, 0x8100])),
        (101, PACKET),
        (101, PACKET6),
        (12, PACKET),
        (14, PACKET6),
        (228, PACKET),
        (229, PACKET6),
        (0, b"\x02\0\0\0" + PACKET),
        (0, b"\0\0\0\x02" + PACKET),
        (0, b"\x1e\0\0\0" + PACKET6),
        (0, b"\x0a\0\0\0" + PACKET6),
        (108, b"\0\0\0\x02" + PACKET),
        (108, b"\0\0\0\x18" + PACKET6),
        (113, COOKED + struct.pack(">H", make.IPV4) + PACKET),
        (113, COOKED + struct.pack(">H", make.IPV6) + PACKET6),
        (113, COOKED + struct.pack(">H", 0x8100) + TAG + PACKET),
        (276, COOKED2 + PACKET),
        (276, struct.pack(">H", make.IPV6) + COOKED2[2:] + PACKET6),
        (1, make.ethernet(make.ipv4(make.udp(b"hello"), options=b"\x07\x07\x04" + bytes(5)))),
    ],
)
def test_links(link: int, frame: bytes) -> None:
    """Captures of a usual kind of interface would show nothing, or bytes that are not payload."""
    items, why, error = read(make.pcap([frame, frame], link=link))
    assert error is None
    assert not why
    assert [item.data for item in items] == [b"hello", b"hello"]
    ends = make.HERE[0], make.THERE[0]
    ends6 = make.HERE6[0], make.THERE6[0]
    assert (items[0].source.address, items[0].destination.address) in {ends, ends6}
    assert (items[0].source.port, items[0].destination.port) == (40000, 7447)


HOP, ROUTING, FRAGMENT, AUTHENTICATION, OPTIONS = 0, 43, 44, 51, 60
EIGHT = b"\0" + bytes(6)  # the rest of an extension header of 8 bytes


@pytest.mark.parametrize(
    "extensions",
    [
        [(HOP, EIGHT)],
        [(HOP, b"\x02" + bytes(22)), (OPTIONS, EIGHT), (ROUTING, EIGHT)],
        [(AUTHENTICATION, b"\x04" + bytes(22))],
        [(FRAGMENT, EIGHT)],  # the only fragment is no fragment
        [(OPTIONS, EIGHT)] * 8,
    ],
)
def test_ipv6_extensions(extensions: list[tuple[int, bytes]]) -> None:
    """A header between IPv6 and UDP would hide the datagram, or be read as one."""
    packet = make.ipv6(make.udp(b"hello"), extensions=extensions)
    assert data(make.pcap([packet], link=101)) == [b"hello"]


@pytest.mark.parametrize(
    ("link", "frame", "reason"),
    [
        (1, make.ethernet(bytes(28), 0x0806), "ethertype 0x0806"),
        (1, make.ethernet(bytes(28), 0x0026), "no ethertype (802.3)"),
        (1, make.ethernet(PACKET, tags=[0x8100] * 3), "ethertype 0x8100"),
        (1, b"", "short packet"),
        (1, make.ethernet(PACKET)[:13], "short packet"),
        (1, make.ethernet(PACKET)[:14], "short packet"),
        (1, make.ethernet(PACKET, tags=[0x8100])[:17], "short packet"),
        (105, PACKET, "link type 105"),
        (0, b"\x07\0\0\0" + PACKET, "address family 7"),
        (0, b"\x02\0\0", "short packet"),
        (276, COOKED2[:19], "short packet"),
        (101, b"", "short packet"),
        (101, b"\x50" + PACKET[1:], "bad IP header"),
        (101, b"\x44" + PACKET[1:], "bad IP header"),
        (101, make.ipv4(make.udp(b"hello"), length=19), "bad IP header"),
        (101, PACKET[:19], "short packet"),
        (101, PACKET[:27], "short packet"),
        (101, make.ipv4(make.udp(b"hello"), length=27), "short packet"),
        (101, make.ipv4(b"", 1), "IP protocol 1"),
        (101, PACKET6[:39], "short packet"),
        (101, PACKET6[:47], "short packet"),
        (101, make.ipv6(b"", 58), "IP protocol 58"),
        (101, make.ipv6(make.udp(b"x"), extensions=[(OPTIONS, EIGHT)] * 9), "IP protocol 60"),
        (101, make.ipv6(b"", extensions=[(HOP, b"\xff")]), "short packet"),
        (101, make.ipv6(b"", extensions=[(HOP, b"\xff" + bytes(6))]), "short packet"),
        (101, make.ipv6(make.udp(b"hello"), extensions=[(HOP, EIGHT)])[:41], "short packet"),
        (101, make.ipv4(make.tcp(b"", 1)[:19], make.TCP), "short packet"),
        (101, make.ipv4(make.tcp(b"", 1, offset=4), make.TCP), "bad TCP header"),
        (101, make.ipv4(make.tcp(b"", 1, offset=6), make.TCP), "bad TCP header"),
        (101, make.ipv4(bytes(8), place=0x2000)[:27], "fragment"),
        (
            101,
            make.ipv6(bytes(8), extensions=[(FRAGMENT, b"\0\0\x01" + bytes(4))])[:55],
            "fragment",
        ),
    ],
)
def test_skipped(link: int, frame: bytes, reason: str) -> None:
    """A packet of another kind would stop the reading, be taken for ours, or vanish without being counted."""
    # alone it is the last of the file; with another behind it there would be more bytes to read beyond its end
    good = {1: make.ethernet(PACKET), 0: b"\x02\0\0\0" + PACKET, 276: COOKED2 + PACKET}.get(
        link, PACKET
    )
    items, why, error = read(make.pcap([frame], link=link))
    assert (items, why, error) == ([], {reason: 1}, None)
    items, why, error = read(make.pcap([frame, good], link=link))
    assert error is None
    if link == 105:
        assert why == {reason: 2}
    else:
        assert why == {reason: 1}
        assert [item.number for item in items] == [2]


@pytest.mark.parametrize("length", [0, 7, 20, 65535])
def test_udp_length_against_ip(length: int) -> None:
    """A wrong UDP length would read beyond the packet, or throw the payload away."""
    frame = make.ethernet(make.ipv4(make.udp(b"hello", length=length)))
    items, _, _ = read(make.pcap([frame]))
    assert [(item.data, item.cut) for item in items if isinstance(item, Datagram)] == [
        (b"hello", False)
    ]


def test_udp_length_within_ip() -> None:
    """What stands behind a datagram inside its IP packet would be taken for payload."""
    frame = make.ethernet(make.ipv4(make.udp(b"hello" + bytes(9), length=13)))
    assert data(make.pcap([frame])) == [b"hello"]


def test_ip_without_length() -> None:
    """Packets captured before the network card cut them up carry no length, and would be lost."""
    packets = [
        make.ipv4(make.udp(bytes(60000), length=0), length=0),
        make.ipv6(make.udp(bytes(70000), length=0), length=0),
    ]
    assert [len(item) for item in data(make.pcap(packets, link=101))] == [60000, 70000]


@pytest.mark.parametrize("snap", [60, 100, 142])
def test_cut_by_snap_length(snap: int) -> None:
    """A cut datagram would pass for a whole one, or a whole one for cut."""
    frame = make.ethernet(make.ipv4(make.udp(bytes(range(100)))))
    small = make.ethernet(make.ipv4(make.udp(b"hello")))
    items, _, _ = read(make.pcap([frame, small], snap=snap))
    first, second = (item for item in items if isinstance(item, Datagram))
    assert (first.data, first.cut) == (bytes(range(snap - 42)), snap < 142)
    assert (second.data, second.cut) == (b"hello", False)


PAYLOAD = random.Random(1).randbytes(2000)  # no part of it is like another
WHOLE = make.udp(PAYLOAD)


def piece4(start: int, stop: int, identity: int = 1) -> bytes:
    """A part of WHOLE as an IPv4 fragment."""
    more = 0x2000 if stop < len(WHOLE) else 0
    return make.ipv4(WHOLE[start:stop], place=start // 8 | more, identity=identity)


def piece6(start: int, stop: int, identity: int = 1) -> bytes:
    """A part of WHOLE as an IPv6 fragment, behind an extension header."""
    more = stop < len(WHOLE)
    fragment = b"\0" + struct.pack(">HI", start | more, identity)
    return make.ipv6(WHOLE[start:stop], extensions=[(HOP, EIGHT), (FRAGMENT, fragment)])


END = len(WHOLE)
ORDERS = [
    [(0, 800), (800, 1600), (1600, END)],
    [(1600, END), (800, 1600), (0, 800)],
    [(0, 800), (0, 800), (1600, END), (1600, END), (800, 1600)],  # seen twice
    [(0, 1000), (800, 1600), (1600, END)],  # overlapping
    [(0, 800), (1600, END), (800, END)],
    [
        (0, 800),
        (8, 808),
        (16, 816),
        (1600, END),
        (800, 1600),
    ],  # as many bytes as the whole, and a gap
]


@pytest.mark.parametrize("piece", [piece4, piece6])
@pytest.mark.parametrize("order", ORDERS)
def test_fragments(piece: object, order: list[tuple[int, int]]) -> None:
    """A datagram in pieces would be lost, or put together wrongly."""
    make_piece = piece4 if piece is piece4 else piece6
    packets = [make_piece(*place) for place in order]
    items, why, _ = read(make.pcap(packets, link=101))
    assert [item.data for item in items] == [PAYLOAD]
    assert (items[0].number, items[0].source.port) == (len(order), 40000)
    assert not why


def test_fragments_of_different_packets() -> None:
    """Pieces of two datagrams would be mixed, because only the identity, or only an address, was looked at."""
    other = [make.ipv4(bytes(8), 6, place=0x2000), piece4(800, END, identity=2)]
    items, why, _ = read(make.pcap([piece4(0, 800), *other, piece4(800, END)], link=101))
    assert [item.number for item in items] == [4]
    assert why == {"fragment": 2}


def test_fragment_identity_used_again() -> None:
    """A datagram whose head was lost would get the head of a later one."""
    wait = WAIT_NS_MAX // make.SECOND
    between = [PACKET] * wait
    late = [piece4(800, END), *between, piece4(0, 800), piece4(800, END)]
    items, why, _ = read(make.pcap(late, link=101))
    assert [item.number for item in items if len(item.data) > 5] == [len(late)]
    assert why == {"fragment": 1}
    changed = make.ipv4(bytes(800), place=0x2000)
    items, why, _ = read(make.pcap([changed, piece4(0, 800), piece4(800, END)], link=101))
    assert [item.data for item in items] == [PAYLOAD]
    assert why == {"fragment": 1}


def test_fragments_are_bounded() -> None:
    """Pieces that never become whole would fill the memory."""
    begun = [piece4(0, 800, identity=n) for n in range(WAITING_MAX + 10)]
    done = [piece4(800, END, identity=10), piece4(800, END, identity=9)]
    # at one moment, so that only their number ends the wait
    items, why, _ = read(make.pcap([*begun, *done], link=101, step_ns=0))
    assert [item.number for item in items] == [len(begun) + 1]
    assert why == {"fragment": WAITING_MAX + 10}
    huge = [make.ipv4(bytes(65000), place=0x2000), make.ipv4(bytes(65000), place=1)]
    items, why, _ = read(make.pcap(huge, link=101))
    assert items == []
    assert why == {"fragment": 2}


@pytest.mark.parametrize("piece", [piece4, piece6])
def test_cut_fragment(piece: object) -> None:
    """A fragment cut by the snap length would be filled up with what stands behind it in the file."""
    make_piece = piece4 if piece is piece4 else piece6
    packets = [make_piece(0, 800)[:500], PACKET, make_piece(800, END)]
    items, why, _ = read(make.pcap(packets, link=101))
    assert [item.data for item in items] == [b"hello"]
    assert why == {"fragment": 2}
