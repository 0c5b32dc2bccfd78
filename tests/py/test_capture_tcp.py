"""
TCP in a capture: the bytes of each direction must come out in order and once, whatever happened to the packets, and a
byte that is missing must never be passed over in silence.
"""

import random
from collections.abc import Iterable

import pytest

from pyddsi.capture import Endpoint, Segment
from tests.py import make_capture as make
from tests.py.make_capture import ACK, FIN, RST, SYN, read

DIRECTIONS_MAX = make.limit("PDI_TCP_DIRECTIONS_MAX")
HELD_BYTES_MAX = make.limit("PDI_TCP_HELD_MAX")
HELD_OVERHEAD_BYTES = make.limit("PDI_TCP_HELD_OVERHEAD")
JUMP_BYTES_MAX = make.limit("PDI_TCP_JUMP_MAX")
STEP_NS = 100_000
FORTH = (make.HERE, make.THERE)
BACK = (make.THERE, make.HERE)


def packet(
    data: bytes, sequence: int, flags: int = ACK, ways: make.Ways = FORTH, options: bytes = b""
) -> bytes:
    """A TCP packet as a raw IP packet."""
    return make.ipv4(make.tcp(data, sequence, flags, ways, options=options), make.TCP, ways)


def segments(packets: Iterable[bytes], snap: int | None = None) -> list[Segment]:
    """What the reader makes of packets; nothing may be skipped."""
    items, why, error = read(make.pcap(packets, link=101, snap=snap, step_ns=STEP_NS))
    assert error is None
    assert not why
    return [item for item in items if isinstance(item, Segment)]


def words(found: Iterable[Segment]) -> list[str]:
    """Segments in short: number, what is said of them, data."""
    return [
        f"{item.number}"
        + " start" * item.start
        + " lost" * item.lost
        + (f" {item.data.decode()}" if item.data else "")
        + " end" * item.end
        for item in found
    ]


def test_connection() -> None:
    """The simplest connection would come out wrong: ends, numbers, times, or which direction is which."""
    found = segments(
        [
            packet(b"", 100, SYN, options=b"\x02\x04\x05\xb4"),
            packet(b"", 900, SYN | ACK, BACK),
            packet(b"", 101),
            packet(b"scout", 101),
            packet(b"hello", 901, ways=BACK),
            packet(b"open", 106, options=b"\x01" * 12),
            packet(b"", 110, FIN | ACK),
            packet(b"bye", 906, FIN | ACK, BACK),
            packet(b"", 111),
        ]
    )
    here, there = Endpoint(*make.HERE), Endpoint(*make.THERE)
    forth = [item for item in found if item.source == here]
    assert words(forth) == ["1 start", "4 scout", "6 open", "7 end"]
    assert words(item for item in found if item.source == there) == [
        "2 start",
        "5 hello",
        "8 bye",
        "8 end",
    ]
    assert {item.destination for item in forth} == {there}
    assert [item.time_ns for item in forth][1] == make.NOW // 1000 * 1000 + 3 * STEP_NS


@pytest.mark.parametrize("seed", range(40))
def test_any_order(seed: int) -> None:
    """Late, repeated and overlapping packets would lose, double or swap bytes, above all where numbers wrap."""
    chance = random.Random(seed)
    stream = chance.randbytes(chance.randint(1, 3000))
    first = chance.choice([0, 2**31 - 700, 2**32 - 1, 2**32 - 700, chance.randrange(2**32)])
    pieces = []
    at = 0
    while at < len(stream):
        size = chance.randint(1, 120)
        back = chance.choice([0, 0, 0, chance.randint(0, at)])
        pieces.append((at - back, stream[at - back : at + size], ACK))
        at += size
    pieces.append((len(stream), b"", FIN | ACK))
    pieces += [chance.choice(pieces) for _ in range(len(pieces) // 3)]
    reach = chance.choice([1, 8, len(pieces)])
    pieces = [
        piece for _, piece in sorted((n + chance.random() * reach, p) for n, p in enumerate(pieces))
    ]
    packets = [packet(b"", first - 1, SYN)]
    packets += [packet(data, first + at, flags) for at, data, flags in pieces]
    found = segments(packets)
    assert b"".join(item.data for item in found) == stream
    assert [item.start for item in found] == [True] + [False] * (len(found) - 1)
    assert [item.end for item in found] == [False] * (len(found) - 1) + [True]
    assert not any(item.lost for item in found)
    for item in found[1:-1]:
        assert item.data in pieces[item.number - 2][1]


def test_in_the_middle() -> None:
    """A capture that begins within a connection would show nothing, or pretend to know its beginning."""
    found = segments(
        [packet(b"", 7), packet(b"", 7, FIN, BACK), packet(b"one", 7), packet(b"two", 10)]
    )
    assert words(found) == ["3 one", "4 two"]
    assert not any(item.start for item in found)


def test_probes_and_repeats() -> None:
    """Keep-alive probes and repeated packets would put bytes into the stream a second time."""
    found = segments(
        [
            packet(b"abc", 10),
            packet(b"", 12),
            packet(b"c", 12),
            packet(b"bcd", 11),
            packet(b"abcde", 10),
            packet(b"", 15, FIN),
            packet(b"", 15, FIN),
            packet(b"cde", 12),
        ]
    )
    assert words(found) == ["1 abc", "4 d", "5 e", "6 end"]


def test_hole_at_the_end() -> None:
    """Bytes behind a hole would be lost with it, or the hole not be told."""
    found = segments([packet(b"a", 10), packet(b"e", 14), packet(b"c", 12), packet(b"", 15, FIN)])
    assert words(found) == ["1 a", "3 lost c", "2 lost e", "4 end"]


def test_hole_before_an_error() -> None:
    """What waits behind a hole would be lost if the file breaks off."""
    items, _, error = read(make.pcap([packet(b"a", 1), packet(b"c", 3), b"xx"], link=101)[:-1])
    assert error is not None
    assert words(item for item in items if isinstance(item, Segment)) == ["1 a", "2 lost c"]


def test_hole_that_stays_open() -> None:
    """What a peer says would wait for the end of the capture where one packet is missing, and its silence be told."""
    packets = [packet(b"a", 10), packet(b"c", 12), packet(b"d", 13), packet(b"f", 15)]
    packets += [packet(b"h", 17), packet(b"b", 11), packet(b"e", 14)]
    items, _, _ = read(make.pcap(packets, link=101, step_ns=make.SECOND))
    found = [item for item in items if isinstance(item, Segment)]
    assert words(found) == ["1 a", "2 lost c", "3 d", "7 e", "4 f", "5 lost h"]


@pytest.mark.parametrize("size", [1, 1000, 60000])
def test_held_is_bounded(size: int) -> None:
    """One lost byte would hold a whole connection in memory, however it is cut into packets."""
    many = HELD_BYTES_MAX // (size + HELD_OVERHEAD_BYTES) + 1
    packets = [packet(b"first", 0)]
    packets += [packet(bytes(size), 6 + size * n) for n in range(many)]
    found = segments([*packets, packet(b"?", 5), packet(b"last", 6 + size * many)])
    assert b"".join(item.data for item in found) == b"first" + bytes(size * many) + b"last"
    assert [item.number for item in found if item.lost] == [2]
    early = segments([*packets[:-1], packet(b"?", 5)])
    assert not any(item.lost for item in early)
    assert [item.number for item in early][:3] == [1, many + 1, 2]


def test_cut_by_snap_length() -> None:
    """Bytes behind those that a snap length cut would be joined to what is before the cut."""
    packets = [
        packet(b"abcdefgh", 1),
        packet(b"ijkl", 9),
        packet(b"", 13, FIN),
    ]
    assert words(segments(packets, snap=44)) == ["1 abcd", "2 lost ijkl", "3 end"]
    assert words(segments([packets[0], packets[1], packets[2]], snap=40)) == ["3 lost end"]
    assert words(segments([packets[0], packets[1]], snap=42)) == ["1 ab", "2 lost ij"]


def test_reset() -> None:
    """A reset would leave a direction open for ever, or what comes behind it be read as another stream."""
    start = [packet(b"", 0, SYN), packet(b"", 0, SYN | ACK, BACK), packet(b"a", 1), packet(b"c", 3)]
    content = [*start, packet(b"", 1, RST, BACK), packet(b"", 4, RST), packet(b"d", 4)]
    items, why, _ = read(make.pcap(content, link=101))
    found = [item for item in items if isinstance(item, Segment)]
    assert words(found) == ["1 start", "2 start", "3 a", "5 end", "4 lost c", "5 end"]
    assert why == {"TCP after the end": 1}
    assert segments([packet(b"", 1, RST | ACK)]) == []


def test_same_ports_again() -> None:
    """A second connection between the same ends would continue the first one, or a repeated SYN begin a second."""
    syn = packet(b"", 0, SYN)
    found = segments(
        [
            syn,
            syn,
            packet(b"a", 1),
            packet(b"c", 3),
            syn,
            packet(b"", 5000, SYN),
            packet(b"x", 5001),
        ]
    )
    assert words(found) == ["1 start", "3 a", "4 lost c", "6 start", "7 x"]
    found = segments([syn, packet(b"a", 1, FIN), packet(b"", 70, SYN), packet(b"x", 71)])
    assert words(found) == ["1 start", "2 a", "2 end", "3 start", "4 x"]


def test_behind_the_end() -> None:
    """Bytes that cannot be behind the end would be given out as if they were, or vanish without being counted."""
    content = [packet(b"a", 10), packet(b"xy", 12), packet(b"", 11, FIN), packet(b"", 11, FIN)]
    items, why, _ = read(make.pcap(content, link=101))
    assert words(item for item in items if isinstance(item, Segment)) == ["1 a", "3 end"]
    assert why == {"TCP after the end": 1}
    assert words(
        segments([content[0], packet(b"", 12, FIN), packet(b"", 12, FIN), packet(b"b", 11)])
    ) == ["1 a", "4 b", "2 end"]


def test_data_with_syn() -> None:
    """Data that came with the SYN would be lost."""
    assert words(segments([packet(b"ab", 9, SYN), packet(b"c", 12)])) == ["1 start", "1 ab", "2 c"]


@pytest.mark.parametrize("jump", [JUMP_BYTES_MAX + 1, -JUMP_BYTES_MAX - 1, 2**31])
def test_jump(jump: int) -> None:
    """A connection whose SYN was not captured would be taken for repeats of an old one, and vanish."""
    found = segments(
        [packet(b"a", 10), packet(b"c", 12), packet(b"x", 11 + jump), packet(b"y", 12 + jump)]
    )
    assert words(found) == ["1 a", "2 lost c", "3 lost x", "4 y"]
    found = segments([packet(b"a", 10, FIN), packet(b"x", 12 + jump), packet(b"y", 13 + jump)])
    assert words(found) == ["1 a", "1 end", "2 x", "3 y"]


def test_directions_are_bounded() -> None:
    """Connections that never end would fill the memory, or the one in use be dropped instead of the idle one."""
    sources = [((f"10.1.{n // 200}.{n % 200}", 1), make.THERE) for n in range(DIRECTIONS_MAX)]
    packets = [packet(b"a", 0, ways=ways) for ways in sources]
    packets += [packet(b"b", 1, ways=sources[0]), packet(b"d", 3, ways=sources[1]), packet(b"?", 0)]
    packets += [packet(b"c", 2, ways=sources[0]), packet(b"c", 2, ways=sources[2])]
    found = segments(packets)[DIRECTIONS_MAX:]
    n = DIRECTIONS_MAX
    assert words(found) == [
        f"{n + 1} b",
        f"{n + 3} lost end",
        f"{n + 3} ?",
        f"{n + 4} c",
        f"{n + 5} lost end",
        f"{n + 5} c",
        f"{n + 2} lost d",
    ]
    ended = [str(item.source) for item in found if item.end]
    assert ended == [f"10.1.0.{n}:1" for n in (2, 3)]
